//! Ports that share a channel.

use perhop_core::{NodeId, Stream, Time};
use perhop_queue::{Dequeue, Discipline};

use super::{Aside, Network};
use crate::channel::{Access, Channel, Outcome, Place, StationCounters};
use crate::hosts::Loss;
use crate::port::PortId;

impl<B: Copy> Network<B> {
    /// Has ports send on one channel from now on, each at the rate of its wire. Packets that wait
    /// there must not be scheduled yet. In a cell, each port sends from or to its base station.
    ///
    /// The loss of a wire is that of a transmitted frame or transport block. On Wi-Fi, a packet is
    /// lost only if its frame is given up.
    pub fn share(&mut self, ports: &[PortId], access: impl Into<Access>, random: Stream) {
        let access = access.into();
        let mut senders: Vec<(NodeId, Vec<PortId>)> = Vec::new();
        if let Access::Lte { base, .. } = access {
            senders.push((base, Vec::new()));
        }
        for &id in ports {
            let node = self.ports[id.index() ^ 1].to;
            let same = |sender: NodeId| match access {
                Access::Wifi(_) => sender == node,
                Access::Lte { base, .. } => (sender == base) == (node == base),
            };
            match senders.iter_mut().find(|(sender, _)| same(*sender)) {
                Some((_, own)) => own.push(id),
                None => senders.push((node, vec![id])),
            }
        }
        let senders: Vec<Vec<PortId>> = senders.into_iter().map(|(_, own)| own).collect();
        let channel = self.channels.len() as u16;
        for (sender, own) in senders.iter().enumerate() {
            for (outlet, id) in own.iter().enumerate() {
                let place = Place { channel, sender: sender as u16, outlet: outlet as u16 };
                let now = self.now;
                self.changing(*id).share(now, place);
            }
        }
        self.channels.push(Channel::new(access, random, &senders));
    }

    /// Returns the number of a port's channel, and its counters there up to now; `None` without a
    /// channel.
    pub fn station(&self, id: PortId) -> Option<(u16, StationCounters)> {
        let place = self.ports[id.index()].place?;
        let channel = &self.channels[usize::from(place.channel)];
        Some((place.channel, channel.counters(self.now, place)))
    }

    /// Has a port contend for its channel, after a packet was enqueued. Without a channel, its link
    /// is down.
    #[cold]
    #[inline(never)]
    pub(super) fn contend(&mut self, id: PortId) {
        let Some(place) = self.ports[id.index()].place else { return };
        if self.channels[usize::from(place.channel)].offer(self.now, place) {
            self.contend_again(id);
        }
    }

    /// Has all senders on the channel of a port contend, after its link or its queue has changed.
    pub(super) fn contend_again(&mut self, id: PortId) {
        let Some(place) = self.ports[id.index()].place else { return };
        let channel = &mut self.channels[usize::from(place.channel)];
        let before = channel.next();
        channel.offer(self.now, place);
        channel.contend(self.now, &self.ports);
        self.schedule_channel(place.channel, before);
    }

    /// Schedules the next event of a channel, unless it is scheduled.
    fn schedule_channel(&mut self, number: u16, scheduled: Time) {
        let channel = &self.channels[usize::from(number)];
        if channel.next() < Time::MAX && channel.next() != scheduled {
            self.agenda.push(channel.next(), Self::transmitter_event(channel.owner()));
        }
    }

    /// Processes an event of a port's transmitter for which the port has none: that of its channel,
    /// or one that is void.
    #[cold]
    #[inline(never)]
    pub(super) fn run_channel(&mut self, id: PortId) {
        let Some(place) = self.ports[id.index()].place else { return };
        let channel = &mut self.channels[usize::from(place.channel)];
        if channel.next() != self.now || channel.owner() != id {
            return; // a sender could begin earlier meanwhile
        }
        let (now, ledger) = (self.now, &mut self.ledger);
        let (watched, departed) = (&mut self.aside, &mut self.departed);
        let (losses, before) = (&mut self.losses, channel.next());
        let outcomes = channel.run(now, &mut self.ports, |port, id| {
            let next = port.queue.dequeue(now, ledger);
            let drops = ledger.drops.drain(..);
            losses.extend(drops.map(|drop| (drop.packet, Loss::Queue(drop.cause), Some(id))));
            match next {
                Dequeue::NotBefore(at) => Err(at),
                Dequeue::Idle => Err(Time::MAX),
                Dequeue::Packet(packet) => {
                    port.count_shared(packet.size());
                    if port.reports_departures() {
                        departed.push((packet.body, packet.header.size));
                    }
                    if port.watched_at_start {
                        watched.push(Aside::Sent(id, packet));
                    }
                    Ok(packet)
                }
            }
        });
        self.schedule_channel(place.channel, before);
        for outcome in outcomes {
            match outcome {
                Outcome::Arrived(id, end, packet) => {
                    let at = self.ports[id.index()].arrival(end);
                    self.put_on_wire(id, at, packet);
                }
                Outcome::Lost(id, packet) => {
                    self.ports[id.index()].counters.lost += 1;
                    self.lose(packet, Loss::Link, Some(id));
                }
            }
        }
    }
}
