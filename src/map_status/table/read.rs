//! A table's parts, each read on its own.

use std::ops::Range;

use super::super::numbers::take_vint;
use super::super::size_code::decode_size;
use super::super::sizes::BlockSizes;
use super::super::status::MapStatus;
use super::super::status_bytes::{CHECKSUMS, EXACT, MEMORY, ROWS, SEGMENTS, take_u32s, take_vints};
use super::header::{Head, Kind, Section, Shape};
use super::maps::{table_place, take_maps};
use crate::codec::{Decompressor, to_u64};
use crate::error::{Fault, IFileError, Result};
use crate::wire::Cursor;

/// A table whose head and directory are checked; sections are checked as they are read.
pub struct StatusTable<'a> {
    bytes: &'a [u8],
    head: Head,
}

impl std::fmt::Debug for StatusTable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusTable").field("shape", &self.head.shape).finish_non_exhaustive()
    }
}

/// Codec state and buffers for reading tables, to be used again and again.
#[derive(Debug, Default)]
pub struct TableScratch {
    decompressor: Decompressor,
    raw: Vec<u8>,
}

impl<'a> StatusTable<'a> {
    /// Opens a table.
    ///
    /// # Errors
    /// [`IFileError::Corrupt`] if head or directory are not those of a table of this length.
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        Ok(Self { bytes, head: Head::take(bytes)? })
    }

    fn shape(&self) -> &Shape {
        &self.head.shape
    }

    /// Map outputs.
    #[must_use]
    pub fn maps(&self) -> usize {
        self.shape().maps as usize
    }

    /// Partitions.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.shape().partitions as usize
    }

    /// The epoch it was made in.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.shape().epoch
    }

    /// Whether sizes are codes.
    #[must_use]
    pub fn is_coded(&self) -> bool {
        self.shape().flags & EXACT == 0
    }

    fn section(&self, page: usize, kind: Kind) -> Option<&Section> {
        let at = self.shape().kinds().position(|other| other == kind)?;
        self.head.sections.get(page * self.shape().kinds().count() + at)
    }

    /// Puts the codes of all partitions into `codes`, those of partition 0 for all maps first. The buffer is resized.
    /// Exact entries are not looked at.
    ///
    /// # Errors
    /// [`IFileError::Usage`] if the table has exact sizes, [`IFileError::Corrupt`] for damaged pages.
    pub fn codes_into(&self, scratch: &mut TableScratch, codes: &mut Vec<u8>) -> Result<()> {
        if !self.is_coded() {
            return Err(IFileError::Usage("read codes of a table of exact sizes"));
        }
        let (maps, pages) = (self.maps(), self.shape().pages() as usize);
        // All lengths are held against the directory before the buffer grows.
        let mut total = 0_usize;
        for page in 0..pages {
            total = total.saturating_add(self.checked_codes(page)?.1);
        }
        codes.resize(total, 0);
        let mut rest = codes.as_mut_slice();
        for page in 0..pages {
            let (section, len) = self.checked_codes(page)?;
            let Some((slot, more)) = rest.split_at_mut_checked(len) else { break };
            section.inflate(self.bytes, &mut scratch.decompressor, slot)?;
            rest = more;
        }
        debug_assert_eq!(total, maps * self.partitions());
        Ok(())
    }

    /// Partitions of a page.
    fn page(&self, page: usize) -> Range<usize> {
        let per_page = self.shape().per_page as usize;
        let start = page.saturating_mul(per_page).min(self.partitions());
        start..start.saturating_add(per_page).min(self.partitions())
    }

    /// The section of a page's codes, and its length by maps and partitions, which agrees.
    fn checked_codes(&self, page: usize) -> Result<(&Section, usize)> {
        let Some(section) = self.section(page, Kind::Sizes) else {
            return Err(IFileError::Usage("read a page that does not exist"));
        };
        let len = self.page(page).len().saturating_mul(self.maps());
        if section.raw != to_u64(len) {
            let (what, found) = ("codes of a page", section.raw);
            let fault = Fault::Invalid { what, expected: to_u64(len), found };
            return Err(IFileError::corrupt(fault, table_place(section.offset)));
        }
        Ok((section, len))
    }

    fn inflate<'s>(&self, section: &Section, scratch: &'s mut TableScratch) -> Result<&'s [u8]> {
        let len = usize::try_from(section.raw).unwrap_or(usize::MAX);
        if scratch.raw.len() < len {
            scratch.raw.resize(len, 0);
        }
        let raw = scratch.raw.get_mut(..len).unwrap_or_default();
        section.inflate(self.bytes, &mut scratch.decompressor, raw)?;
        Ok(raw)
    }

    /// The sizes of `partitions`, for all maps of the first, then of the second. Pages of other partitions are not
    /// inflated.
    ///
    /// # Errors
    /// [`IFileError::Corrupt`] for damaged pages; partitions that do not exist give nothing.
    pub fn sizes(&self, scratch: &mut TableScratch, partitions: Range<usize>) -> Result<Vec<u64>> {
        let mut sizes = Vec::new();
        self.each_page(partitions, |page, wanted| {
            if !self.is_coded() {
                return self.vints(scratch, Kind::Sizes, page, wanted, &mut sizes);
            }
            let maps = self.maps();
            let (section, _) = self.checked_codes(page)?;
            let first = sizes.len();
            let codes = self.inflate(section, scratch)?;
            let codes = codes.get(wanted.start * maps..wanted.end * maps).unwrap_or_default();
            sizes.extend(codes.iter().map(|&code| decode_size(code)));
            self.entries(scratch, page, |partition, map, size| {
                let at = partition.checked_sub(wanted.start).map(|at| first + at * maps + map);
                if let Some(slot) =
                    at.filter(|_| partition < wanted.end).and_then(|at| sizes.get_mut(at))
                {
                    *slot = size;
                }
            })
        })?;
        Ok(sizes)
    }

    /// The rows of `partitions`, ordered as [`StatusTable::sizes`]; `None` if the table has none.
    ///
    /// # Errors
    /// [`IFileError::Corrupt`] for damaged pages.
    pub fn rows(
        &self,
        scratch: &mut TableScratch,
        partitions: Range<usize>,
    ) -> Result<Option<Vec<u64>>> {
        self.column(scratch, Kind::Rows, partitions)
    }

    /// Bytes of the rows as Arrow arrays, as [`StatusTable::rows`].
    ///
    /// # Errors
    /// [`IFileError::Corrupt`] for damaged pages.
    pub fn memory_bytes(
        &self,
        scratch: &mut TableScratch,
        partitions: Range<usize>,
    ) -> Result<Option<Vec<u64>>> {
        self.column(scratch, Kind::Memory, partitions)
    }

    fn column(
        &self,
        scratch: &mut TableScratch,
        kind: Kind,
        partitions: Range<usize>,
    ) -> Result<Option<Vec<u64>>> {
        if self.shape().kinds().all(|other| other != kind) {
            return Ok(None);
        }
        let mut values = Vec::new();
        self.each_page(partitions, |page, wanted| {
            self.vints(scratch, kind, page, wanted, &mut values)
        })?;
        Ok(Some(values))
    }

    /// Calls `read` with each page that has some of `partitions`, and which of the page's they are.
    fn each_page(
        &self,
        partitions: Range<usize>,
        mut read: impl FnMut(usize, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let end = partitions.end.min(self.partitions());
        let per_page = (self.shape().per_page as usize).max(1);
        let mut start = partitions.start;
        while start < end {
            let page = start / per_page;
            let all = self.page(page);
            let stop = all.end.min(end);
            read(page, start - all.start..stop - all.start)?;
            start = stop;
        }
        Ok(())
    }

    /// Takes the vints of partitions `wanted` of a page.
    fn vints<T: TryFrom<u64>>(
        &self,
        scratch: &mut TableScratch,
        kind: Kind,
        page: usize,
        wanted: Range<usize>,
        values: &mut Vec<T>,
    ) -> Result<()> {
        let Some(section) = self.section(page, kind) else { return Ok(()) };
        let offset = section.offset;
        let mut cursor = Cursor::new(self.inflate(section, scratch)?, table_place(offset));
        let maps = self.maps();
        for _ in 0..wanted.start.saturating_mul(maps) {
            take_vint(&mut cursor, "number of a partition")?;
        }
        let count = wanted.len().saturating_mul(maps);
        values.append(&mut take_vints(&mut cursor, count, "number of a partition")?);
        Ok(())
    }

    /// Calls `each` with the exact entries of a page: partition in the page, map, size.
    fn entries(
        &self,
        scratch: &mut TableScratch,
        page: usize,
        mut each: impl FnMut(usize, usize, u64),
    ) -> Result<()> {
        let Some(section) = self.section(page, Kind::Entries) else { return Ok(()) };
        let (offset, maps, in_page) = (section.offset, self.maps(), self.page(page).len());
        let mut cursor = Cursor::new(self.inflate(section, scratch)?, table_place(offset));
        while cursor.remaining() > 0 {
            let partition = take_vint(&mut cursor, "partition of an exact entry")?;
            let map = take_vint(&mut cursor, "map of an exact entry")?;
            let size = take_vint(&mut cursor, "exact size")?;
            let found = partition.max(map);
            let places = usize::try_from(partition).ok().zip(usize::try_from(map).ok());
            match places.filter(|&(partition, map)| partition < in_page && map < maps) {
                Some((partition, map)) => each(partition, map, size),
                None => {
                    let fault =
                        Fault::Invalid { what: "exact entry", expected: to_u64(maps), found };
                    return Err(IFileError::corrupt(fault, table_place(offset)));
                }
            }
        }
        Ok(())
    }

    /// What the table says of each map beside its partitions: sizes and columns are empty.
    ///
    /// # Errors
    /// [`IFileError::Corrupt`] for damaged map columns.
    pub fn outputs(&self, scratch: &mut TableScratch) -> Result<Vec<MapStatus>> {
        let raw = self.inflate(&self.head.maps, scratch)?;
        take_maps(raw, self.maps(), self.shape().partitions)
    }

    /// All statuses, in the order of their map ids.
    ///
    /// # Errors
    /// [`IFileError::Corrupt`] for any damage.
    pub fn statuses(&self, scratch: &mut TableScratch) -> Result<Vec<MapStatus>> {
        let mut statuses = self.outputs(scratch)?;
        let has = |flag: u16| self.shape().flags & flag != 0;
        let (all, maps) = (0..self.partitions(), self.maps());
        if self.is_coded() {
            let mut codes = Vec::new();
            self.codes_into(scratch, &mut codes)?;
            for (status, codes) in statuses.iter_mut().zip(by_map(&codes, maps)) {
                status.sizes = BlockSizes::Coded { codes, exact: Vec::new() };
            }
            for page in 0..self.shape().pages() as usize {
                let first = self.page(page).start;
                self.entries(scratch, page, |partition, map, size| {
                    let sizes = statuses.get_mut(map).map(|status| &mut status.sizes);
                    let partition = u32::try_from(first + partition).unwrap_or(u32::MAX);
                    if let Some(BlockSizes::Coded { exact, .. }) = sizes {
                        exact.push((partition, size));
                    }
                })?;
            }
        } else {
            let sizes = self.sizes(scratch, all.clone())?;
            for (status, sizes) in statuses.iter_mut().zip(by_map(&sizes, maps)) {
                status.sizes = BlockSizes::Exact(sizes);
            }
        }
        for (kind, flag) in [(Kind::Rows, ROWS), (Kind::Memory, MEMORY), (Kind::Segments, SEGMENTS)]
        {
            let values = match has(flag) {
                true => self.column(scratch, kind, all.clone())?.unwrap_or_default(),
                false => continue,
            };
            for (status, values) in statuses.iter_mut().zip(by_map(&values, maps)) {
                match kind {
                    Kind::Rows => status.columns.rows = Some(values),
                    Kind::Memory => status.columns.memory_bytes = Some(values),
                    _ => status.columns.segments = Some(narrowed(&values)?),
                }
            }
        }
        if has(CHECKSUMS) {
            let values = self.checksums(scratch)?;
            for (status, values) in statuses.iter_mut().zip(by_map(&values, maps)) {
                status.columns.checksums = Some(values);
            }
        }
        Ok(statuses)
    }

    fn checksums(&self, scratch: &mut TableScratch) -> Result<Vec<u32>> {
        let mut values = Vec::new();
        self.each_page(0..self.partitions(), |page, wanted| {
            let Some(section) = self.section(page, Kind::Checksums) else { return Ok(()) };
            let offset = section.offset;
            let mut cursor = Cursor::new(self.inflate(section, scratch)?, table_place(offset));
            let count = wanted.len().saturating_mul(self.maps());
            values.append(&mut take_u32s(&mut cursor, count)?);
            Ok(())
        })?;
        Ok(values)
    }
}

fn narrowed(values: &[u64]) -> Result<Vec<u32>> {
    let narrow = |&found: &u64| {
        u32::try_from(found).map_err(|_| {
            let what = "segments of a partition";
            let fault = Fault::Invalid { what, expected: u64::from(u32::MAX), found };
            IFileError::corrupt(fault, table_place(0))
        })
    };
    values.iter().map(narrow).collect()
}

/// Maps that are filled at once: a cache line of codes.
const TILE: usize = 64;

/// The values of each map, of a matrix that lies by partition.
fn by_map<T: Copy>(values: &[T], maps: usize) -> Vec<Vec<T>> {
    let width = maps.max(1);
    let partitions = values.len() / width;
    let mut columns: Vec<Vec<T>> = Vec::with_capacity(maps);
    columns.resize_with(maps, || Vec::with_capacity(partitions));
    for (tile, columns) in columns.chunks_mut(TILE).enumerate() {
        for row in values.chunks_exact(width) {
            let row = row.get(tile * TILE..).unwrap_or_default();
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(*value));
        }
    }
    columns
}
