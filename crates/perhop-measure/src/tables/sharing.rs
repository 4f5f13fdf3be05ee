//! The tables of radio channels and of tunnels.

use std::sync::Arc;

use perhop_core::NodeId;
use perhop_net::{StationCounters, TunnelCounters, Usage};

use super::values::Values;
use super::{Column, Labels, Stretch, Table};

table! {
    /// One row per port on a radio channel and interval between two marks.
    Stations {
        channel: Channel,
        link: Link,
        start_s: Floats,
        end_s: Floats,
        transmissions: Integers,
        frames: Integers,
        retransmissions: Integers,
        failed_frames: Integers,
        abandoned_frames: Integers,
        sent_bytes: Integers,
        collisions: Integers,
        airtime_s: Floats,
        resource_blocks: Integers,
        utilisation: Floats,
    }
}

table! {
    /// One row per tunnel, entry and interval between two marks.
    Tunnels {
        tunnel: Tunnel,
        entry: Node,
        start_s: Floats,
        end_s: Floats,
        encapsulated_packets: Integers,
        encapsulated_bytes: Integers,
        outer_bytes: Integers,
        dropped_too_long: Integers,
        dropped_no_route: Integers,
        decapsulated_packets: Integers,
        decapsulated_bytes: Integers,
        dropped_ecn: Integers,
    }
}

impl Stations {
    /// Adds the counters of a port on a channel, which are of the same kind.
    pub fn push(
        &mut self,
        (channel, link): (u16, usize),
        (start, end): Stretch,
        before: &StationCounters,
        after: &StationCounters,
    ) {
        self.channel.push(channel.into());
        self.link.push(link as i64);
        self.start_s.push(start.as_secs_f64());
        self.end_s.push(end.as_secs_f64());
        self.transmissions.push((after.transmissions - before.transmissions) as i64);
        self.frames.push((after.frames - before.frames) as i64);
        self.retransmissions.push((after.retransmissions - before.retransmissions) as i64);
        self.failed_frames.push((after.failed - before.failed) as i64);
        self.abandoned_frames.push((after.abandoned - before.abandoned) as i64);
        self.sent_bytes.push((after.bytes - before.bytes).get() as i64);
        match (before.usage, after.usage) {
            (Usage::Wifi(then), Usage::Wifi(now)) => {
                self.collisions.push((now.collisions - then.collisions) as i64);
                self.airtime_s.push((now.airtime - then.airtime).as_secs_f64());
                self.resource_blocks.push(-1);
                let busy = (now.busy - then.busy).as_secs_f64();
                self.utilisation.push(busy / end.since(start).as_secs_f64());
            }
            (Usage::Lte(then), Usage::Lte(now)) => {
                self.collisions.push(-1);
                self.airtime_s.push(f64::NAN);
                let used = now.used - then.used;
                self.resource_blocks.push(used as i64);
                // In an interval in which no TTI begins, there are none.
                let offered = (now.offered - then.offered).max(1);
                self.utilisation.push(used as f64 / offered as f64);
            }
            _ => unreachable!("a channel keeps its kind"),
        }
    }
}

impl Tunnels {
    /// Adds the counters of the direction of a tunnel that begins at a node.
    pub fn push(
        &mut self,
        (tunnel, entry): (usize, NodeId),
        (start, end): Stretch,
        before: &TunnelCounters,
        after: &TunnelCounters,
    ) {
        let since = |counter: fn(&TunnelCounters) -> u64| (counter(after) - counter(before)) as i64;
        self.tunnel.push(tunnel as i64);
        self.entry.push(entry.0.into());
        self.start_s.push(start.as_secs_f64());
        self.end_s.push(end.as_secs_f64());
        self.encapsulated_packets.push(since(|counters| counters.encapsulated_packets));
        self.encapsulated_bytes.push(since(|counters| counters.encapsulated_bytes));
        self.outer_bytes.push(since(|counters| counters.outer_bytes));
        self.dropped_too_long.push(since(|counters| counters.dropped_too_long));
        self.dropped_no_route.push(since(|counters| counters.dropped_no_route));
        self.decapsulated_packets.push(since(|counters| counters.decapsulated_packets));
        self.decapsulated_bytes.push(since(|counters| counters.decapsulated_bytes));
        self.dropped_ecn.push(since(|counters| counters.dropped_ecn));
    }
}
