//! Settings of a cell, and the quantities that follow from them.

use perhop_core::{Bytes, Duration, Rate};

/// How a base station chooses among users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Scheduler {
    /// Users with data take turns.
    RoundRobin,
    /// The user with the highest ratio of its rate to the mean of what it was sent of late.
    ProportionalFair,
}

/// Settings of a cell. Shares are in parts per billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Lte {
    /// Number of resource blocks in a transmission time interval, in each direction.
    pub resource_blocks: u32,
    /// How the base station chooses among users.
    pub scheduler: Scheduler,
    /// Probability that the first transmission of a transport block fails, on links without a loss
    /// of their own.
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::share"))]
    #[cfg_attr(feature = "serde", schemars(with = "u32"))]
    pub bler: u32,
    /// Number of retransmissions by HARQ.
    pub retries: u32,
    /// Probability that a retransmission fails, divided by that of the transmission before.
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::share"))]
    #[cfg_attr(feature = "serde", schemars(with = "u32"))]
    pub combining: u32,
    /// Time between two opportunities of a user to request a grant.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub request_period: Duration,
    /// Time from a request, or a buffer status report, to the transmission that it leads to.
    pub grant: Duration,
    /// Time from the first transmission of a block to the report of its loss by RLC.
    pub reordering: Duration,
}

impl Lte {
    /// Duration of a transmission time interval (TTI).
    pub(super) const TTI: Duration = Duration::from_millis(1);

    /// Time from a transmission to its retransmission by HARQ, or from RLC's report to that of a
    /// block: 4 TTIs until the acknowledgement, and 4 more.
    pub(super) const ROUND_TRIP: Duration = Duration::from_millis(8);

    /// Number of blocks that RLC sends before the oldest has arrived: half of its sequence
    /// numbers, which have 10 bits.
    pub(super) const WINDOW: usize = 512;

    /// TTIs over which the proportional-fair scheduler takes means.
    pub(super) const MEMORY: f64 = 100.0;

    /// Rate at which a byte is sent in each TTI, in bit/s.
    const BYTE: u128 = 8_000;

    /// Returns the number of bytes in so many resource blocks, at least one, of a user that gets
    /// this rate with all of them.
    pub(super) fn bytes(&self, rate: Rate, blocks: u32) -> Bytes {
        let all = Self::BYTE * u128::from(self.resource_blocks);
        let bytes = u128::from(u64::from(rate)) * u128::from(blocks) / all;
        Bytes::new((bytes as u64).max(1))
    }

    /// Returns the least number of resource blocks that hold so many bytes, up to `most`.
    pub(super) fn blocks(&self, rate: Rate, bytes: Bytes, most: u32) -> u32 {
        let all = Self::BYTE * u128::from(self.resource_blocks);
        let blocks = (u128::from(bytes.get()) * all).div_ceil(u128::from(u64::from(rate)));
        blocks.clamp(1, u128::from(most)) as u32
    }

    /// Returns the number of TTIs from an opportunity to request a grant to the next.
    pub(super) fn request_ttis(&self) -> u64 {
        self.request_period.as_picos().div_ceil(Self::TTI.as_picos())
    }

    /// Returns the probability that a transmission fails, in parts per billion, if the first one
    /// fails with `first` and so many have failed since.
    pub(super) fn error(&self, first: u32, failures: u32) -> u32 {
        (0..failures).fold(first, |chance, _| {
            (u64::from(chance) * u64::from(self.combining) / 1_000_000_000) as u32
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 MHz, and the defaults of scenarios.
    const LTE: Lte = Lte {
        resource_blocks: 100,
        scheduler: Scheduler::RoundRobin,
        bler: 100_000_000,
        retries: 3,
        combining: 200_000_000,
        request_period: Duration::from_millis(10),
        grant: Duration::from_millis(8),
        reordering: Duration::from_millis(35),
    };

    /// 8 Mb/s are 1000 bytes in a TTI of 1 ms, ten in each of 100 resource blocks.
    #[test]
    fn resource_blocks_hold_a_share_of_the_rate() {
        for (rate, blocks, bytes) in [
            (8_000_000, 100, 1_000),
            (8_000_000, 50, 500),
            (8_000_000, 1, 10),
            (8_079_999, 100, 1_009),
            (8_000, 100, 1),
            (7_999, 1, 1), // at least one
        ] {
            let rate = Rate::new(rate).unwrap();
            assert_eq!(LTE.bytes(rate, blocks), Bytes::new(bytes), "{rate:?} {blocks}");
        }
        for (bytes, most, blocks) in [
            (1_000, 100, 100),
            (1_001, 100, 100),
            (500, 100, 50),
            (501, 100, 51),
            (501, 40, 40),
            (10, 100, 1),
            (11, 100, 2),
            (0, 100, 1),
        ] {
            let rate = Rate::new(8_000_000).unwrap();
            assert_eq!(LTE.blocks(rate, Bytes::new(bytes), most), blocks, "{bytes} {most}");
        }
    }

    /// Each retransmission fails with a fifth of the probability before.
    #[test]
    fn retransmissions_fail_less_often() {
        let failures = [0, 1, 2, 3].map(|failures| LTE.error(100_000_000, failures));
        assert_eq!(failures, [100_000_000, 20_000_000, 4_000_000, 800_000]);
        assert_eq!(Lte { combining: 0, ..LTE }.error(7, 1), 0);
        assert_eq!(Lte { combining: 1_000_000_000, ..LTE }.error(7, 9), 7);
    }

    #[test]
    fn periods_are_whole_ttis() {
        let millis = 1_000_000_000;
        for (picos, ttis) in [(1, 1), (millis, 1), (millis + 1, 2), (10 * millis, 10)] {
            let request_period = Duration::from_picos(picos);
            assert_eq!(Lte { request_period, ..LTE }.request_ttis(), ttis, "{picos}");
        }
    }
}
