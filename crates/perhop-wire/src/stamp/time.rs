//! Time stamps of STAMP and their error (RFC 8762, section 4.2.1).

const SECOND: u128 = 1_000_000_000;
/// Seconds from the beginning of 1900 to that of 1970 (RFC 5905, appendix A.4).
const NTP_EPOCH: u64 = 2_208_988_800;

/// Format of time stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StampFormat {
    /// Seconds since 1900 and 2⁻³² seconds, as in NTP (RFC 5905, section 6).
    #[default]
    Ntp,
    /// Seconds since 1970 and nanoseconds, as truncated PTPv2 (RFC 8186, section 2.1).
    Ptp,
}

impl StampFormat {
    /// Returns a time stamp for nanoseconds since 1970.
    pub fn bits(self, nanos: u64) -> u64 {
        let (seconds, rest) = (nanos / SECOND as u64, nanos % SECOND as u64);
        match self {
            // Rounded up, so that reading it returns the same nanoseconds.
            Self::Ntp => {
                let fraction = (u128::from(rest) << 32).div_ceil(SECOND) as u64;
                (seconds.wrapping_add(NTP_EPOCH) << 32) + fraction
            }
            Self::Ptp => seconds << 32 | rest,
        }
    }

    /// Returns nanoseconds since 1970 of a time stamp. Its seconds repeat every 136 years: of the
    /// instants that it may be, the one next to `near`.
    pub fn nanos(self, bits: u64, near: u64) -> u64 {
        const ERA: i128 = (SECOND << 32) as i128;
        let (seconds, rest) = (bits >> 32, bits & 0xffff_ffff);
        let (epoch, rest) = match self {
            Self::Ntp => (NTP_EPOCH, (u128::from(rest) * SECOND + (1 << 31)) >> 32),
            Self::Ptp => (0, u128::from(rest)),
        };
        let nanos = (i128::from(seconds) - i128::from(epoch)) * SECOND as i128 + rest as i128;
        let near = i128::from(near);
        let away = (nanos - near + ERA / 2).rem_euclid(ERA) - ERA / 2;
        u64::try_from((near + away).max(0)).unwrap_or(u64::MAX)
    }
}

/// Error estimate of a clock (RFC 4656, section 4.1.2; RFC 8186, section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampError {
    /// True if the clock is synchronised to UTC by an external source (S).
    pub synchronized: bool,
    /// Format of the time stamps (Z).
    pub format: StampFormat,
    /// Exponent of two, from 0 to 63.
    pub scale: u8,
    /// Factor; never zero in a valid packet.
    pub multiplier: u8,
}

impl StampError {
    /// Returns the smallest estimate that is not below an error in nanoseconds.
    pub fn new(nanos: u64, synchronized: bool, format: StampFormat) -> Self {
        // The error is multiplier × 2^(scale - 32) seconds.
        let units = (u128::from(nanos) << 32).div_ceil(SECOND).max(1);
        let bits = u128::BITS - units.leading_zeros();
        let mut scale = bits.saturating_sub(8);
        let mut multiplier = units.div_ceil(1 << scale);
        if multiplier > 255 {
            scale += 1;
            multiplier = multiplier.div_ceil(2);
        }
        Self { synchronized, format, scale: scale as u8 & 63, multiplier: multiplier as u8 }
    }

    /// Reads the field.
    pub fn from_bits(bits: u16) -> Self {
        Self {
            synchronized: bits & 0x8000 != 0,
            format: if bits & 0x4000 == 0 { StampFormat::Ntp } else { StampFormat::Ptp },
            scale: (bits >> 8) as u8 & 63,
            multiplier: bits as u8,
        }
    }

    /// Returns the field.
    pub fn bits(&self) -> u16 {
        let ptp = self.format == StampFormat::Ptp;
        u16::from(self.synchronized) << 15
            | u16::from(ptp) << 14
            | u16::from(self.scale & 63) << 8
            | u16::from(self.multiplier)
    }

    /// Returns the error in nanoseconds, rounded up.
    pub fn nanos(&self) -> u64 {
        let units = u128::from(self.multiplier) << self.scale.min(63);
        u64::try_from((units * SECOND).div_ceil(1 << 32)).unwrap_or(u64::MAX)
    }
}
