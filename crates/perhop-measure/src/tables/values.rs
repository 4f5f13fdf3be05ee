//! The values of a column.

/// Values, in order. Equal ones at the beginning take no memory: many counters are always zero, and
/// many streams have no round-trip times.
#[derive(Clone, Debug, Default)]
pub(super) struct Values<T> {
    /// The first value, and the number of times that it comes before another one.
    first: (T, usize),
    others: Vec<T>,
}

/// A value of a column.
pub(super) trait Value: Copy {
    /// Returns `true` if both are the same. NaN is the same as NaN.
    fn is(self, other: Self) -> bool;
}

impl Value for i64 {
    fn is(self, other: Self) -> bool {
        self == other
    }
}

impl Value for f64 {
    fn is(self, other: Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

impl Value for &str {
    fn is(self, other: Self) -> bool {
        self == other
    }
}

impl<T: Value> Values<T> {
    /// Adds a value.
    #[inline]
    pub fn push(&mut self, value: T) {
        let (first, times) = &mut self.first;
        if self.others.is_empty() && (*times == 0 || first.is(value)) {
            (*first, *times) = (value, *times + 1);
        } else {
            self.others.push(value);
        }
    }

    /// Replaces the last value.
    ///
    /// # Panics
    /// Without a value.
    pub fn replace_last(&mut self, value: T) {
        if self.others.pop().is_none() {
            self.first.1 = self.first.1.checked_sub(1).expect("a column with values");
        }
        self.push(value);
    }

    /// Returns all values.
    pub fn to_vec(&self) -> Vec<T> {
        let (first, times) = self.first;
        let mut values = Vec::with_capacity(times + self.others.len());
        values.resize(times, first);
        values.extend_from_slice(&self.others);
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_went_in() {
        let mut values = Values::default();
        assert!(values.to_vec().is_empty());
        for value in [0.0, 0.0, -0.0, 0.0, f64::NAN] {
            values.push(value);
        }
        values.replace_last(f64::INFINITY);
        let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(values.to_vec()), bits(vec![0.0, 0.0, -0.0, 0.0, f64::INFINITY]));
    }

    #[test]
    fn equal_values_take_no_memory() {
        let mut values = Values::default();
        for _ in 0..5 {
            values.push(f64::NAN);
        }
        values.replace_last(f64::NAN);
        assert_eq!((values.to_vec().len(), values.others.capacity()), (5, 0));
        values.replace_last(1.0);
        assert!(values.to_vec()[3].is_nan());
        assert_eq!(values.to_vec()[4], 1.0);
    }
}
