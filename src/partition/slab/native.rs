//! Types whose values are integers, or have bits that are taken as such.

use arrow::datatypes::DataType;

use crate::block::{Word, low64};

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

/// How an offset, or a value that is held whole, lies in memory.
pub(super) trait Stored: Int {
    type Bytes: Copy;
    /// The greatest offset, which stands for no value.
    const NONE: Self;

    fn read(bytes: Self::Bytes) -> Self;
    fn write(self) -> Self::Bytes;
    /// What whole words lie in `bytes`.
    fn read_all(bytes: &[u8]) -> &[Self::Bytes];
    fn slots(bytes: &mut [u8]) -> &mut [Self::Bytes];

    /// `offset`, from a base that lies `shift` lower.
    #[inline(always)]
    fn shifted<S: Stored>(shift: i128, offset: S) -> Self {
        if S::BYTES == 16 {
            return Self::from_low_bits(shift.wrapping_add(offset.to_i128()));
        }
        if Self::BYTES == 16 {
            return Self::from_low_bits(shift.wrapping_add(i128::from(widen(offset))));
        }
        cut(low64(shift).wrapping_add(widen(offset)))
    }

    /// `value` from `base`, both of as many bytes as this.
    #[inline(always)]
    fn apart<T: Int>(value: T, base: T) -> Self {
        if Self::BYTES == 16 {
            return Self::from_low_bits(value.to_i128());
        }
        cut(value.delta64(base))
    }
}

macro_rules! stored {
    ($($t:ty),*) => {$(
        impl Stored for $t {
            type Bytes = [u8; size_of::<$t>()];
            const NONE: Self = <$t>::MAX;

            #[inline(always)]
            fn read(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn write(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            #[inline(always)]
            fn read_all(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }

            #[inline(always)]
            fn slots(bytes: &mut [u8]) -> &mut [Self::Bytes] {
                bytes.as_chunks_mut().0
            }
        }
    )*};
}

stored!(u8, u16, u32, u64, i128);

/// Runs `$body` with `$N` as the type of an offset of `$width` bytes.
macro_rules! for_width {
    ($width:expr, $N:ident => $body:expr) => {
        match $width {
            1 => {
                type $N = u8;
                $body
            }
            2 => {
                type $N = u16;
                $body
            }
            4 => {
                type $N = u32;
                $body
            }
            8 => {
                type $N = u64;
                $body
            }
            _ => {
                type $N = i128;
                $body
            }
        }
    };
}
pub(super) use for_width;

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
