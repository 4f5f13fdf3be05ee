//! Settings of a channel, and the durations that follow from them.

use perhop_core::{Bytes, Duration, Rate};

/// Settings of a channel. Times and lengths are those of the physical layer in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Wifi {
    /// Slot time.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub slot: Duration,
    /// Short interframe space, between data and acknowledgement.
    pub sifs: Duration,
    /// Number of slots after the SIFS for which the channel is idle before a backoff counts.
    pub aifsn: u32,
    /// Least contention window: a backoff is at most this number of slots.
    pub cw_min: u32,
    /// Greatest contention window.
    pub cw_max: u32,
    /// Duration of the preamble and the header of the physical layer.
    pub preamble: Duration,
    /// Duration of an OFDM symbol; zero for a physical layer without OFDM.
    pub symbol: Duration,
    /// Duration of an acknowledgement of one frame.
    pub ack: Duration,
    /// Duration of an acknowledgement of an aggregate.
    pub block_ack: Duration,
    /// Length of a frame's headers and check sequence, beside the link's overhead.
    pub header: u32,
    /// Greatest number of frames in an aggregate; 1 for no aggregation.
    pub frames: u32,
    /// Greatest length of an aggregate.
    pub bytes: u32,
    /// Greatest duration of a transmission of several frames.
    pub airtime: Duration,
    /// Number of times that a frame is sent again before it is given up.
    pub retries: u32,
    /// True if a sender with several receivers gives them equal times on the channel. Otherwise
    /// they take turns.
    pub airtime_fairness: bool,
}

impl Wifi {
    /// Length of the delimiter of a frame in an aggregate, and the multiple to which it is padded.
    const DELIMITER: u64 = 4;
    /// Bits that OFDM adds to a transmission: the service field and the tail.
    const SERVICE_AND_TAIL: u64 = 22;

    /// Returns the length of a frame with a packet of `size` on the wire.
    pub(super) fn frame(&self, size: Bytes) -> Bytes {
        let length = size + Bytes::new(self.header.into());
        match self.frames {
            0 | 1 => length,
            _ => Bytes::new(Self::DELIMITER + length.get().next_multiple_of(Self::DELIMITER)),
        }
    }

    /// Returns the duration of a transmission of this length.
    pub(super) fn transmission(&self, length: Bytes, rate: Rate) -> Duration {
        const SECOND: u128 = 1_000_000_000_000;
        let (rate, symbol) = (u128::from(u64::from(rate)), u128::from(self.symbol.as_picos()));
        let bits = 8 * u128::from(length.get());
        let picos = match symbol {
            0 => (bits * SECOND).div_ceil(rate),
            _ => {
                let bits = bits + u128::from(Self::SERVICE_AND_TAIL);
                (bits * SECOND).div_ceil(rate * symbol) * symbol
            }
        };
        self.preamble + Duration::from_picos(picos as u64)
    }

    /// Returns the time from the end of a transmission of so many frames to that of its
    /// acknowledgement, for which senders wait if there is none, too.
    pub(super) fn acknowledgement(&self, frames: usize) -> Duration {
        self.sifs + if frames > 1 { self.block_ack } else { self.ack }
    }

    /// Returns the time for which the channel is idle before a backoff counts.
    pub(super) fn aifs(&self) -> Duration {
        self.sifs + self.slot * u64::from(self.aifsn)
    }

    /// Returns the greatest backoff after so many failures in a row, in slots.
    pub(super) fn window(&self, failures: u32) -> u32 {
        let doubled = (u64::from(self.cw_min) + 1) << failures.min(31);
        u32::try_from(doubled - 1).unwrap_or(u32::MAX).min(self.cw_max)
    }
}
