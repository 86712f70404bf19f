//! The columns with an entry per map.

use std::sync::Arc;

use super::super::numbers::{
    StringScratch, put_numbers, put_strings, take_end, take_numbers, take_strings, to_deltas,
    undo_zigzag,
};
use super::super::sizes::BlockSizes;
use super::super::status::{
    AttemptId, Location, MapStatus, PartitionColumns, PartitionFunction, Placement, codec_at,
};
use crate::codec::to_u64;
use crate::error::{Fault, IFileError, Place, Result};
use crate::wire::Cursor;

/// Numbers of a map beside its sizes, in the order of the columns.
const NUMBERS: usize = 12;

/// Buffers of the map columns, to be used again.
#[derive(Debug, Default)]
pub(super) struct MapScratch {
    columns: [Vec<u64>; NUMBERS],
    strings: StringScratch,
}

/// One visit of each status: they lie apart in memory.
fn numbers_of(statuses: &[&MapStatus], columns: &mut [Vec<u64>; NUMBERS]) {
    columns.iter_mut().for_each(Vec::clear);
    for status in statuses {
        let numbers: [u64; NUMBERS] = [
            status.map_id,
            u64::from(status.attempt),
            status.epoch,
            u64::from(status.location.port),
            u64::from(status.layout),
            u64::from(status.codec.wire_id()),
            status.schema_fingerprint,
            u64::from(status.placement.function.wire_id()),
            status.placement.seed,
            u64::from(status.data_length.is_some()),
            status.data_length.unwrap_or(0),
            u64::from(status.sorted),
        ];
        columns.iter_mut().zip(numbers).for_each(|(column, number)| column.push(number));
    }
}

pub(super) fn put_maps(statuses: &[&MapStatus], scratch: &mut MapScratch, dst: &mut Vec<u8>) {
    let each = || statuses.iter().copied();
    numbers_of(statuses, &mut scratch.columns);
    let [map_ids, numbers @ ..] = &mut scratch.columns;
    to_deltas(map_ids);
    put_numbers(dst, map_ids);
    numbers.iter().for_each(|column| put_numbers(dst, column));
    let strings = &mut scratch.strings;
    let any_id = each().any(|status| status.attempt_id.is_some());
    dst.push(u8::from(any_id));
    if any_id {
        for status in statuses {
            dst.extend_from_slice(&status.attempt_id.unwrap_or_default().0);
        }
    }
    put_strings(dst, strings, each().map(|status| &*status.location.executor));
    put_strings(dst, strings, each().map(|status| &*status.location.host));
    put_strings(dst, strings, each().map(|status| &*status.location.path));
}

/// The statuses of `maps` map outputs with `partitions` partitions, without their sizes.
pub(super) fn take_maps(bytes: &[u8], maps: usize, partitions: u32) -> Result<Vec<MapStatus>> {
    let place = Place { file: Some("map columns of a status table".into()), ..Place::default() };
    let mut cursor = Cursor::new(bytes, place.clone());
    let c = &mut cursor;
    // A column of maps that are all alike takes no bytes per map: what is allocated here has a cap of its own.
    let what = "maps of a status table";
    if maps > MOST_MAPS {
        let (expected, found) = (to_u64(MOST_MAPS), to_u64(maps));
        return Err(c.error(Fault::Invalid { what, expected, found }));
    }
    let map_ids = take_numbers(c, maps, "map ids")?;
    let attempts = take_numbers(c, maps, "attempts")?;
    let epochs = take_numbers(c, maps, "epochs")?;
    let ports = take_numbers(c, maps, "ports")?;
    let layouts = take_numbers(c, maps, "layouts")?;
    let codecs = take_numbers(c, maps, "codecs")?;
    let fingerprints = take_numbers(c, maps, "schema fingerprints")?;
    let functions = take_numbers(c, maps, "partition functions")?;
    let seeds = take_numbers(c, maps, "seeds")?;
    let known = take_numbers(c, maps, "known data lengths")?;
    let lengths = take_numbers(c, maps, "data lengths")?;
    let sorted = take_numbers(c, maps, "sorted flags")?;
    let attempt_ids = match c.u8("attempt ids")? {
        0 => &[],
        _ => c.take(maps.saturating_mul(16), "attempt ids")?.as_chunks::<16>().0,
    };
    let executors = take_strings(c, maps, "executors")?;
    let hosts = take_strings(c, maps, "hosts")?;
    let paths = take_strings(c, maps, "paths")?;
    take_end(c, "map columns")?;
    let lengths = known.iter().zip(lengths.iter()).map(|(known, len)| (known != 0).then_some(len));
    let strings = executors.into_iter().zip(hosts).zip(paths);
    let locations = strings.zip(ports.iter());
    let kinds = layouts.iter().zip(codecs.iter()).zip(functions.iter()).zip(seeds.iter());
    let numbers = epochs.iter().zip(fingerprints.iter()).zip(lengths).zip(sorted.iter());
    let mut map_id = 0_u64;
    let mut attempt_ids = attempt_ids.iter();
    let mut statuses = Vec::with_capacity(maps);
    for ((((delta, attempt), location), kind), number) in
        map_ids.iter().zip(attempts.iter()).zip(locations).zip(kinds).zip(numbers)
    {
        map_id = map_id.wrapping_add(undo_zigzag(delta));
        let (((executor, host), path), port) = location;
        let (((layout, codec), function), seed) = kind;
        let (((epoch, schema_fingerprint), data_length), sorted) = number;
        let id = attempt_ids.next().map(|id| AttemptId(*id));
        statuses.push(MapStatus {
            map_id,
            attempt: narrow(attempt, "attempt", &place)?,
            attempt_id: id.filter(|id| *id != AttemptId::default()),
            epoch,
            location: Location { executor, host, port: narrow(port, "port", &place)?, path },
            layout: narrow(layout, "layout", &place)?,
            codec: codec_at(narrow(codec, "codec", &place)?, &place)?,
            schema_fingerprint,
            placement: Placement {
                function: PartitionFunction::from_wire_id(narrow(function, "function", &place)?)
                    .map_err(|error| error.or_place(&place))?,
                seed,
                count: partitions,
            },
            data_length,
            sorted: sorted != 0,
            sizes: BlockSizes::Exact(Vec::new()),
            columns: PartitionColumns::default(),
        });
    }
    Ok(statuses)
}

/// Most maps of a table that is decoded to statuses.
const MOST_MAPS: usize = 1 << 22;

fn narrow<T: TryFrom<u64>>(value: u64, what: &'static str, place: &Place) -> Result<T> {
    T::try_from(value).map_err(|_| {
        let fault =
            Fault::Invalid { what, expected: (1 << (8 * size_of::<T>())) - 1, found: value };
        IFileError::corrupt(fault, place.clone())
    })
}

/// The place of a status in errors.
pub(super) fn table_place(offset: u64) -> Place {
    Place { file: Some(Arc::from("status table")), partition: None, offset }
}
