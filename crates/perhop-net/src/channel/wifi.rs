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

#[cfg(test)]
mod tests {
    use super::*;

    /// 802.11a, without aggregation.
    const WIFI: Wifi = Wifi {
        slot: Duration::from_micros(9),
        sifs: Duration::from_micros(16),
        aifsn: 2,
        cw_min: 15,
        cw_max: 1023,
        preamble: Duration::from_micros(20),
        symbol: Duration::from_micros(4),
        ack: Duration::from_micros(28),
        block_ack: Duration::from_micros(32),
        header: 36,
        frames: 1,
        bytes: 65_535,
        airtime: Duration::from_millis(4),
        retries: 7,
        airtime_fairness: false,
    };

    /// In an aggregate, a delimiter of four bytes, and padding to a multiple of four (IEEE
    /// 802.11-2020, section 9.7.1).
    #[test]
    fn frames_of_an_aggregate_are_padded() {
        for (frames, size, length) in [
            (0, 1_500, 1_536),
            (1, 1_501, 1_537),
            (2, 1_500, 1_540),
            (2, 1_501, 1_544),
            (2, 1_504, 1_544),
            (64, 1, 44),
        ] {
            let config = Wifi { frames, ..WIFI };
            assert_eq!(config.frame(Bytes::new(size)), Bytes::new(length), "{frames} {size}");
        }
    }

    /// Section 17.4.3: at 54 Mb/s a symbol of 4 µs has 216 bits, and 22 bits are added. Without
    /// OFDM a byte at 3 b/s takes 8/3 s.
    #[test]
    fn transmissions_have_whole_symbols() {
        for (bytes, rate, micros) in [
            (1_536, 54_000_000, 248),  // 12,310 bits in 57 symbols
            (14, 54_000_000, 24),      // 134
            (24, 54_000_000, 24),      // 214
            (25, 54_000_000, 28),      // 222
            (1_000, 6_000_000, 1_360), // 8,022 bits in 335 symbols of 24
        ] {
            let duration = WIFI.transmission(Bytes::new(bytes), Rate::new(rate).unwrap());
            assert_eq!(duration, Duration::from_micros(micros), "{bytes} {rate}");
        }
        let plain = Wifi { symbol: Duration::ZERO, ..WIFI };
        let slow = plain.transmission(Bytes::new(1), Rate::new(3).unwrap());
        assert_eq!(slow, Duration::from_micros(20) + Duration::from_picos(2_666_666_666_667));
        let fast = plain.transmission(Bytes::new(1_000), Rate::new(8_000_000).unwrap());
        assert_eq!(fast, Duration::from_micros(1_020));
    }

    /// Section 10.3: AIFS and the acknowledgement follow the SIFS; the window doubles with each
    /// failure up to its greatest.
    #[test]
    fn times_between_transmissions() {
        assert_eq!(WIFI.aifs(), Duration::from_micros(34));
        let after = [0, 1, 2].map(|frames| WIFI.acknowledgement(frames));
        assert_eq!(after, [44, 44, 48].map(Duration::from_micros));
        let windows = [0, 1, 2, 5, 6, 7, 31, 99].map(|failures| WIFI.window(failures));
        assert_eq!(windows, [15, 31, 63, 511, 1_023, 1_023, 1_023, 1_023]);
        let narrow = Wifi { cw_max: 7, ..WIFI };
        assert_eq!(narrow.window(0), 7);
        let wide = Wifi { cw_min: u32::MAX, cw_max: u32::MAX, ..WIFI };
        assert_eq!([0, 1, 99].map(|failures| wide.window(failures)), [u32::MAX; 3]);
    }
}
