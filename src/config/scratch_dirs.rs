use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::parse_size;

/// A scratch directory, as `ifile.scratch_dirs` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScratchDir {
    /// The directory. It is made where it is missing.
    pub path: PathBuf,
    /// Most bytes that the exchanges of this process hold in it together.
    pub limit: Option<u64>,
    /// Directories of a lower number are filled first.
    pub priority: u32,
}

/// The list of `ifile.scratch_dirs`: `path[:limit[:priority]]`, separated by commas.
///
/// A limit is a number of bytes or has a suffix `KB`, `MB`, `GB` or `TB`; without one there is none. The
/// best priority is 0; a directory without one comes last. Directories of one priority take turns. Paths
/// have neither commas nor colons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScratchDirs(Vec<ScratchDir>);

impl ScratchDirs {
    /// The directories, in the order of the list.
    pub fn as_slice(&self) -> &[ScratchDir] {
        &self.0
    }
}

impl From<Vec<ScratchDir>> for ScratchDirs {
    fn from(dirs: Vec<ScratchDir>) -> Self {
        Self(dirs)
    }
}

impl FromStr for ScratchDirs {
    type Err = String;

    fn from_str(value: &str) -> Result<Self, String> {
        if value.trim().is_empty() {
            return Ok(Self::default());
        }
        let dirs = value.split(',').map(parse_dir).collect::<Result<Vec<_>, _>>()?;
        for (index, dir) in dirs.iter().enumerate() {
            if dirs.iter().take(index).any(|before| before.path == dir.path) {
                return Err(format!("{} is listed twice", dir.path.display()));
            }
        }
        Ok(Self(dirs))
    }
}

fn parse_dir(text: &str) -> Result<ScratchDir, String> {
    let mut tokens = text.split(':').map(str::trim);
    let path = tokens.next().unwrap_or_default();
    let (limit, priority) = (tokens.next().unwrap_or_default(), tokens.next().unwrap_or_default());
    if path.is_empty() {
        return Err("a directory without a path".to_owned());
    }
    if tokens.next().is_some() {
        return Err(format!("'{}' has more than a limit and a priority", text.trim()));
    }
    let of = |error: String| format!("{error} in '{}'", text.trim());
    Ok(ScratchDir {
        path: path.into(),
        limit: match limit {
            "" => None,
            limit => Some(parse_size(limit).map_err(of)?),
        },
        priority: match priority {
            "" => u32::MAX,
            priority => priority.parse().map_err(|_| of("a priority is a number".to_owned()))?,
        },
    })
}

impl fmt::Display for ScratchDirs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, dir) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}", dir.path.display())?;
            match (dir.limit, dir.priority) {
                (None, u32::MAX) => {}
                (Some(limit), u32::MAX) => write!(f, ":{limit}")?,
                (None, priority) => write!(f, "::{priority}")?,
                (Some(limit), priority) => write!(f, ":{limit}:{priority}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(path: &str, limit: Option<u64>, priority: u32) -> ScratchDir {
        ScratchDir { path: path.into(), limit, priority }
    }

    #[test]
    fn lists_are_parsed_and_shown() {
        let value = "/a, /b:1KB ,/c:2 MB:0,/d::7,/e:0:4294967295";
        let dirs: ScratchDirs = value.parse().unwrap();
        let expected = [
            dir("/a", None, u32::MAX),
            dir("/b", Some(1 << 10), u32::MAX),
            dir("/c", Some(2 << 20), 0),
            dir("/d", None, 7),
            dir("/e", Some(0), u32::MAX),
        ];
        assert_eq!(dirs.as_slice(), expected);
        assert_eq!(dirs.to_string(), "/a,/b:1024,/c:2097152:0,/d::7,/e:0");
        assert_eq!(dirs.to_string().parse(), Ok(dirs));
        assert_eq!(" ".parse(), Ok(ScratchDirs::default()));
        assert_eq!(ScratchDirs::default().to_string(), "");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (value, wrong) in [
            ("/a,", "without a path"),
            (":1KB", "without a path"),
            ("/a:1XB", "not a number of bytes"),
            ("/a:-1", "not a number of bytes"),
            ("/a:99999999999TB", "out of range"),
            ("/a:1KB:first", "a priority is a number"),
            ("/a:1KB:-1", "a priority is a number"),
            ("/a:1KB:1:1", "more than a limit and a priority"),
            ("/a,/b,/a:1KB", "/a is listed twice"),
        ] {
            let error = value.parse::<ScratchDirs>().unwrap_err();
            assert!(error.contains(wrong), "{value}: {error}");
        }
    }
}
