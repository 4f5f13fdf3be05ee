//! A radio channel that several links share: Wi-Fi, whose senders contend, or a cell of LTE, whose
//! base station schedules.

mod cell;
mod contention;
mod counters;
mod lte;
mod reports;
mod wifi;

use perhop_core::{NodeId, Packet, Stream, Time};

use cell::Cell;
use contention::Contention;
pub use counters::{LteUsage, StationCounters, Usage, WifiUsage};
pub use lte::{Lte, Scheduler};
pub use wifi::Wifi;

use crate::port::{Port, PortId};

/// How links share a channel.
#[derive(Clone, Copy, Debug)]
pub enum Access {
    /// Senders contend for it, as in IEEE 802.11.
    Wifi(Wifi),
    /// A base station, the node `base`, schedules both directions, as in LTE.
    Lte {
        /// The base station.
        base: NodeId,
        /// Settings.
        lte: Lte,
    },
}

impl From<Wifi> for Access {
    fn from(wifi: Wifi) -> Self {
        Self::Wifi(wifi)
    }
}

/// Place of a port in a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub channel: u16,
    /// Number of the group of ports with the port.
    pub sender: u16,
    /// Number of the port in its group.
    pub outlet: u16,
}

/// A result of a transmission.
pub(crate) enum Outcome<B> {
    /// A packet arrives after this time and the propagation delay.
    Arrived(PortId, Time, Packet<B>),
    /// A packet was given up.
    Lost(PortId, Packet<B>),
}

/// Packet from a port's queue, or the instant before which no packet leaves the queue;
/// [`Time::MAX`] if none waits.
pub(crate) type Loaded<B> = Result<Packet<B>, Time>;

/// A channel and the ports that share it.
#[derive(Debug)]
pub(crate) enum Channel<B> {
    Wifi(Contention<B>),
    Lte(Cell<B>),
}

impl<B: Copy> Channel<B> {
    /// Creates a channel of groups of ports. With Wi-Fi, a group is those of a sender. In a cell,
    /// the first group is the downlink, and the second one the uplink.
    pub fn new(access: Access, random: Stream, groups: &[Vec<PortId>]) -> Self {
        match access {
            Access::Wifi(wifi) => Self::Wifi(Contention::new(wifi, random, groups)),
            Access::Lte { lte, .. } => Self::Lte(Cell::new(lte, random, groups)),
        }
    }

    /// Returns the port whose events are those of the channel.
    pub fn owner(&self) -> PortId {
        match self {
            Self::Wifi(contention) => contention.owner(),
            Self::Lte(cell) => cell.owner(),
        }
    }

    /// Returns the counters of a port up to now.
    pub fn counters(&self, now: Time, place: Place) -> StationCounters {
        let (sender, outlet) = (usize::from(place.sender), usize::from(place.outlet));
        match self {
            Self::Wifi(contention) => contention.counters(now, sender, outlet),
            Self::Lte(cell) => cell.counters(now, sender, outlet),
        }
    }

    /// Returns the time of the channel's next event; [`Time::MAX`] if there is none.
    pub fn next(&self) -> Time {
        match self {
            Self::Wifi(contention) => contention.next,
            Self::Lte(cell) => cell.next,
        }
    }

    /// Notes that a port has a packet that may be sent now. Returns `true` if the next event may
    /// change.
    pub fn offer(&mut self, now: Time, place: Place) -> bool {
        match self {
            Self::Wifi(contention) => contention.offer(place),
            Self::Lte(cell) => cell.offer(now, place),
        }
    }

    /// Sets the time of the next event, after ports have changed.
    pub fn contend(&mut self, now: Time, ports: &[Port<B>]) {
        match self {
            Self::Wifi(contention) => contention.contend(now, ports),
            Self::Lte(cell) => cell.schedule(now, ports),
        }
    }

    /// Sends what is due now. Returns the outcomes, of each port in order.
    pub fn run(
        &mut self,
        now: Time,
        ports: &mut [Port<B>],
        load: impl FnMut(&mut Port<B>, PortId) -> Loaded<B>,
    ) -> Vec<Outcome<B>> {
        match self {
            Self::Wifi(contention) => contention.run(now, ports, load),
            Self::Lte(cell) => cell.run(now, ports, load),
        }
    }
}
