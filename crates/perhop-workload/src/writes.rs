//! Writes of an application that keeps to a rate.

use perhop_core::{Bytes, Duration, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Writes of blocks at a mean rate: a block is due as soon as the mean rate since the start is
/// below it, as in `iperf_check_throttle` of iperf3's `iperf_api.c` (option `-b`). A late block
/// does not delay the next ones, so that a backlog is made up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WritesPlan {
    /// Mean rate of the data, in bits per second.
    pub rate: Rate,
    /// Bytes of a write.
    #[serde(deserialize_with = "positive")]
    pub block: Bytes,
}

fn positive<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
    match Bytes::deserialize(from)? {
        Bytes::ZERO => Err(serde::de::Error::custom("a write must not be empty")),
        block => Ok(block),
    }
}

impl WritesPlan {
    /// Returns the time from the start to the write that follows `written` bytes.
    pub fn due(&self, written: u64) -> Duration {
        Bytes::new(written) / self.rate
    }

    /// Returns the bytes of all writes that are due within `elapsed` from the start.
    pub fn bytes_due(&self, elapsed: Duration) -> u64 {
        let block = self.block.get();
        ((self.rate * elapsed).get() / block + 1).saturating_mul(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// iperf3 3.12 with `-b 1M` writes 128 KiB at 0, 1.048576 and 2.097152 s.
    #[test]
    fn a_block_is_due_when_the_mean_is_below_the_rate() {
        let plan = WritesPlan { rate: Rate::new(1_000_000).unwrap(), block: Bytes::new(128 << 10) };
        let second = plan.due(128 << 10);
        assert_eq!(second, Duration::from_micros(1_048_576));
        let just_before = second - Duration::from_picos(1);
        assert_eq!(plan.bytes_due(Duration::ZERO), 128 << 10);
        assert_eq!(plan.bytes_due(just_before), 128 << 10);
        assert_eq!(plan.bytes_due(second), 256 << 10);
        assert_eq!(plan.bytes_due(Duration::from_secs(3)), 384 << 10);
    }

    /// A block that is no multiple of the rate: the two functions agree about each instant.
    #[test]
    fn a_write_is_due_at_the_instant_that_is_named() {
        let plan = WritesPlan { rate: Rate::new(7_777_777).unwrap(), block: Bytes::new(1_001) };
        for written in (0..1_001 * 500).step_by(1_001) {
            assert_eq!(plan.bytes_due(plan.due(written)), written + 1_001);
        }
    }
}
