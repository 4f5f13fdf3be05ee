//! Representations of quantities in a plan that their types alone do not define.

use serde::{Deserialize, Deserializer, de::Error as _};

use crate::Zero;

/// Reads a value that is not zero, such as a [`Duration`](crate::Duration).
///
/// # Errors
/// [`Zero`] if it is zero, and the errors of the value's own type.
pub fn positive<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default + PartialEq,
    D: Deserializer<'de>,
{
    let value = T::deserialize(deserializer)?;
    if value == T::default() { Err(D::Error::custom(Zero)) } else { Ok(value) }
}

/// A share of at most one as a whole number of parts per billion.
pub mod share {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

    const WHOLE: u32 = 1_000_000_000;

    /// Reads parts per billion.
    ///
    /// # Errors
    /// If there are more than a billion.
    pub fn deserialize<'de, T: Share, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        let parts = u32::deserialize(from)?;
        match parts <= WHOLE {
            true => Ok(T::of(parts)),
            false => Err(D::Error::custom("a share of more than all, 1000000000 parts")),
        }
    }

    /// Writes parts per billion.
    ///
    /// # Errors
    /// Those of the serialiser.
    pub fn serialize<T: Share, S: Serializer>(share: &T, to: S) -> Result<S::Ok, S::Error> {
        share.parts().serialize(to)
    }

    /// A number that a share is kept in.
    pub trait Share: Copy {
        /// Returns the share of `parts` parts per billion.
        fn of(parts: u32) -> Self;

        /// Parts per billion, to the nearest.
        fn parts(self) -> u32;
    }

    impl Share for u32 {
        fn of(parts: u32) -> Self {
            parts
        }

        fn parts(self) -> u32 {
            self
        }
    }

    impl Share for f64 {
        fn of(parts: u32) -> Self {
            Self::from(parts) / 1e9
        }

        fn parts(self) -> u32 {
            (self * 1e9).round() as u32
        }
    }
}

/// A measure that is a whole number.
pub mod whole {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Reads a whole number.
    ///
    /// # Errors
    /// If the number is not whole.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(u64::deserialize(from)? as f64)
    }

    /// Writes a whole number.
    ///
    /// # Errors
    /// Those of the serialiser.
    pub fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        (*value as u64).serialize(to)
    }
}
