//! The write buffer, by the sizes of the writes it lets through.

use datafusion_ifile::error::{IFileError, Result};
use datafusion_ifile::ifile::WriteBuffer;

const MAX: usize = WriteBuffer::MAX;
const KIB: usize = 1024;

/// Sizes downstream of writes of `sizes`, and of the final drain.
fn downstream(buffer: &mut WriteBuffer, sizes: &[usize]) -> Vec<usize> {
    let mut seen = vec![];
    let mut bytes = vec![];
    let mut expected = vec![];
    let mut sink = |data: &[u8]| {
        seen.push(data.len());
        bytes.extend_from_slice(data);
        Ok(())
    };
    for (index, size) in sizes.iter().enumerate() {
        let data = vec![index.to_le_bytes()[0]; *size];
        buffer.write(&data, &mut sink).unwrap();
        expected.extend_from_slice(&data);
    }
    buffer.drain(&mut sink).unwrap();
    assert!(bytes == expected);
    seen
}

fn sizes(writes: &[usize]) -> Vec<usize> {
    let growing = downstream(&mut WriteBuffer::new(MAX).unwrap(), writes);
    let mut fixed = WriteBuffer::new(MAX).unwrap();
    fixed.size_for(MAX);
    assert_eq!(downstream(&mut fixed, writes), growing, "growing never drains");
    growing
}

#[test]
fn b3_one_write_of_exactly_the_maximum_goes_through_as_it_is() {
    assert_eq!(sizes(&[MAX]), [MAX]);
    assert_eq!(sizes(&[5, MAX, 5]), [5, MAX, 5]);
}

#[test]
fn b3_a_larger_write_bypasses_the_buffer() {
    let mut buffer = WriteBuffer::new(MAX).unwrap();
    assert_eq!(downstream(&mut buffer, &[MAX + 1]), [MAX + 1]);
    assert_eq!(buffer.capacity(), 0);
    assert_eq!(sizes(&[10, 20, 3 * MAX, 7]), [30, 3 * MAX, 7]);
}

#[test]
fn b2_a_write_that_does_not_fit_drains_what_is_pending() {
    assert_eq!(sizes(&[63 * KIB, 2 * KIB]), [63 * KIB, 2 * KIB]);
    assert_eq!(sizes(&[63 * KIB, KIB, 1]), [64 * KIB, 1]);
}

#[test]
fn b1_single_bytes_fill_the_buffer_to_the_brim() {
    assert_eq!(sizes(&vec![1; MAX]), [MAX]);
    assert_eq!(sizes(&vec![1; MAX + 1]), [MAX, 1]);
}

#[test]
fn b4_a_drain_passes_on_what_is_pending_and_nothing_twice() {
    assert_eq!(sizes(&[]), [0; 0]);
    assert_eq!(sizes(&[0, 0]), [0; 0]);
    assert_eq!(sizes(&[1]), [1]);
    let mut buffer = WriteBuffer::new(MAX).unwrap();
    assert_eq!(downstream(&mut buffer, &[3]), [3]);
    assert_eq!(downstream(&mut buffer, &[]), [0; 0]);
}

#[test]
fn b1_the_buffer_starts_small_and_doubles() {
    let mut buffer = WriteBuffer::new(MAX).unwrap();
    assert_eq!(buffer.capacity(), 0);
    let mut never = |_: &[u8]| -> Result<()> { panic!("nothing is drained while it grows") };
    let mut capacities = vec![];
    for _ in 0..MAX {
        buffer.write(&[1], &mut never).unwrap();
        if capacities.last() != Some(&buffer.capacity()) {
            capacities.push(buffer.capacity());
        }
    }
    assert_eq!(capacities, [4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB]);
    assert_eq!(buffer.growths(), 4);
}

#[test]
fn a_size_of_zero_is_rejected() {
    let error = WriteBuffer::new(0).unwrap_err();
    assert!(matches!(error, IFileError::Config { setting: "write buffer", .. }), "{error}");
}

#[test]
fn an_error_downstream_is_passed_on() {
    let mut buffer = WriteBuffer::new(8).unwrap();
    let mut broken = |_: &[u8]| Err(IFileError::Usage("broken"));
    buffer.write(&[1; 5], &mut broken).unwrap();
    assert!(buffer.write(&[1; 5], &mut broken).is_err());
}
