//! The `ifile` command line tool.

use crate::golden::{self, list, number, text};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_ifile::block::BlockEncoder;
use datafusion_ifile::codec::Codec;
use datafusion_ifile::ifile::SegmentOptions;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

fn ifile(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ifile")).args(args).output().unwrap()
}

fn golden_path(name: &str) -> String {
    golden::dir().join(name).display().to_string()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Arguments for a file of the manifest.
fn arguments(file: &Value) -> Vec<String> {
    let mut args = vec![golden_path(text(file, "file")), "--json".into()];
    args.extend(["--codec".into(), text(file, "codec").into()]);
    args.extend(["--codec-buffer".into(), golden::codec_buffer(file).to_string()]);
    if let Some(index) = file["index_file"].as_str() {
        args.extend(["--index".into(), golden_path(index)]);
    }
    args
}

fn run(command: &str, file: &Value) -> Output {
    let args = arguments(file);
    let args: Vec<&str> = std::iter::once(command).chain(args.iter().map(String::as_str)).collect();
    ifile(&args)
}

#[test]
fn verify_tells_records_raw_length_and_digest_of_every_golden_segment() {
    for file in list(&golden::manifest(), "files") {
        let name = text(file, "file");
        let output = run("verify", file);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let found = json(&output);
        assert_eq!(found["ok"], true, "{name}");
        let segments = list(&found, "segments");
        if text(file, "kind") == "ifile" {
            assert_eq!(segments.len(), 1, "{name}");
            assert_eq!(segments[0]["records"], file["records"], "{name}");
            assert_eq!(segments[0]["raw_length"], file["raw_length"], "{name}");
            assert_eq!(segments[0]["part_length"], file["compressed_length"], "{name}");
            assert_eq!(segments[0]["raw_sha256"], file["raw_stream_sha256"], "{name}");
            continue;
        }
        let partitions = list(file, "partitions").iter();
        let partitions: Vec<_> =
            partitions.filter(|partition| number(partition, "part_length") > 0).collect();
        assert_eq!(segments.len(), partitions.len(), "{name}");
        for (segment, partition) in segments.iter().zip(partitions) {
            assert_eq!(segment["partition"], partition["partition"], "{name}");
            assert_eq!(segment["offset"], partition["start_offset"], "{name}");
            assert_eq!(segment["raw_length"], partition["raw_length"], "{name}");
            if partition["raw_stream_sha256"].is_string() {
                assert_eq!(segment["raw_sha256"], partition["raw_stream_sha256"], "{name}");
            }
        }
    }
}

#[test]
fn verify_finds_segments_one_after_another() {
    for file in list(&golden::manifest(), "concatenated") {
        let path = golden_path(text(file, "file"));
        let output = ifile(&["verify", &path, "--codec", "deflate", "--json"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let found = json(&output);
        for (segment, expected) in list(&found, "segments").iter().zip(list(file, "segments")) {
            assert_eq!(segment["offset"], expected["start_offset"]);
            assert_eq!(segment["records"], expected["records"]);
            assert_eq!(segment["raw_sha256"], expected["raw_stream_sha256"]);
        }
        assert_eq!(list(&found, "segments").len(), list(file, "segments").len());
    }
}

#[test]
fn verify_ends_with_1_and_the_place_for_malformed_files() {
    for negative in list(&golden::manifest(), "negative") {
        let name = text(negative, "file");
        if text(negative, "kind") != "negative_ifile" {
            continue;
        }
        let path = golden_path(name);
        let length = number(negative, "length_passed_to_reader").to_string();
        let output = ifile(&["verify", &path, "--length", &length]);
        let fine = text(negative, "reader_outcome") == "ok" && !name.contains("rle_first");
        assert_eq!(output.status.code(), Some(i32::from(!fine)), "{name}: {}", stderr(&output));
        if !fine {
            let message = stderr(&output);
            assert!(message.contains(&path) && message.contains("offset"), "{name}: {message}");
            let output = ifile(&["verify", &path, "--length", &length, "--json"]);
            let found = json(&output);
            assert_eq!(found["ok"], false);
            assert!(found["error"]["offset"].is_u64() && found["error"]["fault"].is_string());
            let dump = ifile(&["dump", &path, "--length", &length]);
            assert_eq!(dump.status.code(), Some(1), "{name}");
            // Records in front of a fault of the stream may be there, if the checksum is right.
            if message.contains("expected checksum") {
                assert!(dump.stdout.is_empty(), "{name} hands out what no checksum covers");
            }
        }
    }
}

#[test]
fn verify_refuses_broken_indexes_and_data_that_no_segment_covers() {
    let data = golden_path("none_spill5_manual.data");
    for name in ["index_flip", "index_crc_flip", "index_truncated_100", "index_extra"] {
        let index = golden_path(&format!("neg/{name}.index"));
        let output = ifile(&["verify", &data, "--index", &index]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(stderr(&output).contains(&index), "{}", stderr(&output));
    }
    let none = golden_path("neg/index_zero_partitions.index");
    let output = ifile(&["verify", &data, "--index", &none]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("expected the next segment"), "{}", stderr(&output));
}

#[test]
fn inspect_lists_every_partition() {
    let data = golden_path("none_spill5_manual.data");
    let index = golden_path("none_spill5_manual.index");
    let output = ifile(&["inspect", &data, "--index", &index, "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&output);
    let segments = list(&found, "segments");
    assert_eq!(segments.len(), 5);
    assert_eq!(segments[3]["body"], "none");
    assert!(segments.iter().take(3).all(|segment| segment["checksum"] == "ok"));
    let output = ifile(&["inspect", &data, "--index", &index]);
    let listing = String::from_utf8(output.stdout).unwrap();
    assert_eq!(listing.lines().count(), 8, "{listing}");
    let total = listing.lines().last().unwrap();
    assert!(total.starts_with("4 segments, 50 records, "), "{listing}");
}

#[test]
fn inspect_lists_what_it_can_around_a_fault() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broken.data");
    let mut data = golden::read("none_spill5_manual.data");
    data[20] ^= 1;
    std::fs::write(&path, data).unwrap();
    let index = golden_path("none_spill5_manual.index");
    let path = path.display().to_string();
    let output = ifile(&["inspect", &path, "--index", &index, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found = json(&output);
    let states: Vec<_> = list(&found, "segments").iter().map(|line| &line["checksum"]).collect();
    assert_eq!(states[0], "wrong");
    assert_eq!((states[1], states[2]), (&Value::from("ok"), &Value::from("ok")));
}

#[test]
fn dump_prints_keys_and_values() {
    let path = golden_path("neg/ok_two_records.ifile");
    let output = ifile(&["dump", &path]);
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "010203\t0a141e2832\n010203\t0a141e2832\n"
    );
    let output = ifile(&["dump", &path, "--json"]);
    let lines = String::from_utf8(output.stdout).unwrap();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&first["key"], &first["value"]), (&"010203".into(), &"0a141e2832".into()));
}

#[test]
fn dump_prints_rows_where_blocks_are_ours() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![7, 8])),
        Arc::new(StringArray::from(vec![Some("a"), None])),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    let mut block = vec![];
    let mut encoder = BlockEncoder::try_new(Arc::clone(&schema), Codec::Lz4).unwrap();
    encoder.encode(&batch, 0, batch.num_rows(), &mut block).unwrap();
    let (segment, _) = crate::support::write(&[(vec![], block)], SegmentOptions::new(Codec::None));
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(path("a.data"), segment).unwrap();
    let file = std::fs::File::create(path("schema.arrow")).unwrap();
    arrow::ipc::writer::FileWriter::try_new(file, &schema).unwrap().finish().unwrap();
    let output = ifile(&["dump", &path("a.data"), "--schema", &path("schema.arrow")]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "7\ta\n8\tnull\n");
    let output = ifile(&["dump", &path("a.data"), "--schema", &path("schema.arrow"), "--json"]);
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().next(), Some(r#"{"id":"7","name":"a"}"#));
    let output = ifile(&["dump", &path("a.data")]);
    let lines = String::from_utf8(output.stdout).unwrap();
    assert!(lines.contains("\tblock of 2 rows, "), "{lines}");
    let output = ifile(&["dump", &path("a.data"), "--json"]);
    assert_eq!(json(&output)["block"]["rows"], 2);
}

#[test]
fn arguments_and_files_that_do_not_fit_are_clean_errors() {
    let path = golden_path("lz4_many_small.ifile");
    let missing = PathBuf::from("no/such/file").display().to_string();
    let cases: [(&[&str], &str); 6] = [
        (&["verify", &missing], "cannot read no/such/file"),
        (&["inspect", &path, "--index", &missing], "cannot read no/such/file"),
        (&["verify", &path, "--codec", "gzip"], "zstd:LEVEL"),
        (&["verify", &path, "--codec", "lz4", "--codec-buffer", "0"], "codec buffer"),
        (&["verify", &path, "--offset", "99999999"], "beyond"),
        (&["verify", "/"], "cannot read /"),
    ];
    for (args, expected) in cases {
        let output = ifile(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"));
    }
    let output = ifile(&["verify", &path]);
    assert_eq!(output.status.code(), Some(1), "a codec is needed");
}

#[test]
fn a_closed_pipe_is_a_clean_error() {
    let path = golden_path("none_many_small.ifile");
    for command in ["dump", "inspect", "verify"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_ifile"))
            .args([command, &path])
            .stdout(writer)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(stderr(&output).contains("cannot write output"), "{}", stderr(&output));
    }
}

#[test]
fn a_pipe_is_read_like_a_file() {
    if !Path::new("/dev/stdin").exists() {
        return;
    }
    let file = std::fs::File::open(golden_path("none_many_small.ifile")).unwrap();
    let mut cat = Command::new("cat").stdin(file).stdout(Stdio::piped()).spawn().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ifile"))
        .args(["verify", "/dev/stdin"])
        .stdin(cat.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("12000 records"));
    assert!(cat.wait().unwrap().success());
}
