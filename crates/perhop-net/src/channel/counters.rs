//! Counters of stations on a channel.

use perhop_core::{Bytes, Duration, Time};

/// Counters of a port on a channel: what a station sends there to another one. On Wi-Fi, a frame
/// is a MAC frame, and a transmission has one or several of them. In a cell, both are a transport
/// block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StationCounters {
    /// Transmissions.
    pub transmissions: u64,
    /// Frames in them, those that are sent again included.
    pub frames: u64,
    /// Frames that were sent again.
    pub retransmissions: u64,
    /// Frames that did not arrive.
    pub failed: u64,
    /// Frames that were given up. In a cell, HARQ gives up, and RLC sends the block again.
    pub abandoned: u64,
    /// Length of the frames, or of the data in the blocks.
    pub bytes: Bytes,
    /// Counters of a kind of channel.
    pub usage: Usage,
}

/// How much of a channel a station has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// On Wi-Fi.
    Wifi(WifiUsage),
    /// In a cell.
    Lte(LteUsage),
}

/// Time on a channel of Wi-Fi.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WifiUsage {
    /// Transmissions that collided.
    pub collisions: u64,
    /// Duration of the transmissions, each up to the end of its acknowledgement.
    pub airtime: Duration,
    /// Part of that for which the channel was not busy with another transmission that counts.
    pub busy: Duration,
}

/// Resource blocks of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LteUsage {
    /// Those that a station has used.
    pub used: u64,
    /// Those of its direction, since the beginning.
    pub offered: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self::Wifi(WifiUsage::default())
    }
}

/// Time on the channel that a receiver's transmissions have used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Airtime {
    /// Transmissions that collided.
    pub collisions: u64,
    /// Duration of all exchanges, the present one included.
    used: Duration,
    /// End of the last exchange.
    until: Time,
    /// Part of that which no other sender of the same exchange has used.
    alone: Duration,
    /// The last such part.
    last: (Time, Time),
}

impl Airtime {
    /// Adds an exchange. The channel was busy with others until `others`.
    pub fn add(&mut self, now: Time, used: Duration, others: Time) {
        self.until = now + used;
        self.used += used;
        self.last = (others, self.until.max(others));
        self.alone += self.last.1.since(others);
    }

    /// Returns its counters up to now.
    pub fn usage(&self, now: Time) -> Usage {
        let after = |from: Time, until: Time| until.max(now).since(from.max(now));
        Usage::Wifi(WifiUsage {
            collisions: self.collisions,
            airtime: self.used - after(now, self.until),
            busy: self.alone - after(self.last.0, self.last.1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exchanges of 10 us at 100 us, which another began before and is over at 104 us, and of 5 us
    /// at 200 us, within one until 207 us: what has passed of them, and what of that was its own.
    #[test]
    fn airtime_counts_what_has_passed() {
        let at = |micros| Time::ZERO + Duration::from_micros(micros);
        let mut airtime = Airtime::default();
        let expect = |airtime: &Airtime, now, used, busy| {
            let expected = WifiUsage {
                collisions: 0,
                airtime: Duration::from_micros(used),
                busy: Duration::from_micros(busy),
            };
            assert_eq!(airtime.usage(at(now)), Usage::Wifi(expected), "{now}");
        };
        expect(&airtime, 50, 0, 0);
        airtime.add(at(100), Duration::from_micros(10), at(104));
        for (now, used, busy) in
            [(100, 0, 0), (103, 3, 0), (104, 4, 0), (105, 5, 1), (110, 10, 6), (150, 10, 6)]
        {
            expect(&airtime, now, used, busy);
        }
        airtime.add(at(200), Duration::from_micros(5), at(207));
        for (now, used, busy) in [(200, 10, 6), (204, 14, 6), (207, 15, 6), (300, 15, 6)] {
            expect(&airtime, now, used, busy);
        }
    }
}
