//! A cell: a base station that schedules its users in both directions, as in LTE.
//!
//! The downlink and the uplink are apart (FDD). In each transmission time interval (TTI), a
//! direction has a number of resource blocks, which the scheduler gives to users. A user sends at
//! most one transport block in a TTI, which holds packets and parts of packets (RLC, 3GPP TS
//! 36.322). A block that fails is sent again after the round trip of HARQ (TS 36.321), and
//! after its last retransmission by RLC. The receiver releases packets in order.

use std::collections::VecDeque;

use perhop_core::{Bytes, Packet, Rate, Stream, Time};
use perhop_queue::Discipline;

use super::reports::{Reports, aligned, begun};
use super::{Loaded, Lte, LteUsage, Outcome, Place, Scheduler, StationCounters, Usage};
use crate::port::{Port, PortId};

/// A transport block that was sent, and whose packets were not released.
#[derive(Debug)]
struct Block<B> {
    /// Packets whose last byte is in it.
    packets: Vec<Packet<B>>,
    resource_blocks: u32,
    /// Length of the data in it.
    bytes: Bytes,
    /// Begin of its first transmission, or of the first one after that was given up.
    first: Time,
    /// Transmissions that failed since then.
    failures: u32,
    /// Begin of its next transmission; [`Time::MAX`] if it has arrived.
    due: Time,
}

/// A user in one direction: a port, and the blocks under way there, in order.
#[derive(Debug)]
struct User<B> {
    port: PortId,
    window: VecDeque<Block<B>>,
    /// A packet of which a part was sent, and its other bytes.
    segment: Option<(Packet<B>, Bytes)>,
    /// When the queue releases a packet, as far as known.
    ready_at: Time,
    /// Reports, in the uplink.
    reports: Option<Reports>,
    /// Rate in this TTI; `None` if it can send nothing.
    rate: Option<Rate>,
    /// True if it has sent a block in this TTI, or can send none.
    served: bool,
    /// Bytes of new data that it has sent in this TTI.
    sent: Bytes,
    /// Mean of these, for the proportional-fair scheduler.
    average: f64,
    counters: StationCounters,
    /// Resource blocks that it has used.
    used: u64,
    /// Both before the last TTI in which it took part.
    settled: (StationCounters, u64),
    /// Number of this TTI among those that were run.
    ran: u64,
    /// True if it takes part in the next TTI: it has packets, or blocks under way.
    busy: bool,
}

/// One direction.
#[derive(Debug)]
struct Way<B> {
    users: Vec<User<B>>,
    /// Users that take part in the next TTI, in order.
    busy: Vec<u16>,
    /// User whose turn it is.
    turn: usize,
}

/// A cell and its state.
#[derive(Debug)]
pub(crate) struct Cell<B> {
    config: Lte,
    random: Stream,
    ways: Vec<Way<B>>,
    /// Number of TTIs that were run.
    runs: u64,
    /// Begin of the first TTI that was not run.
    after: Time,
    /// Time of the next event: the begin of a TTI. [`Time::MAX`] if there is none.
    pub next: Time,
}

impl<B: Copy> Cell<B> {
    /// Creates a cell with the ports of its downlink and of its uplink.
    pub fn new(config: Lte, random: Stream, ways: &[Vec<PortId>]) -> Self {
        let period = config.request_ttis();
        let way = |(number, ports): (usize, &Vec<PortId>)| Way {
            users: ports
                .iter()
                .enumerate()
                .map(|(user, &port)| {
                    let offset = user as u64 * period / ports.len() as u64;
                    User::new(port, (number == 1).then(|| Reports::new(offset)))
                })
                .collect(),
            busy: (0..ports.len() as u16).collect(),
            turn: 0,
        };
        let ways = ways.iter().enumerate().map(way).collect();
        Self { config, random, ways, runs: 0, after: Time::ZERO, next: Time::MAX }
    }

    /// Returns the port whose events are those of the cell.
    pub fn owner(&self) -> PortId {
        self.ways[0].users[0].port
    }

    /// Returns the counters of a user up to now. A TTI counts when it has begun before.
    pub fn counters(&self, now: Time, way: usize, user: usize) -> StationCounters {
        let user = &self.ways[way].users[user];
        let begins = self.after == now + Lte::TTI && user.ran == self.runs;
        let (counters, used) = if begins { user.settled } else { (user.counters, user.used) };
        let ttis = aligned(now).as_picos() / Lte::TTI.as_picos();
        let offered = ttis * u64::from(self.config.resource_blocks);
        StationCounters { usage: Usage::Lte(LteUsage { used, offered }), ..counters }
    }

    /// Notes that a port has a packet that may be sent now. Returns `true` if the next event is not
    /// that of the next TTI.
    pub fn offer(&mut self, now: Time, place: Place) -> bool {
        let way = &mut self.ways[usize::from(place.sender)];
        let user = &mut way.users[usize::from(place.outlet)];
        user.ready_at = Time::ZERO;
        if !user.busy {
            user.wake(self.runs, self.config);
            let at = way.busy.partition_point(|&other| other < place.outlet);
            way.busy.insert(at, place.outlet);
        }
        self.next > self.tti(now)
    }

    /// Returns the begin of the next TTI to run.
    fn tti(&self, now: Time) -> Time {
        aligned(now).max(self.after)
    }

    /// Sets the time of the next event.
    pub fn schedule(&mut self, now: Time, ports: &[Port<B>]) {
        let (tti, config) = (self.tti(now), self.config);
        self.next = Time::MAX;
        for way in &self.ways {
            for &user in &way.busy {
                let next = way.users[usize::from(user)].next(tti, config, ports);
                self.next = self.next.min(next);
                if next == tti {
                    return;
                }
            }
        }
    }

    /// Runs a TTI. Returns the outcomes, of each port in order.
    pub fn run(
        &mut self,
        now: Time,
        ports: &mut [Port<B>],
        mut load: impl FnMut(&mut Port<B>, PortId) -> Loaded<B>,
    ) -> Vec<Outcome<B>> {
        let mut outcomes = Vec::new();
        self.after = now + Lte::TTI;
        self.runs += 1;
        for way in &mut self.ways {
            for &user in &way.busy {
                way.users[usize::from(user)].begin(now, self.runs, self.config, ports);
            }
            let free = way.retransmit(now, self.config, ports, &mut self.random);
            way.transmit(now, self.config, free, ports, &mut self.random, &mut load);
            way.busy.retain(|&user| {
                let user = &mut way.users[usize::from(user)];
                user.end(&mut outcomes, now + Lte::TTI, self.config, ports);
                user.busy
            });
        }
        self.schedule(now, ports);
        outcomes
    }
}

/// Returns the rate at which a port sends in the TTI that begins now, if it does.
fn rate<B: Copy>(port: &Port<B>, now: Time) -> Option<Rate> {
    let Some(trace) = port.trace() else { return Some(port.wire().rate) };
    let bits = 8.0 * trace.capacity(now, now + Lte::TTI);
    Rate::new((bits / Lte::TTI.as_secs_f64()).round() as u64)
}

/// Returns these users, which are sorted, from the one whose turn it is.
fn in_turn(users: &[u16], turn: usize) -> impl Iterator<Item = usize> {
    let (last, first) = users.split_at(users.partition_point(|&user| usize::from(user) < turn));
    first.iter().chain(last).map(|&user| usize::from(user))
}

impl<B: Copy> Way<B> {
    /// Sends the blocks again that are due. Returns the number of resource blocks that are left.
    fn retransmit(
        &mut self,
        now: Time,
        config: Lte,
        ports: &[Port<B>],
        random: &mut Stream,
    ) -> u32 {
        let mut free = config.resource_blocks;
        for place in in_turn(&self.busy, self.turn) {
            let user = &mut self.users[place];
            let port = &ports[user.port.index()];
            let fits = |block: &&mut Block<B>| block.due <= now && block.resource_blocks <= free;
            if user.rate.is_some()
                && let Some(block) = user.window.iter_mut().find(fits)
            {
                free -= block.resource_blocks;
                user.served = true;
                user.counters.retransmissions += 1;
                user.used += u64::from(block.resource_blocks);
                block.judge(now, config, port, random, &mut user.counters);
            }
        }
        free
    }

    /// Sends new data in the resource blocks that are free.
    fn transmit(
        &mut self,
        now: Time,
        config: Lte,
        mut free: u32,
        ports: &mut [Port<B>],
        random: &mut Stream,
        load: &mut impl FnMut(&mut Port<B>, PortId) -> Loaded<B>,
    ) {
        while free > 0
            && let Some(chosen) = self.choose(now, config, ports)
        {
            let user = &mut self.users[chosen];
            let port = &mut ports[user.port.index()];
            user.served = true;
            if let Some(mut block) = user.load(now, config, free, port, load) {
                free -= block.resource_blocks;
                user.used += u64::from(block.resource_blocks);
                block.judge(now, config, port, random, &mut user.counters);
                user.window.push_back(block);
                user.report(now, config, port);
                self.turn = (chosen + 1) % self.users.len();
            }
        }
    }

    /// Returns the user that sends new data next.
    fn choose(&self, now: Time, config: Lte, ports: &[Port<B>]) -> Option<usize> {
        let mut ready =
            in_turn(&self.busy, self.turn).filter(|&place| self.users[place].is_ready(now, ports));
        match config.scheduler {
            Scheduler::RoundRobin => ready.next(),
            Scheduler::ProportionalFair => ready.reduce(|best, place| {
                // The ratio of the rate to the mean, without divisions by zero.
                let [one, other] = [best, place].map(|place| &self.users[place]);
                let rate = |user: &User<B>| user.rate.map_or(0, u64::from) as f64;
                if rate(other) * one.average > rate(one) * other.average { place } else { best }
            }),
        }
    }
}

impl<B: Copy> Block<B> {
    /// Decides whether the block arrives that is sent now, or else when it is sent again.
    fn judge(
        &mut self,
        now: Time,
        config: Lte,
        port: &Port<B>,
        random: &mut Stream,
        counters: &mut StationCounters,
    ) {
        counters.transmissions += 1;
        counters.frames += 1;
        counters.bytes += self.bytes;
        let first = match port.wire().loss {
            0 => config.bler,
            loss => loss,
        };
        if !random.chance_ppb(config.error(first, self.failures)) {
            self.due = Time::MAX;
            return;
        }
        counters.failed += 1;
        self.failures += 1;
        self.due = now + Lte::ROUND_TRIP;
        if self.failures > config.retries {
            counters.abandoned += 1;
            let reported = (self.first + config.reordering).max(now + Lte::TTI);
            self.due = aligned(reported + Lte::ROUND_TRIP);
            self.first = self.due;
            self.failures = 0;
        }
    }
}

impl<B: Copy> User<B> {
    fn new(port: PortId, reports: Option<Reports>) -> Self {
        Self {
            port,
            window: VecDeque::new(),
            segment: None,
            ready_at: Time::ZERO,
            reports,
            rate: None,
            served: false,
            sent: Bytes::ZERO,
            average: 0.0,
            counters: StationCounters::default(),
            used: 0,
            settled: Default::default(),
            ran: 0,
            busy: true,
        }
    }

    /// Takes part again, after so many TTIs were run.
    fn wake(&mut self, runs: u64, config: Lte) {
        self.busy = true;
        self.sent = Bytes::ZERO;
        for _ in self.ran..runs {
            if self.average == 0.0 {
                break;
            }
            self.count(config);
        }
    }

    /// Adds the bytes that it has sent in a TTI to their mean, if the scheduler needs that.
    fn count(&mut self, config: Lte) {
        if config.scheduler == Scheduler::ProportionalFair {
            self.average += (self.sent.get() as f64 - self.average) / Lte::MEMORY;
        }
    }

    /// Begins a TTI: grants begin, and a grant may be requested.
    fn begin(&mut self, now: Time, run: u64, config: Lte, ports: &[Port<B>]) {
        self.ran = run;
        let port = &ports[self.port.index()];
        self.rate = rate(port, now).filter(|_| port.is_up());
        (self.served, self.sent) = (self.rate.is_none(), Bytes::ZERO);
        if self.settled.0.transmissions != self.counters.transmissions {
            self.settled = (self.counters, self.used);
        }
        let Some(reports) = &mut self.reports else { return };
        reports.begin(now);
        let waits = port.has_backlog() && self.ready_at <= now && self.segment.is_none();
        let asks = !reports.has_grant() && reports.grant(now, config) == now;
        if self.rate.is_some() && waits && asks {
            reports.report(now, config, port.queue.backlog().packets);
        }
    }

    /// Ends a TTI at `end`: releases packets in order.
    fn end(&mut self, outcomes: &mut Vec<Outcome<B>>, end: Time, config: Lte, ports: &[Port<B>]) {
        let waiting = ports[self.port.index()].queue.backlog().packets;
        if let Some(reports) = &mut self.reports {
            reports.end(waiting);
        }
        self.count(config);
        while self.window.front().is_some_and(|block| block.due == Time::MAX)
            && let Some(block) = self.window.pop_front()
        {
            let port = self.port;
            outcomes
                .extend(block.packets.into_iter().map(|each| Outcome::Arrived(port, end, each)));
        }
        self.busy = waiting > 0 || self.segment.is_some() || !self.window.is_empty();
    }

    /// Returns `true` if a packet may be taken from the queue.
    fn may_take(&self, now: Time, port: &Port<B>) -> bool {
        let granted = self.reports.as_ref().is_none_or(Reports::has_grant);
        granted && port.has_backlog() && self.ready_at <= now
    }

    /// Returns `true` if it may send new data in this TTI.
    fn is_ready(&self, now: Time, ports: &[Port<B>]) -> bool {
        let waits = self.segment.is_some() || self.may_take(now, &ports[self.port.index()]);
        !self.served && waits && self.window.len() < Lte::WINDOW
    }

    /// Reports the packets that wait, with a block.
    fn report(&mut self, now: Time, config: Lte, port: &Port<B>) {
        if let Some(reports) = &mut self.reports {
            reports.report(now, config, port.queue.backlog().packets);
        }
    }

    /// Returns the begin of the first TTI, from `tti` on, in which it does something;
    /// [`Time::MAX`] if there is none.
    fn next(&self, tti: Time, config: Lte, ports: &[Port<B>]) -> Time {
        let port = &ports[self.port.index()];
        if !port.is_up() {
            return Time::MAX;
        }
        // A TTI is also one in whose middle an outage ends.
        let tti = match port.trace() {
            Some(trace) => tti.max(begun(trace.transmits_from(tti))),
            None => tti,
        };
        let due = self.window.iter().map(|block| block.due.max(tti)).fold(Time::MAX, Time::min);
        if self.window.len() >= Lte::WINDOW {
            return due;
        }
        if self.segment.is_some() {
            return tti;
        }
        if !port.has_backlog() {
            return due;
        }
        let ready = aligned(self.ready_at.max(tti));
        let granted = match &self.reports {
            Some(reports) if ready < Time::MAX => reports.grant(ready, config),
            _ => ready,
        };
        due.min(granted)
    }

    /// Loads a block of at most `free` resource blocks; `None` if there is nothing to send.
    fn load(
        &mut self,
        now: Time,
        config: Lte,
        free: u32,
        port: &mut Port<B>,
        load: &mut impl FnMut(&mut Port<B>, PortId) -> Loaded<B>,
    ) -> Option<Block<B>> {
        let rate = self.rate?;
        let capacity = config.bytes(rate, free);
        let (mut room, mut packets) = (capacity, Vec::new());
        while room > Bytes::ZERO {
            let (packet, left) = match self.segment.take() {
                Some(segment) => segment,
                None if !self.may_take(now, port) => break,
                None => match load(port, self.port) {
                    Ok(packet) => {
                        self.reports.iter_mut().for_each(Reports::take);
                        let size = port.wire().overhead.on_wire(packet.size());
                        (packet, size)
                    }
                    Err(at) => {
                        self.ready_at = at;
                        break;
                    }
                },
            };
            if left > room {
                self.segment = Some((packet, left - room));
                room = Bytes::ZERO;
            } else {
                packets.push(packet);
                room -= left;
            }
        }
        self.sent = capacity - room;
        let resource_blocks = config.blocks(rate, self.sent, free);
        let empty = self.sent == Bytes::ZERO && packets.is_empty();
        let bytes = self.sent;
        let block = Block { packets, resource_blocks, bytes, first: now, failures: 0, due: now };
        (!empty).then_some(block)
    }
}
