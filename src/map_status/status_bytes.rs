//! One status as bytes.

use roaring::RoaringBitmap;

use super::numbers::{put_string, put_vint, take_end, take_int, take_string, take_vint};
use super::sizes::{BlockSizes, SWITCH_OVER, entry_agrees, unbounded_without_entry};
use super::status::{
    AttemptId, Location, MapStatus, PartitionColumns, PartitionFunction, Placement, codec_at,
};
use crate::codec::to_u64;
use crate::error::{Fault, IFileError, Place, Result};
use crate::wire::Cursor;

const MAGIC: [u8; 4] = *b"IFMS";
const VERSION: u16 = 1;

const VERSION_AT: usize = MAGIC.len();
const FLAGS_AT: usize = VERSION_AT + 2;
const PARTITIONS_AT: usize = FLAGS_AT + 2;
const LENGTH_AT: usize = PARTITIONS_AT + 4;
const CRC_AT: usize = LENGTH_AT + 4;
const HEADER_BYTES: usize = CRC_AT + 4;
const _: () = assert!(HEADER_BYTES == 20);

pub(super) const EXACT: u16 = 1;
pub(super) const ROWS: u16 = 2;
pub(super) const MEMORY: u16 = 4;
pub(super) const SEGMENTS: u16 = 8;
pub(super) const CHECKSUMS: u16 = 16;
const SORTED: u16 = 32;
const ATTEMPT_ID: u16 = 64;
const BITMAP: u16 = 128;

/// The flags that tables have too: form of the sizes and columns.
pub(super) const SHARED: u16 = EXACT | ROWS | MEMORY | SEGMENTS | CHECKSUMS;
const KNOWN: u16 = SHARED | SORTED | ATTEMPT_ID | BITMAP;

pub(super) fn shared_flags(status: &MapStatus) -> u16 {
    let columns = &status.columns;
    let flag = |set: bool, flag: u16| if set { flag } else { 0 };
    flag(matches!(status.sizes, BlockSizes::Exact(_)), EXACT)
        | flag(columns.rows.is_some(), ROWS)
        | flag(columns.memory_bytes.is_some(), MEMORY)
        | flag(columns.segments.is_some(), SEGMENTS)
        | flag(columns.checksums.is_some(), CHECKSUMS)
}

impl MapStatus {
    /// The status as bytes, for the way to whoever collects them.
    ///
    /// # Errors
    /// [`IFileError::Usage`] if its columns have different lengths.
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.check()?;
        let sparse = (SWITCH_OVER + 1..=MAX_SPARSE).contains(&self.sizes.len());
        let bitmap = sparse && matches!(self.sizes, BlockSizes::Coded { .. });
        let mut flags = shared_flags(self);
        for (set, flag) in
            [(self.sorted, SORTED), (self.attempt_id.is_some(), ATTEMPT_ID), (bitmap, BITMAP)]
        {
            flags |= if set { flag } else { 0 };
        }
        let mut body = Vec::with_capacity(self.sizes.len() + 128);
        self.put_head(&mut body);
        self.put_sizes(bitmap, &mut body)?;
        self.put_columns(&mut body);
        let too_long = |_| IFileError::Usage("encode a map status of more than 4 GiB");
        let length = u32::try_from(body.len()).map_err(too_long)?;
        let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&self.placement.count.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        let crc = checksum(&out, &body);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&body);
        Ok(out)
    }

    fn put_head(&self, body: &mut Vec<u8>) {
        put_vint(body, self.map_id);
        put_vint(body, u64::from(self.attempt));
        put_vint(body, self.epoch);
        if let Some(AttemptId(id)) = &self.attempt_id {
            body.extend_from_slice(id);
        }
        put_string(body, &self.location.executor);
        put_string(body, &self.location.host);
        put_vint(body, u64::from(self.location.port));
        put_string(body, &self.location.path);
        body.push(self.layout);
        body.push(self.codec.wire_id());
        body.extend_from_slice(&self.schema_fingerprint.to_le_bytes());
        body.push(self.placement.function.wire_id());
        body.extend_from_slice(&self.placement.seed.to_le_bytes());
        put_vint(body, self.data_length.map_or(0, |length| length.wrapping_add(1)));
    }

    fn put_sizes(&self, bitmap: bool, body: &mut Vec<u8>) -> Result<()> {
        let (codes, exact) = match &self.sizes {
            BlockSizes::Exact(sizes) => {
                sizes.iter().for_each(|&size| put_vint(body, size));
                return Ok(());
            }
            BlockSizes::Coded { codes, exact } => (codes, exact),
        };
        if bitmap {
            let partitions = (0..self.placement.count).zip(codes);
            let empty = partitions.filter(|(_, code)| **code == 0).map(|(partition, _)| partition);
            let empty: RoaringBitmap = empty.collect();
            put_vint(body, to_u64(empty.serialized_size()));
            let place = Place::default();
            empty.serialize_into(&mut *body).map_err(|source| IFileError::Io {
                action: "encode the bitmap of empty partitions",
                place,
                source,
            })?;
            body.extend(codes.iter().filter(|&&code| code != 0));
        } else {
            body.extend_from_slice(codes);
        }
        put_vint(body, to_u64(exact.len()));
        let mut before = -1_i64;
        for &(partition, size) in exact {
            put_vint(body, (i64::from(partition) - before).cast_unsigned());
            put_vint(body, size);
            before = i64::from(partition);
        }
        Ok(())
    }

    fn put_columns(&self, body: &mut Vec<u8>) {
        let columns = &self.columns;
        for column in [&columns.rows, &columns.memory_bytes].into_iter().flatten() {
            column.iter().for_each(|&value| put_vint(body, value));
        }
        columns.segments.iter().flatten().for_each(|&value| put_vint(body, u64::from(value)));
        let checksums = columns.checksums.iter().flatten();
        checksums.for_each(|value| body.extend_from_slice(&value.to_le_bytes()));
    }

    /// The status that is exactly `bytes`.
    ///
    /// # Errors
    /// [`IFileError::Corrupt`] for other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor =
            Cursor::new(bytes, Place { file: Some("map status".into()), ..Place::default() });
        let (flags, partitions) = take_header(&mut cursor)?;
        let status = take_body(&mut cursor, flags, partitions)?;
        take_end(&cursor, "map status")?;
        Ok(status)
    }
}

fn checksum(header: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(body);
    hasher.finalize()
}

/// Checks all that can be said before the body is believed; the cursor is at the body after it.
fn take_header(cursor: &mut Cursor<'_>) -> Result<(u16, u32)> {
    let covered = cursor.rest().get(..CRC_AT).unwrap_or_default();
    let start = cursor.place().clone();
    let magic = cursor.array::<4>("map status magic")?;
    if magic != MAGIC {
        let found = u64::from(u32::from_be_bytes(magic));
        let fault = Fault::UnknownTag { what: "map status magic", found };
        return Err(IFileError::corrupt(fault, start));
    }
    let at = cursor.place().clone();
    let version = cursor.u16_le("map status version")?;
    if version != VERSION {
        let fault = Fault::UnknownTag { what: "map status version", found: u64::from(version) };
        return Err(IFileError::corrupt(fault, at));
    }
    let flags = cursor.u16_le("map status flags")?;
    let partitions = cursor.u32_le("partitions")?;
    let length = cursor.u32_le("body length")?;
    let at = cursor.place().clone();
    let found = cursor.u32_le("map status checksum")?;
    let body = cursor.rest();
    if usize::try_from(length) != Ok(body.len()) {
        let what = "map status body";
        let (expected, found) = (u64::from(length), to_u64(body.len()));
        return Err(cursor.error(Fault::UnexpectedEnd { what, expected, found }));
    }
    let expected = checksum(covered, body);
    if found != expected {
        return Err(IFileError::corrupt(Fault::Checksum { expected, found }, at));
    }
    if flags & !KNOWN != 0 || flags & (EXACT | BITMAP) == EXACT | BITMAP {
        let fault = Fault::UnknownTag { what: "map status flag", found: u64::from(flags) };
        return Err(IFileError::corrupt(fault, start));
    }
    Ok((flags, partitions))
}

fn take_body(cursor: &mut Cursor<'_>, flags: u16, count: u32) -> Result<MapStatus> {
    let partitions = usize::try_from(count)
        .map_err(|_| cursor.error(Fault::Invalid { what: "partitions", expected: 0, found: 0 }))?;
    let has = |flag: u16| flags & flag != 0;
    let map_id = take_vint(cursor, "map id")?;
    let attempt = take_int(cursor, "attempt")?;
    let epoch = take_vint(cursor, "epoch")?;
    let attempt_id = match has(ATTEMPT_ID) {
        true => Some(AttemptId(cursor.array("attempt id")?)),
        false => None,
    };
    let location = Location {
        executor: take_string(cursor, "executor")?,
        host: take_string(cursor, "host")?,
        port: take_int(cursor, "port")?,
        path: take_string(cursor, "path")?,
    };
    let layout = cursor.u8("layout")?;
    let place = cursor.place().clone();
    let codec = codec_at(cursor.u8("codec")?, &place)?;
    let schema_fingerprint = cursor.u64_le("schema fingerprint")?;
    let place = cursor.place().clone();
    let function = PartitionFunction::from_wire_id(cursor.u8("partition function")?)
        .map_err(|error| error.or_place(&place))?;
    let placement = Placement { function, seed: cursor.u64_le("seed")?, count };
    let data_length = take_vint(cursor, "data length")?.checked_sub(1);
    let sizes = take_sizes(cursor, flags, partitions)?;
    let mut columns = PartitionColumns::default();
    let mut numbers = |flag: u16, what: &'static str| {
        has(flag).then(|| take_vints(cursor, partitions, what)).transpose()
    };
    columns.rows = numbers(ROWS, "rows")?;
    columns.memory_bytes = numbers(MEMORY, "memory bytes")?;
    if has(SEGMENTS) {
        columns.segments = Some(take_vints(cursor, partitions, "segments")?);
    }
    if has(CHECKSUMS) {
        columns.checksums = Some(take_u32s(cursor, partitions)?);
    }
    let sorted = has(SORTED);
    Ok(MapStatus {
        map_id,
        attempt,
        attempt_id,
        epoch,
        location,
        layout,
        codec,
        schema_fingerprint,
        placement,
        data_length,
        sorted,
        sizes,
        columns,
    })
}

fn take_sizes(cursor: &mut Cursor<'_>, flags: u16, partitions: usize) -> Result<BlockSizes> {
    if flags & EXACT != 0 {
        return Ok(BlockSizes::Exact(take_vints(cursor, partitions, "size")?));
    }
    let codes = match flags & BITMAP {
        0 => cursor.take(partitions, "size codes")?.to_vec(),
        _ => take_sparse_codes(cursor, partitions)?,
    };
    let place = cursor.place().clone();
    let count: usize = take_int(cursor, "exact entries")?;
    let mut exact = Vec::new();
    let mut before = -1_i64;
    for _ in 0..count {
        let place = cursor.place().clone();
        let step = take_vint(cursor, "exact partition")?;
        let partition = i64::try_from(step).ok().and_then(|step| before.checked_add(step));
        let size = take_vint(cursor, "exact size")?;
        let entry = partition.filter(|&at| at > before).and_then(|at| u32::try_from(at).ok());
        match entry.filter(|&partition| entry_agrees(&codes, partition, size)) {
            Some(partition) => exact.push((partition, size)),
            None => {
                let what = "exact entry";
                let fault = Fault::Invalid { what, expected: to_u64(partitions), found: step };
                return Err(IFileError::corrupt(fault, place));
            }
        }
        before = partition.unwrap_or(before);
    }
    let found = unbounded_without_entry(&codes, &exact);
    if found > 0 {
        let fault = Fault::Invalid { what: "codes 255 without a size", expected: 0, found };
        return Err(IFileError::corrupt(fault, place));
    }
    Ok(BlockSizes::Coded { codes, exact })
}

fn take_sparse_codes(cursor: &mut Cursor<'_>, partitions: usize) -> Result<Vec<u8>> {
    let what = "bitmap of empty partitions";
    let len: usize = take_int(cursor, what)?;
    let place = cursor.place().clone();
    let invalid = |expected: u64, found: u64| {
        IFileError::corrupt(Fault::Invalid { what, expected, found }, place.clone())
    };
    let mut bytes = cursor.take(len, what)?;
    let empty = RoaringBitmap::deserialize_from(&mut bytes).map_err(|_| invalid(to_u64(len), 0))?;
    let most = empty.max().map_or(0, |last| u64::from(last) + 1);
    if !bytes.is_empty() || most > to_u64(partitions) {
        return Err(invalid(to_u64(partitions), most));
    }
    let filled = to_u64(partitions) - empty.len();
    let stored = cursor.take(usize::try_from(filled).unwrap_or(usize::MAX), "size codes")?;
    // A bitmap is at most a few bytes per 2^16 partitions, so what it stands for has a cap of its own.
    if partitions > MAX_SPARSE {
        return Err(invalid(to_u64(MAX_SPARSE), to_u64(partitions)));
    }
    let mut codes = vec![0; partitions];
    let mut stored = stored.iter();
    let mut empty = empty.iter().peekable();
    for (partition, code) in (0_u32..).zip(&mut codes) {
        if empty.next_if_eq(&partition).is_none() {
            *code = stored.next().copied().unwrap_or(0);
            if *code == 0 {
                return Err(invalid(1, 0));
            }
        }
    }
    Ok(codes)
}

/// Most partitions of a status whose empty ones are a bitmap.
const MAX_SPARSE: usize = 1 << 24;

pub(super) fn take_vints<T: TryFrom<u64>>(
    cursor: &mut Cursor<'_>,
    count: usize,
    what: &'static str,
) -> Result<Vec<T>> {
    if count > cursor.remaining() {
        let (expected, found) = (to_u64(count), to_u64(cursor.remaining()));
        return Err(cursor.error(Fault::UnexpectedEnd { what, expected, found }));
    }
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(take_int(cursor, what)?);
    }
    Ok(values)
}

pub(super) fn take_u32s(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<u32>> {
    let bytes = cursor.take(count.saturating_mul(4), "checksums")?;
    let (words, _) = bytes.as_chunks::<4>();
    Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
}
