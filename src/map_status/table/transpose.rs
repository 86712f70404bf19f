//! Bytes by map to bytes by partition.

use std::ops::Range;

/// Side of a tile: its rows are read, and its columns written, a cache line at a time.
const TILE: usize = 64;

/// Writes columns `columns` of `rows` to `dst`, one column after another, `rows.len()` bytes each. Every row has the
/// columns, and `dst` the size.
pub(super) fn transpose(rows: &[&[u8]], columns: Range<usize>, dst: &mut [u8]) {
    let count = rows.len();
    let mut tile = [0; TILE * TILE];
    for (chunk, rows) in rows.chunks(TILE).enumerate() {
        let first = chunk * TILE;
        for column in columns.clone().step_by(TILE) {
            fill_tile(rows, column, &mut tile);
            let start = (column - columns.start) * count + first;
            let targets = dst.get_mut(start..).unwrap_or_default().chunks_mut(count);
            let (turned, _) = tile.as_chunks::<TILE>();
            for (target, bytes) in targets.zip(turned).take(columns.end - column) {
                match target.first_chunk_mut::<TILE>() {
                    Some(slot) if rows.len() == TILE => *slot = *bytes,
                    _ => target.iter_mut().zip(bytes).take(rows.len()).for_each(|(t, b)| *t = *b),
                }
            }
        }
    }
}

/// Turns up to 64 columns of up to 64 rows; what is beyond them in the tile is of no use.
fn fill_tile(rows: &[&[u8]], column: usize, tile: &mut [u8; TILE * TILE]) {
    const WORDS: usize = TILE / 8;
    // Rows lie apart in memory. Copying them first lets the processor wait for many at once.
    let mut lines = [[0_u8; TILE]; TILE];
    for (line, row) in lines.iter_mut().zip(rows) {
        let bytes = row.get(column..).unwrap_or_default();
        match bytes.first_chunk::<TILE>() {
            Some(bytes) => *line = *bytes,
            None => line.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = *byte),
        }
    }
    let (slots, _) = tile.as_chunks_mut::<8>();
    let (bands, _) = lines.as_chunks::<8>();
    for (band, lines) in bands.iter().enumerate() {
        let words = lines.each_ref().map(|line| line.as_chunks::<8>().0);
        for group in 0..WORDS {
            let word = |words: &[[u8; 8]]| words.get(group).map_or(0, |w| u64::from_le_bytes(*w));
            let turned = transpose_8x8(words.map(word));
            let targets = slots.iter_mut().skip(group * 8 * WORDS + band).step_by(WORDS);
            targets.zip(turned).for_each(|(slot, word)| *slot = word.to_le_bytes());
        }
    }
}

/// Swaps blocks of 4, 2 and 1 bytes across the diagonal (Warren, "Hacker's Delight", 7-3).
#[inline]
fn transpose_8x8(mut x: [u64; 8]) -> [u64; 8] {
    const STEPS: [(usize, u32, u64); 3] = [
        (4, 32, 0x0000_0000_ffff_ffff),
        (2, 16, 0x0000_ffff_0000_ffff),
        (1, 8, 0x00ff_00ff_00ff_00ff),
    ];
    for (distance, shift, mask) in STEPS {
        let mut at = 0;
        while at < 8 {
            for low in at..at + distance {
                swap(&mut x, low, low + distance, shift, mask);
            }
            at += 2 * distance;
        }
    }
    x
}

#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "both are below 8")]
fn swap(x: &mut [u64; 8], low: usize, high: usize, shift: u32, mask: u64) {
    let t = ((x[low & 7] >> shift) ^ x[high & 7]) & mask;
    x[high & 7] ^= t;
    x[low & 7] ^= t << shift;
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "the values are small")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn columns_come_out_whole(maps in 1usize..200, width in 1usize..150, skip in 0usize..90) {
            let bytes = |map: usize| -> Vec<u8> {
                (0..skip + width + 3).map(|p| (map * 31 + p * 7 + p * p) as u8).collect()
            };
            let rows: Vec<Vec<u8>> = (0..maps).map(bytes).collect();
            let slices: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
            let mut out = vec![0; maps * width];
            transpose(&slices, skip..skip + width, &mut out);
            for column in 0..width {
                for map in 0..maps {
                    prop_assert_eq!(out[column * maps + map], rows[map][skip + column]);
                }
            }
        }
    }
}
