use std::path::Path;
use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_ifile::ifile::UncheckedIndex;
use datafusion_ifile::map_output::IndexLayout;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn lengths_and_offsets_are_those_of_the_specification() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&Arc::new(RuntimeEnv::default()), 100);
    let mut files = vec![];
    for (map, layout) in
        [IndexLayout::IFile, IndexLayout::Tez, IndexLayout::Ballista].into_iter().enumerate()
    {
        let write_to = write_to(directory.path(), map as u64, layout);
        let status = write(input(5000, 1, 100), hash(130), write_to, &context).await.status;
        let data = Path::new(&*status.location.path);
        let index = std::fs::read(data.with_extension("index")).unwrap();
        files.push((status.clone(), std::fs::read(data).unwrap(), index));
    }
    let (status, data, index) = &files[0];
    assert_eq!(&index[..4], b"IFMO");
    assert_eq!(&data[data.len() - 64..data.len() - 60], b"IFDT");
    assert_eq!(data.len() as u64, status.data_length.unwrap() + 64);
    let schema_len = u32::from_le_bytes(index[84..88].try_into().unwrap()) as usize;
    let segments = u64::from_le_bytes(index[88..96].try_into().unwrap()) as usize;
    assert_eq!(index.len(), 128 + schema_len + 3 * 16 + 130 * 4 + segments * 40);
    assert_eq!(index[8..24], data[data.len() - 56..data.len() - 40]);
    let sizes = status.sizes.to_vec();

    let (status, data, index) = &files[1];
    assert_eq!(index.len(), 24 * 130 + 8);
    let parsed = UncheckedIndex::parse(index, None).unwrap();
    let parsed = parsed.validate(status.data_length.unwrap()).unwrap();
    parsed.check_contiguous(data.len() as u64 - 64).unwrap();

    let (status, _, index) = &files[2];
    assert_eq!(index.len() % 8, 0);
    let offsets: Vec<u64> = index[..8 * 131]
        .chunks(8)
        .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    assert_eq!(offsets[130], status.data_length.unwrap());
    for (partition, bounds) in offsets.windows(2).enumerate() {
        let size = bounds[1] - bounds[0];
        assert!(sizes[partition] >= size && sizes[partition] as f64 <= 1.1 * size as f64);
    }
    assert_eq!(&index[8 * 131..8 * 131 + 4], b"IFMO");
}

/// Checksums of partitions and of the file are composed; here they are computed from the bytes.
#[tokio::test(flavor = "multi_thread")]
async fn composed_checksums_are_those_of_the_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&limited(3 << 20), 1000);
    let write_to = write_to(directory.path(), 0, IndexLayout::Ballista);
    let status = write(input(300_000, 1, 2000), hash(20), write_to, &context).await.status;
    let data = std::fs::read(&*status.location.path).unwrap();
    let index = std::fs::read(Path::new(&*status.location.path).with_extension("index")).unwrap();
    let offset = |at: usize| u64::from_le_bytes(index[8 * at..8 * at + 8].try_into().unwrap());
    for (partition, checksum) in status.columns.checksums.as_ref().unwrap().iter().enumerate() {
        let range = offset(partition) as usize..offset(partition + 1) as usize;
        assert_eq!(*checksum, crc32fast::hash(&data[range]));
    }
    let whole = crc32fast::hash(&data[..data.len() - 64]);
    let trailer = &data[data.len() - 64..];
    assert_eq!(u32::from_le_bytes(trailer[40..44].try_into().unwrap()), whole);
    assert_eq!(u32::from_le_bytes(trailer[44..48].try_into().unwrap()), crc32fast::hash(&index));
}
