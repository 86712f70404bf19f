//! Strings that are known to be valid become arrays without a look at every byte.
//!
//! The only unsafe code of the crate. Arrow checks the text of a string array when it is built; for
//! rows that were copied out of arrays which were checked already that took a twentieth of the time
//! of an exchange. Bytes from disk are checked before they get here. Tests check every array again.

#![allow(unsafe_code)]

use arrow::array::{GenericByteArray, GenericByteViewArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, ByteArrayType, ByteViewType};
use arrow::error::ArrowError;

/// Whether Arrow checks every array all the same.
const CHECKED: bool = cfg!(any(test, debug_assertions));

/// An array of views, each one inline or a value of `buffers`; texts are those of valid arrays.
///
/// # Errors
/// If `nulls` is of another length.
pub(crate) fn views_of_valid<T: ByteViewType>(
    views: ScalarBuffer<u128>,
    buffers: Vec<Buffer>,
    nulls: Option<NullBuffer>,
) -> Result<GenericByteViewArray<T>, ArrowError> {
    if CHECKED || nulls.as_ref().is_some_and(|nulls| nulls.len() != views.len()) {
        return GenericByteViewArray::try_new(views, buffers, nulls);
    }
    // SAFETY: the caller copied each view, or its bytes with it, from an array that Arrow had checked,
    // and there is a null bit for each view; tests take the way above, which checks all of that.
    Ok(unsafe { GenericByteViewArray::new_unchecked(views, buffers, nulls) })
}

/// An array of strings or binaries, each one a value of valid arrays.
///
/// # Errors
/// If `nulls` is of another length, or the offsets go beyond `values`.
pub(crate) fn bytes_of_valid<T: ByteArrayType>(
    offsets: OffsetBuffer<T::Offset>,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<GenericByteArray<T>, ArrowError> {
    let end = offsets.last().map_or(0, |end| end.as_usize());
    let other_rows = nulls.as_ref().is_some_and(|nulls| nulls.len() + 1 != offsets.len());
    if CHECKED || end > values.len() || other_rows {
        return GenericByteArray::try_new(offsets, values, nulls);
    }
    // SAFETY: an `OffsetBuffer` never decreases and its end was checked above, so that all ranges lie
    // in `values`; the caller copied each of them from an array that Arrow had checked, and there is a
    // null bit for each; tests take the way above, which checks all of that.
    Ok(unsafe { GenericByteArray::new_unchecked(offsets, values, nulls) })
}

#[cfg(test)]
mod tests {
    use arrow::array::{StringArray, StringViewArray};
    use arrow::datatypes::{StringViewType, Utf8Type};

    use super::*;

    #[test]
    fn arrays_are_those_that_arrow_makes() {
        let texts = [Some("a"), None, Some("beyond twelve bytes: äöü"), Some("")];
        let views = StringViewArray::from_iter(texts);
        let (parts, buffers, nulls) = views.clone().into_parts();
        let made = views_of_valid::<StringViewType>(parts, buffers.to_vec(), nulls).unwrap();
        assert_eq!(made, views);
        let strings = StringArray::from_iter(texts);
        let (offsets, values, nulls) = strings.clone().into_parts();
        assert_eq!(bytes_of_valid::<Utf8Type>(offsets, values, nulls).unwrap(), strings);
    }

    #[test]
    fn parts_that_do_not_fit_are_an_error() {
        let (views, buffers, _) = StringViewArray::from_iter_values(["a", "b"]).into_parts();
        let nulls = Some(NullBuffer::new_valid(3));
        assert!(views_of_valid::<StringViewType>(views, buffers.to_vec(), nulls.clone()).is_err());
        let (offsets, values, _) = StringArray::from_iter_values(["a", "b"]).into_parts();
        let short = values.slice_with_length(0, 1);
        assert!(bytes_of_valid::<Utf8Type>(offsets.clone(), short, None).is_err());
        assert!(bytes_of_valid::<Utf8Type>(offsets, values, nulls).is_err());
    }

    #[test]
    fn tests_look_at_the_texts() {
        let (offsets, _, nulls) = StringArray::from_iter_values(["a"]).into_parts();
        let values = Buffer::from_slice_ref([0xff_u8]);
        assert!(bytes_of_valid::<Utf8Type>(offsets, values, nulls).is_err());
    }
}
