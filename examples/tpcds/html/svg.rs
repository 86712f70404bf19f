//! What all charts share: texts, numbers and an axis that counts in round steps.

use std::fmt::{self, Display, Formatter};

/// Width of every chart, in its own units; a page shows it as wide as its column.
pub(crate) const WIDTH: f64 = 420.0;

/// Text that HTML and SVG take as it is.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// A chart with its title, to be filled with `body`.
pub(crate) fn chart(id: &str, title: &str, height: f64, body: &str) -> String {
    let (id, title) = (Escaped(id), Escaped(title));
    format!(
        "<svg class=\"chart\" id=\"{id}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\
         <title>{title}</title><text class=\"title\" x=\"0\" y=\"16\">{title}</text>{body}</svg>\n"
    )
}

/// Room that labels at the left of a chart take.
pub(crate) fn label_room<'a>(labels: impl IntoIterator<Item = &'a str>) -> f64 {
    let longest = labels.into_iter().map(|label| label.chars().count()).max().unwrap_or(0);
    12.0 + 6.6 * f64::from(u32::try_from(longest).unwrap_or(0))
}

/// A count as it is drawn.
#[expect(clippy::cast_precision_loss, reason = "drawn with three digits")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

/// A number with about three digits.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else if size < 0.000_5 {
        "<0.001".to_owned()
    } else if size < 0.095 {
        format!("{value:.3}")
    } else if size < 9.95 {
        format!("{value:.2}")
    } else if size < 99.5 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// From zero to a little more than the largest value, in round steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    pub(crate) step: f64,
    pub(crate) end: f64,
    /// Where zero is, and where the end is.
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Scale {
    /// About `count` steps up to `largest`, drawn from `from` to `to`.
    pub(crate) fn new(largest: f64, count: f64, from: f64, to: f64) -> Self {
        let rough = largest.max(1e-9) / count;
        let power = 10_f64.powf(rough.log10().floor());
        let round = [1.0, 2.0, 2.5, 5.0, 10.0].map(|digit| digit * power);
        let step = round.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(rough);
        let end = (largest / step - 1e-9).ceil().max(1.0) * step;
        Self { step, end, from, to }
    }

    pub(crate) fn at(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * (value / self.end).clamp(0.0, 1.0)
    }

    /// The values that get a line and a label, zero first.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let steps = (self.end / self.step).round();
        let mut ticks = Vec::new();
        let mut tick = 0.0;
        while tick <= steps {
            ticks.push(tick * self.step);
            tick += 1.0;
        }
        ticks
    }

    /// A tick without digits that say nothing.
    pub(crate) fn label(&self, tick: f64) -> String {
        let digits = [1.0, 10.0, 100.0, 1_000.0].into_iter().position(|times| {
            let scaled = self.step * times;
            (scaled - scaled.round()).abs() < 1e-6
        });
        format!("{tick:.0$}", digits.unwrap_or(3))
    }
}

/// The unit in which sizes up to `largest` bytes are drawn: its name and its bytes.
pub(crate) fn byte_unit(largest: f64) -> (&'static str, f64) {
    let units = [("KB", 1024.0), ("MB", 1024.0 * 1024.0), ("GB", 1024.0 * 1024.0 * 1024.0)];
    let fits = |unit: &&(&str, f64)| largest >= unit.1;
    units.iter().rev().find(fits).copied().unwrap_or(("bytes", 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_reach_the_largest_value() {
        for (largest, step, end) in
            [(7.3, 2.0, 8.0), (99.0, 25.0, 100.0), (0.031, 0.01, 0.04), (0.0, 2.5e-10, 2.5e-10)]
        {
            let scale = Scale::new(largest, 4.0, 0.0, 100.0);
            assert!((scale.step - step).abs() < 1e-12, "{largest}: {scale:?}");
            assert!((scale.end - end).abs() < 1e-9, "{largest}: {scale:?}");
        }
    }

    #[test]
    fn ticks_are_labelled_with_the_digits_of_their_step() {
        let scale = Scale::new(1.0, 4.0, 50.0, 150.0);
        let labels: Vec<_> = scale.ticks().iter().map(|tick| scale.label(*tick)).collect();
        assert_eq!(labels, ["0.00", "0.25", "0.50", "0.75", "1.00"]);
        assert!((scale.at(0.5) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn numbers_have_three_digits() {
        let texts = [0.0, 0.000_1, 0.0123, 1.234, 12.34, 99.0, 1_234.6].map(number);
        assert_eq!(texts, ["0", "<0.001", "0.012", "1.23", "12.3", "99", "1235"]);
    }

    #[test]
    fn texts_cannot_leave_their_place() {
        assert_eq!(Escaped("a<b>&\"c\"").to_string(), "a&lt;b&gt;&amp;&quot;c&quot;");
    }
}
