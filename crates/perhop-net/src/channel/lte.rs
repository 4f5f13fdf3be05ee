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
