//! Tins: traffic classes of CAKE by DSCP.

use perhop_core::Rate;

/// Division of packets into tins (tc-cake(8), priority queue parameters).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Diffserv {
    /// One tin.
    Besteffort,
    /// Eight tins, by IP precedence.
    Precedence,
    /// Best effort, bulk and voice.
    Diffserv3,
    /// Best effort, bulk, video and voice.
    Diffserv4,
    /// Eight tins of RFC 4594's service classes.
    Diffserv8,
}

/// Settings of a tin. Tins are in rising order of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinSpec {
    /// Name in results.
    pub name: &'static str,
    /// Share of the bandwidth up to which the tin has priority: `numerator / 8^power`.
    pub threshold: (u64, u32),
    /// Bytes that the tin sends in a round, if there is no shaper.
    pub quantum: i64,
}

impl TinSpec {
    /// Returns the rate up to which the tin has priority, of a shaper of `bandwidth`.
    pub fn rate(&self, bandwidth: Rate) -> Rate {
        let (numerator, power) = self.threshold;
        let whole = u128::from(bandwidth.bits_per_second()) * u128::from(numerator);
        let bps = (whole >> (3 * power)) as u64; // at most the bandwidth
        Rate::new(bps.max(1)).expect("it is not zero")
    }
}

const fn tin(name: &'static str, threshold: (u64, u32), quantum: i64) -> TinSpec {
    TinSpec { name, threshold, quantum }
}

const ALL: (u64, u32) = (1, 0);
const ONLY: TinSpec = tin("best-effort", ALL, 65_535);
const BEST_EFFORT: TinSpec = tin("best-effort", ALL, 1024);
const BULK: TinSpec = tin("bulk", (4, 2), 64);
const VIDEO: TinSpec = tin("video", (4, 1), 512);
const VOICE: TinSpec = tin("voice", (2, 1), 256);

/// Each of eight tins has seven eighths of the one before it.
const EIGHT: [TinSpec; 8] = [
    tin("tin0", ALL, 256),
    tin("tin1", (7, 1), 224),
    tin("tin2", (49, 2), 196),
    tin("tin3", (343, 3), 171),
    tin("tin4", (2_401, 4), 149),
    tin("tin5", (16_807, 5), 130),
    tin("tin6", (117_649, 6), 113),
    tin("tin7", (823_543, 7), 98),
];

impl Diffserv {
    /// Returns the tins.
    pub const fn tins(self) -> &'static [TinSpec] {
        match self {
            Self::Besteffort => &[ONLY],
            Self::Diffserv3 => &[BEST_EFFORT, BULK, VOICE],
            Self::Diffserv4 => &[BEST_EFFORT, BULK, VIDEO, VOICE],
            Self::Precedence | Self::Diffserv8 => &EIGHT,
        }
    }

    /// Returns the index of the tin for each DSCP (Linux: the tables of net/sched/sch_cake.c).
    pub fn table(self) -> [u8; 64] {
        std::array::from_fn(|dscp| self.tin(dscp as u8))
    }

    const fn tin(self, dscp: u8) -> u8 {
        let class = dscp >> 3; // class selector, also the class of assured forwarding
        let assured = matches!(dscp & 7, 0 | 2 | 4 | 6);
        match (self, dscp) {
            (Self::Besteffort, _) => 0,
            (Self::Precedence, _) => class,
            // LE and CS1; VA, EF, CS6, CS7; 4 is the low delay of RFC 1349.
            (Self::Diffserv3 | Self::Diffserv4, 1 | 8) => 1,
            (Self::Diffserv3, 4 | 44 | 46 | 48 | 56) => 2,
            (Self::Diffserv4, 32 | 40 | 44 | 46 | 48 | 56) => 3,
            (Self::Diffserv4, 4) => 2,
            (Self::Diffserv4, 16..40) if assured => 2,
            (Self::Diffserv3 | Self::Diffserv4, _) => 0,
            (Self::Diffserv8, 1) => 0,
            (Self::Diffserv8, 2) => 1,
            (Self::Diffserv8, 4) => 4,
            (Self::Diffserv8, 16) => 5,
            (Self::Diffserv8, 32 | 40 | 44 | 46) => 6,
            (Self::Diffserv8, 48 | 56) => 7,
            (Self::Diffserv8, 8..16) if assured => 1,
            (Self::Diffserv8, 16..24) if assured => 4,
            (Self::Diffserv8, 24..40) if assured => 3,
            (Self::Diffserv8, _) => 2,
        }
    }
}

#[cfg(test)]
mod tests;
