//! CAKE: a shaper, tins by DSCP, flow queues with fairness of hosts, COBALT and an ACK filter.
//!
//! T. Høiland-Jørgensen, D. Täht and J. Morton, "Piece of CAKE: A Comprehensive Queue Management
//! Solution for Home Gateways", LANMAN 2018; tc-cake(8); Linux's net/sched/sch_cake.c for what
//! these leave open.

mod cobalt;
mod diffserv;
mod framing;
mod pool;
#[cfg(test)]
mod tests;
mod tin;

use perhop_core::{Bytes, Dscp, Duration, Header, Packet, Rate, Stream, Time};

pub use diffserv::Diffserv;
pub use framing::{Coding, Framing};
pub use tin::Isolation;

use cobalt::Times;
use pool::{Pool, Taken};
use tin::Tin;

use super::signal::mark;
use crate::{Backlog, Cause, ClassCounters, Dequeue, Discipline, Ledger, Limit, Pass};

/// CAKE's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct CakeConfig {
    /// Limit of all queues together.
    pub limit: Limit,
    /// Rate of the shaper; `None` if the link limits it.
    pub bandwidth: Option<Rate>,
    /// Layer-2 overhead that the shaper and the deficits count.
    pub framing: Framing,
    /// Division into tins.
    pub diffserv: Diffserv,
    /// Assignment to flow queues, and fairness.
    pub isolation: Isolation,
    /// Usual round-trip time: COBALT's interval.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub rtt: Duration,
    /// Acceptable standing delay.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub target: Duration,
    /// Removal of superseded acknowledgements.
    pub ack_filter: AckFilter,
    /// True if DSCPs are set to zero after packets are assigned to tins.
    pub wash: bool,
    /// True if dropped packets count for the shaper, because they have crossed the bottleneck.
    pub ingress: bool,
}

/// Removal of acknowledgements that later ones in the same queue supersede.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum AckFilter {
    /// None.
    Off,
    /// The older of two acknowledgements that the arriving packet supersedes.
    On,
    /// Also the only one, directly before the arriving packet.
    Aggressive,
}

/// CAKE.
///
/// The shaper works by deficit: it computes the time of the next packet from the time at which this
/// one was due. It has no burst, and catches up with delays of the link. A tin that is below its
/// rate has priority over tins before it; tins above theirs are served in the order in which they
/// come below it again. Without a shaper, tins take turns in proportion to their quanta.
///
/// Other than in Linux, an empty queue that still remembers signals is in no list: its state is
/// brought up to date when it is next used. A host is a node, whatever its addresses, and two hosts
/// never share a counter.
#[derive(Debug)]
pub struct Cake<B> {
    config: CakeConfig,
    table: [u8; 64],
    tins: Vec<Tin>,
    pool: Pool<B>,
    perturbation: u64,
    random: Stream,
    backlog: Backlog,
    /// Time at which the shaper sends the next packet, …
    next: Time,
    /// … or this one, if it is earlier: sent packets at two thirds of the rate, without drops.
    failsafe: Time,
    /// Tin whose turn it is, if there is no shaper.
    current: usize,
}

impl<B> Cake<B> {
    /// Creates empty queues; hashes and BLUE's drops are drawn from `random`.
    pub fn new(config: CakeConfig, mut random: Stream) -> Self {
        let tins = config.diffserv.tins().iter().map(|&spec| {
            let rate = config.bandwidth.map(|bandwidth| spec.rate(bandwidth));
            Tin::new(spec, rate, Times::new(rate, config.target, config.rtt), config.isolation)
        });
        Self {
            table: config.diffserv.table(),
            tins: tins.collect(),
            pool: Pool::new(),
            perturbation: random.up_to(u64::MAX),
            random,
            backlog: Backlog::default(),
            next: Time::ZERO,
            failsafe: Time::ZERO,
            current: 0,
            config,
        }
    }

    /// Calls `visit` with the name, the counters and the backlog of each tin, if there are several.
    pub(crate) fn visit(&self, class: &str, visit: &mut impl FnMut(&str, &ClassCounters, Backlog)) {
        if let [_, _, ..] = &self.tins[..] {
            for tin in &self.tins {
                visit(&format!("{class}/{}", tin.spec.name), &tin.counters, tin.backlog);
            }
        }
    }

    /// Returns `true` if more waits than the limit allows.
    fn is_over_limit(&self) -> bool {
        let (packets, bytes) = self.config.limit.parts();
        self.backlog.packets > packets || self.backlog.bytes > bytes
    }

    /// Drops the first packet of the longest queue of all tins.
    fn shorten_longest(&mut self, now: Time, ledger: &mut Ledger<B>) {
        let longest = self.tins.iter_mut().enumerate().map(|(tin, each)| {
            let (bytes, queue) = each.longest();
            (bytes, tin, queue)
        });
        let Some((_, tin, queue)) = longest.max() else { return };
        let pool = &mut self.pool;
        let taken = self.tins[tin].with(queue, |packets, cobalt, times| {
            cobalt.on_overflow(times, now);
            packets.pop(pool)
        });
        self.discard(
            tin,
            taken.expect("the longest queue has a packet"),
            Cause::Limit,
            now,
            ledger,
        );
    }

    /// Drops a packet that has left its queue.
    fn discard(
        &mut self,
        tin: usize,
        taken: Taken<B>,
        cause: Cause,
        now: Time,
        ledger: &mut Ledger<B>,
    ) {
        self.backlog.packets -= 1;
        self.backlog.bytes -= taken.packet.size();
        self.tins[tin].counters.count_drop(cause);
        if self.config.ingress {
            self.advance(tin, taken.charged, now, true);
        }
        ledger.drop(taken.packet, cause);
    }

    /// Charges a packet to the shaper and to its tin (Linux: `cake_advance_shaper`).
    fn advance(&mut self, tin: usize, charged: Bytes, now: Time, dropped: bool) {
        let tin = &mut self.tins[tin];
        let (Some(whole), Some(rate)) = (self.config.bandwidth, tin.rate) else { return };
        let own = charged / rate;
        if tin.next < now {
            tin.next += own;
        } else {
            tin.next = tin.next.max(now + own);
        }
        let span = charged / whole;
        self.next += span;
        if !dropped {
            self.failsafe += span + span / 2;
        }
    }

    /// Returns the tin that sends next.
    fn select(&mut self, now: Time) -> Option<usize> {
        if self.config.bandwidth.is_some() {
            // The last one of those below their rates; else the one that is below it first.
            let turns = self.tins.iter().enumerate().filter(|(_, tin)| tin.has_turns());
            return turns
                .min_by_key(|(index, tin)| (tin.next.max(now), usize::MAX - index))
                .map(|(index, _)| index);
        }
        if !self.tins.iter().any(Tin::has_turns) {
            return None;
        }
        loop {
            let tin = &mut self.tins[self.current];
            if tin.deficit >= 0 && tin.has_turns() {
                return Some(self.current);
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.spec.quantum;
            }
            self.current = (self.current + 1) % self.tins.len();
        }
    }

    /// Serves a tin until it sends a packet, or has none in the queue whose turn it is.
    fn serve(&mut self, tin: usize, now: Time, ledger: &mut Ledger<B>) -> Option<Packet<B>> {
        let mut queue = self.tins[tin].turn()?;
        loop {
            let bulk = if self.config.ingress { self.tins[tin].bulk_flows() } else { 0 };
            let (pool, random) = (&mut self.pool, &mut self.random);
            let taken = self.tins[tin].with(queue, |packets, cobalt, times| {
                let taken = packets.pop(pool)?;
                let capable = taken.packet.header.ecn().is_capable();
                let delay = now.since(taken.arrived);
                let signal = cobalt.decide(times, (now, delay), bulk, capable, random);
                let marked = signal.congestion && capable;
                // The last packet of a queue is never dropped.
                let dropped =
                    (signal.flood || signal.congestion && !capable) && !packets.is_empty();
                Some((taken, marked, dropped))
            });
            let Some((mut taken, marked, dropped)) = taken else {
                self.tins[tin].retire(queue, now);
                return None;
            };
            let charged = taken.charged;
            if dropped {
                self.discard(tin, taken, Cause::Early, now, ledger);
                if self.config.ingress {
                    self.tins[tin].charge(charged);
                    queue = self.tins[tin].turn()?;
                }
                continue;
            }
            self.backlog.packets -= 1;
            self.backlog.bytes -= taken.packet.size();
            if marked {
                let marks = ledger.marks;
                mark(&mut taken.packet, ledger);
                self.tins[tin].counters.marked += ledger.marks - marks;
            }
            self.advance(tin, charged, now, false);
            self.tins[tin].charge(charged);
            self.tins[tin].counters.sent.add(taken.packet.size());
            return Some(taken.packet);
        }
    }
}

impl<B> Discipline<B> for Cake<B> {
    fn enqueue(&mut self, now: Time, mut packet: Packet<B>, ledger: &mut Ledger<B>) {
        let tin = usize::from(self.table[usize::from(packet.header.dscp().get())]);
        if self.config.wash {
            let class = &mut packet.header.traffic_class;
            *class = class.with_dscp(Dscp::DEFAULT);
        }
        let size = packet.size();
        if !self.config.limit.admits(Backlog::default(), size) {
            self.tins[tin].counters.count_drop(Cause::Limit);
            return ledger.drop(packet, Cause::Limit); // it would not fit into an empty queue
        }
        // Time that passed without packets is lost.
        if self.tins[tin].backlog.packets == 0 {
            self.tins[tin].next = self.tins[tin].next.max(now);
            if self.backlog.packets == 0 && self.next < now {
                (self.next, self.failsafe) = (now, now);
            }
        }
        let charged = self.config.framing.charge(size);
        let queue = self.tins[tin].push(&mut self.pool, now, packet, charged, self.perturbation);
        self.backlog.add(size);
        if self.config.ack_filter != AckFilter::Off {
            let aggressive = self.config.ack_filter == AckFilter::Aggressive;
            let pool = &mut self.pool;
            let superseded =
                self.tins[tin].with(queue, |packets, _, _| packets.filter(pool, aggressive));
            if let Some(taken) = superseded {
                self.discard(tin, taken, Cause::Early, now, ledger);
            }
        }
        while self.is_over_limit() {
            self.shorten_longest(now, ledger);
        }
    }

    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B> {
        while self.backlog.packets > 0 {
            let due = self.next.min(self.failsafe);
            if due > now && self.config.bandwidth.is_some() {
                return Dequeue::NotBefore(due);
            }
            let Some(tin) = self.select(now) else { break };
            if let Some(packet) = self.serve(tin, now, ledger) {
                return Dequeue::Packet(packet);
            }
        }
        Dequeue::Idle
    }

    fn pass(&mut self, _now: Time, _header: &Header) -> Pass {
        Pass::Enqueue // the shaper and its flow must be charged
    }

    fn head(&mut self, now: Time) -> Option<Bytes> {
        let first = self.select(now)?;
        let pool = &self.pool;
        self.tins[first].head(pool).or_else(|| self.tins.iter().find_map(|tin| tin.head(pool)))
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn drain(mut self, packets: &mut Vec<Packet<B>>) {
        for tin in self.tins {
            tin.drain(&mut self.pool, packets);
        }
    }
}
