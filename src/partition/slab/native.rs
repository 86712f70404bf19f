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
        for_native!(@arms $native, $T => $body,
            I8: i8, I16: i16, I32: i32, I64: i64, I128: i128,
            U8: u8, U16 | F16: u16, U32 | F32: u32, U64 | F64: u64)
    };
    (@arms $native:expr, $T:ident => $body:expr, $($($variant:ident)|+: $type:ty),*) => {
        match $native {
            $($(Native::$variant)|+ => {
                type $T = $type;
                $body
            })*
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
    #[inline(always)]
    fn from_low_bits(value: i128) -> Self {
        Self::default().add128(value.cast_unsigned())
    }
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
        }
    )*};
}

int!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

/// The low bits of an offset.
#[inline(always)]
pub(super) fn cut<N: Word>(delta: u64) -> N {
    N::default().add64(delta)
}

/// An offset that [`cut`] made.
#[inline(always)]
pub(super) fn widen<N: Word>(delta: N) -> u64 {
    delta.delta64(N::default())
}
