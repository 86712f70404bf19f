//! Statuses to a table.

use std::borrow::Borrow;

use super::super::numbers::put_vint;
use super::super::sizes::{BlockSizes, exact_entries};
use super::super::status::MapStatus;
use super::super::status_bytes::shared_flags;
use super::header::{ENTRY_BYTES, HEADER_BYTES, Kind, Section, Shape};
use super::maps::{MapScratch, put_maps};
use super::transpose::transpose;
use crate::codec::{Codec, Compressor, to_u64};
use crate::error::{IFileError, Result};

/// Sizes of a page, but for pages of a single partition: a whole buffer for the codec, and little to inflate for one
/// partition.
const PAGE_BYTES: usize = 1 << 20;

/// Partitions that are turned from rows to columns at once: some cache lines of each row, that memory gives as a stream.
const GROUP: usize = 256;

/// Level of Zstandard; higher ones gain nothing on sizes.
const LEVEL: Codec = Codec::Zstd { level: 1 };

/// Makes tables, with buffers and codec state that are used again.
#[derive(Debug)]
pub struct TableEncoder {
    compressor: Compressor,
    /// Codes of a group of partitions, by partition.
    turned: Vec<u8>,
    raw: Vec<u8>,
    maps: MapScratch,
}

impl TableEncoder {
    /// An encoder that holds no buffers yet.
    ///
    /// # Errors
    /// If the codec cannot be set up.
    pub fn new() -> Result<Self> {
        Ok(Self {
            compressor: Compressor::new(LEVEL)?,
            turned: Vec::new(),
            raw: Vec::new(),
            maps: MapScratch::default(),
        })
    }

    /// Puts the table of `statuses`, in any order, each map once, into `table`, in place of what it holds.
    ///
    /// # Errors
    /// [`IFileError::Usage`] for statuses that differ in partitions, form of sizes or columns, and for two of one map.
    pub fn encode<S: Borrow<MapStatus>>(
        &mut self,
        statuses: &[S],
        epoch: u64,
        table: &mut Vec<u8>,
    ) -> Result<()> {
        let mut sorted: Vec<&MapStatus> = statuses.iter().map(Borrow::borrow).collect();
        if !sorted.is_sorted_by(|a, b| a.map_id < b.map_id) {
            sorted.sort_by_key(|status| status.map_id);
            if sorted.array_windows().any(|[a, b]| a.map_id == b.map_id) {
                return Err(IFileError::Usage("a status table with two statuses of one map"));
            }
        }
        let shape = shape_of(&sorted, epoch)?;
        let mut writer = Writer::new(&sorted, shape, self, table);
        writer.maps()?;
        writer.pages()?;
        writer.finish();
        Ok(())
    }
}

/// [`TableEncoder::encode`] for a single table.
///
/// # Errors
/// Those of [`TableEncoder::encode`].
pub fn encode_table<S: Borrow<MapStatus>>(statuses: &[S], epoch: u64) -> Result<Vec<u8>> {
    let mut table = Vec::new();
    TableEncoder::new()?.encode(statuses, epoch, &mut table)?;
    Ok(table)
}

fn shape_of(statuses: &[&MapStatus], epoch: u64) -> Result<Shape> {
    let maps = u32::try_from(statuses.len())
        .map_err(|_| IFileError::Usage("a status table of more than 2^32 maps"))?;
    let first = statuses.first();
    let flags = first.map_or(0, |status| shared_flags(status));
    let partitions = first.map_or(0, |status| status.placement.count);
    for status in statuses {
        status.check()?;
        if status.placement.count != partitions || shared_flags(status) != flags {
            return Err(IFileError::Usage(
                "a status table of statuses that differ in partitions, sizes or columns",
            ));
        }
    }
    let most = PAGE_BYTES / statuses.len().max(1);
    let per_page = if most == 0 { 1 } else { 1 << most.ilog2() };
    Ok(Shape { flags, maps, partitions, per_page, epoch })
}

struct Writer<'s> {
    statuses: &'s [&'s MapStatus],
    shape: Shape,
    own: &'s mut TableEncoder,
    maps: Section,
    directory: Vec<u8>,
    /// Head and directory, to be filled in, and the sections.
    out: &'s mut Vec<u8>,
    /// Partition, position of the map, size; ascending.
    entries: Vec<(u32, u32, u64)>,
}

impl<'s> Writer<'s> {
    fn new(
        statuses: &'s [&'s MapStatus],
        shape: Shape,
        own: &'s mut TableEncoder,
        out: &'s mut Vec<u8>,
    ) -> Self {
        let sections = shape.pages() as usize * shape.kinds().count();
        let mut entries = Vec::new();
        for (map, status) in (0_u32..).zip(statuses) {
            let exact = exact_entries(&status.sizes).iter();
            entries.extend(exact.map(|&(partition, size)| (partition, map, size)));
        }
        entries.sort_unstable();
        out.clear();
        out.resize(HEADER_BYTES + sections * ENTRY_BYTES, 0);
        let directory = Vec::with_capacity(sections * ENTRY_BYTES);
        Self { statuses, shape, own, maps: Section::default(), directory, out, entries }
    }

    /// Appends a section of `raw`, compressed where that is shorter.
    fn section(&mut self, raw: &[u8]) -> Result<Section> {
        let start = self.out.len();
        let mut codec = u32::from(LEVEL.wire_id());
        if raw.is_empty() || self.own.compressor.compress(raw, self.out)? >= raw.len() {
            self.out.truncate(start);
            self.out.extend_from_slice(raw);
            codec = 0;
        }
        let stored = self.out.get(start..).unwrap_or_default();
        Ok(Section {
            offset: to_u64(start),
            stored: to_u64(stored.len()),
            raw: to_u64(raw.len()),
            crc32: crc32fast::hash(stored),
            codec,
        })
    }

    fn maps(&mut self) -> Result<()> {
        let mut raw = std::mem::take(&mut self.own.raw);
        raw.clear();
        put_maps(self.statuses, &mut self.own.maps, &mut raw);
        self.maps = self.section(&raw)?;
        self.own.raw = raw;
        Ok(())
    }

    fn pages(&mut self) -> Result<()> {
        let (maps, partitions) = (self.statuses.len(), self.shape.partitions as usize);
        let per_page = self.shape.per_page as usize;
        let group = GROUP.max(per_page);
        let rows: Vec<&[u8]> = self.statuses.iter().filter_map(|status| codes_of(status)).collect();
        let mut turned = std::mem::take(&mut self.own.turned);
        let mut raw = std::mem::take(&mut self.own.raw);
        let mut entries = std::mem::take(&mut self.entries).into_iter().peekable();
        let mut first = 0;
        while first < partitions {
            let last = (first + group).min(partitions);
            if !rows.is_empty() {
                // Every byte is written, so what an earlier group left need not be cleared.
                turned.resize((last - first) * maps, 0);
                transpose(&rows, first..last, &mut turned);
            }
            let mut start = first;
            while start < last {
                let end = (start + per_page).min(last);
                let codes = turned.get((start - first) * maps..(end - first) * maps);
                for kind in self.shape.kinds() {
                    raw.clear();
                    let section = match kind {
                        Kind::Sizes if !rows.is_empty() => {
                            self.section(codes.unwrap_or_default())?
                        }
                        Kind::Entries => {
                            let in_page = |entry: &(u32, u32, u64)| (entry.0 as usize) < end;
                            while let Some((partition, map, size)) = entries.next_if(in_page) {
                                put_vint(&mut raw, to_u64(partition as usize - start));
                                put_vint(&mut raw, u64::from(map));
                                put_vint(&mut raw, size);
                            }
                            self.section(&raw)?
                        }
                        _ => {
                            self.put_column(kind, start, end, &mut raw);
                            self.section(&raw)?
                        }
                    };
                    section.put(&mut self.directory);
                }
                start = end;
            }
            first = last;
        }
        (self.own.turned, self.own.raw) = (turned, raw);
        Ok(())
    }

    /// A column of numbers of partitions `start..end`.
    fn put_column(&self, kind: Kind, start: usize, end: usize, raw: &mut Vec<u8>) {
        for partition in start..end {
            for status in self.statuses {
                let columns = &status.columns;
                let wide = |column: &Option<Vec<u64>>| {
                    column.as_ref().and_then(|column| column.get(partition)).copied().unwrap_or(0)
                };
                let narrow = |column: &Option<Vec<u32>>| {
                    column.as_ref().and_then(|column| column.get(partition)).copied().unwrap_or(0)
                };
                match kind {
                    Kind::Sizes | Kind::Entries => {
                        put_vint(raw, status.sizes.get(partition).unwrap_or(0));
                    }
                    Kind::Rows => put_vint(raw, wide(&columns.rows)),
                    Kind::Memory => put_vint(raw, wide(&columns.memory_bytes)),
                    Kind::Segments => put_vint(raw, u64::from(narrow(&columns.segments))),
                    Kind::Checksums => {
                        raw.extend_from_slice(&narrow(&columns.checksums).to_le_bytes());
                    }
                }
            }
        }
    }

    fn finish(self) {
        let mut head = Vec::with_capacity(HEADER_BYTES + self.directory.len());
        self.shape.put(&self.maps, &self.directory, &mut head);
        head.extend_from_slice(&self.directory);
        self.out.iter_mut().zip(head).for_each(|(slot, byte)| *slot = byte);
    }
}

fn codes_of(status: &MapStatus) -> Option<&[u8]> {
    match &status.sizes {
        BlockSizes::Coded { codes, .. } => Some(codes),
        BlockSizes::Exact(_) => None,
    }
}
