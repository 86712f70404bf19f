//! Types whose values are integers, or have bits that are taken as such.

use arrow::datatypes::DataType;

use crate::block::Word;

/// How values of fixed width are staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Native {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    /// Bits of floats: not narrowed.
    F16,
    F32,
    F64,
}

/// Runs `$body` with `$T` as the integer type of `$native`.
macro_rules! for_native {
    ($native:expr, $T:ident => $body:expr) => {
        match $native {
            Native::I8 => {
                type $T = i8;
                $body
            }
            Native::I16 => {
                type $T = i16;
                $body
            }
            Native::I32 => {
                type $T = i32;
                $body
            }
            Native::I64 => {
                type $T = i64;
                $body
            }
            Native::I128 => {
                type $T = i128;
                $body
            }
            Native::U8 => {
                type $T = u8;
                $body
            }
            Native::U16 | Native::F16 => {
                type $T = u16;
                $body
            }
            Native::U32 | Native::F32 => {
                type $T = u32;
                $body
            }
            Native::U64 | Native::F64 => {
                type $T = u64;
                $body
            }
        }
    };
}
pub(super) use for_native;

impl Native {
    /// How values of `data_type` are staged, `None` where they are no integers of up to 128 bits.
    pub(super) fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Int8 => Self::I8,
            DataType::Int16 => Self::I16,
            DataType::UInt8 => Self::U8,
            DataType::UInt16 => Self::U16,
            DataType::UInt32 => Self::U32,
            DataType::UInt64 => Self::U64,
            DataType::Float16 => Self::F16,
            DataType::Float32 => Self::F32,
            DataType::Float64 => Self::F64,
            DataType::Decimal128(_, _) => Self::I128,
            DataType::Interval(_) | DataType::Boolean => return None,
            other => match other.primitive_width() {
                Some(4) => Self::I32,
                Some(8) => Self::I64,
                _ => return None,
            },
        })
    }

    /// Bytes of a value.
    pub(super) fn bytes(self) -> usize {
        for_native!(self, T => size_of::<T>())
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }

    /// Smallest value of the type.
    pub(super) fn least(self) -> i128 {
        for_native!(self, T => T::MIN.to_i128())
    }

    /// `value` with the bits of the type taken as a signed number, as blocks store minima.
    #[expect(clippy::cast_possible_truncation, reason = "takes the bits of the type")]
    pub(super) fn signed(self, value: i128) -> i128 {
        match self.bytes() {
            1 => i128::from(value as i8),
            2 => i128::from(value as i16),
            4 => i128::from(value as i32),
            8 => i128::from(value as i64),
            _ => value,
        }
    }
}

/// An integer type of up to 128 bits.
pub(super) trait Int: Word {
    fn to_i128(self) -> i128;
    /// The low bits of `value`.
    fn from_low_bits(value: i128) -> Self;
}

macro_rules! int {
    ($($t:ty),*) => {$(
        impl Int for $t {
            #[inline(always)]
            #[expect(clippy::allow_attributes, reason = "one type needs no cast")]
            #[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "one type needs no cast")]
            fn to_i128(self) -> i128 {
                self as i128
            }

            #[inline(always)]
            #[expect(clippy::allow_attributes, reason = "one type needs no cast")]
            #[allow(
                clippy::unnecessary_cast, clippy::cast_possible_truncation, clippy::cast_sign_loss,
                reason = "takes the low bits"
            )]
            fn from_low_bits(value: i128) -> Self {
                value as $t
            }
        }
    )*};
}

int!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

/// An unsigned type that holds offsets from a base.
pub(super) trait Delta: Word {
    /// The low bits of `delta`.
    fn cut(delta: u64) -> Self;
    fn widen(self) -> u64;
}

macro_rules! delta {
    ($($t:ty),*) => {$(
        impl Delta for $t {
            #[inline(always)]
            #[expect(clippy::allow_attributes, reason = "one type needs no cast")]
            #[allow(
                clippy::unnecessary_cast, clippy::cast_possible_truncation,
                reason = "takes the low bits"
            )]
            fn cut(delta: u64) -> Self {
                delta as $t
            }

            #[inline(always)]
            fn widen(self) -> u64 {
                u64::from(self)
            }
        }
    )*};
}

delta!(u8, u16, u32, u64);
