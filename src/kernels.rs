//! Strings that are known to be valid become arrays without a look at every byte.
//!
//! The only unsafe code of the crate. Arrow checks the text of a string array when it is built; for
//! rows that were copied out of arrays which were checked already that took a twentieth of the time
//! of an exchange. Bytes from disk are checked before they get here. Tests check every array again.

#![allow(unsafe_code)]

use arrow::array::{GenericByteArray, GenericByteViewArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, ByteArrayType, ByteViewType};

/// An array of views, each one inline or a value of `buffers`; texts are those of valid arrays.
///
/// # Panics
/// If `nulls` is of another length.
pub(crate) fn views_of_valid<T: ByteViewType>(
    views: ScalarBuffer<u128>,
    buffers: Vec<Buffer>,
    nulls: Option<NullBuffer>,
) -> GenericByteViewArray<T> {
    assert!(nulls.as_ref().is_none_or(|nulls| nulls.len() == views.len()), "nulls of other rows");
    if cfg!(any(test, debug_assertions)) {
        let checked =
            GenericByteViewArray::<T>::try_new(views.clone(), buffers.clone(), nulls.clone());
        assert!(checked.is_ok(), "{checked:?}");
    }
    // SAFETY: the caller copied each view, or its bytes with it, from an array that Arrow had checked;
    // the assertions above check that again wherever tests run.
    unsafe { GenericByteViewArray::new_unchecked(views, buffers, nulls) }
}

/// An array of strings or binaries, each one a value of valid arrays.
///
/// # Panics
/// If `nulls` is of another length, or the offsets go beyond `values`.
pub(crate) fn bytes_of_valid<T: ByteArrayType>(
    offsets: OffsetBuffer<T::Offset>,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> GenericByteArray<T> {
    let rows = offsets.len() - 1;
    assert!(nulls.as_ref().is_none_or(|nulls| nulls.len() == rows), "nulls of other rows");
    let end = offsets.last().map_or(0, |end| end.as_usize());
    assert!(end <= values.len(), "offsets to {end} in {} bytes", values.len());
    if cfg!(any(test, debug_assertions)) {
        let checked =
            GenericByteArray::<T>::try_new(offsets.clone(), values.clone(), nulls.clone());
        assert!(checked.is_ok(), "{checked:?}");
    }
    // SAFETY: an `OffsetBuffer` never decreases and its end was checked above, so that all ranges lie
    // in `values`; the caller copied each of them from an array that Arrow had checked, which the
    // assertions above check again wherever tests run.
    unsafe { GenericByteArray::new_unchecked(offsets, values, nulls) }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, StringArray, StringViewArray};
    use arrow::datatypes::{StringViewType, Utf8Type};

    use super::*;

    #[test]
    fn arrays_are_those_that_arrow_makes() {
        let texts = [Some("a"), None, Some("beyond twelve bytes: äöü"), Some("")];
        let views = StringViewArray::from_iter(texts);
        let (parts, buffers, nulls) = views.clone().into_parts();
        assert_eq!(views_of_valid::<StringViewType>(parts, buffers.to_vec(), nulls), views);
        let strings = StringArray::from_iter(texts);
        let (offsets, values, nulls) = strings.clone().into_parts();
        assert_eq!(bytes_of_valid::<Utf8Type>(offsets, values, nulls), strings);
    }

    #[test]
    #[should_panic(expected = "nulls of other rows")]
    fn nulls_of_other_rows_are_a_fault_of_the_caller() {
        let (views, buffers, _) = StringViewArray::from_iter_values(["a", "b"]).into_parts();
        let nulls = Some(NullBuffer::new_valid(3));
        drop(views_of_valid::<StringViewType>(views, buffers.to_vec(), nulls));
    }

    #[test]
    #[should_panic(expected = "offsets to 2 in 1 bytes")]
    fn offsets_beyond_the_values_are_a_fault_of_the_caller() {
        let (offsets, values, nulls) = StringArray::from_iter_values(["a", "b"]).into_parts();
        drop(bytes_of_valid::<Utf8Type>(offsets, values.slice_with_length(0, 1), nulls));
    }

    #[test]
    #[should_panic(expected = "Encountered non UTF-8 data")]
    fn tests_look_at_the_texts() {
        let (offsets, _, nulls) = StringArray::from_iter_values(["a"]).into_parts();
        let array = bytes_of_valid::<Utf8Type>(offsets, Buffer::from_slice_ref([0xff_u8]), nulls);
        assert_eq!(array.len(), 1);
    }
}
