//! Parts of a network that run side by side, by conservative synchronisation.
//!
//! Simulated time is divided into windows. No packet that leaves a part in a window arrives in
//! another part within it, because each window is shorter than the least delay between parts. So
//! each part processes its events of a window alone, then all meet, and packets change parts.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use perhop_core::{Duration, Header, NodeId, Packet, Time};
use perhop_net::PortId;

use super::Part;
use crate::hosts::HandedOver;

/// A packet on its way into another part.
#[derive(Debug)]
struct Crossing {
    port: PortId,
    at: Time,
    header: Header,
    body: HandedOver,
}

/// What the parts tell each other. All is there twice, because some parts write for the next window
/// while others still read.
#[derive(Debug)]
struct Board {
    parts: usize,
    told: [Vec<Told>; 2],
    /// Packets between two parts: to one, from another.
    crossings: [Vec<Mutex<Vec<Crossing>>>; 2],
    gate: Gate,
}

/// What a part tells all others, in picoseconds.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Told {
    /// Its next event, or the arrival of a packet that it has handed over.
    next: AtomicU64,
    /// First arrival of a packet that it has not handed over.
    leaving: AtomicU64,
}

/// Where all parts meet.
#[derive(Debug, Default)]
struct Gate {
    parties: usize,
    waiting: AtomicUsize,
    round: AtomicUsize,
    /// True if a part has panicked, and will not come.
    broken: AtomicBool,
}

/// Number of looks at the gate before other programs may run meanwhile, and before its thread
/// sleeps between two looks.
const LOOKS: u32 = 1_000;
const PATIENCE: u32 = LOOKS + 100;
/// Time of such a sleep.
const NAP: std::time::Duration = std::time::Duration::from_micros(50);

impl Gate {
    fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.parties {
            self.waiting.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut looks = 0_u32;
        while self.round.load(Ordering::Acquire) == round {
            assert!(!self.broken.load(Ordering::Relaxed), "another part of the network failed");
            match looks {
                0..LOOKS => std::hint::spin_loop(),
                LOOKS..PATIENCE => thread::yield_now(),
                _ => thread::sleep(NAP),
            }
            looks = looks.saturating_add(1);
        }
    }
}

/// Breaks the gate if its thread panics.
struct Warden<'a>(&'a Gate);

impl Drop for Warden<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs all parts up to and including `until`. Packets between nodes of two parts take more than
/// `lookahead`.
pub(super) fn run(parts: &mut [Part], owners: &[u16], lookahead: Duration, until: Time) {
    let number = parts.len();
    let told = || (0..number).map(|_| Told::default()).collect();
    let crossings = || (0..number * number).map(|_| Mutex::default()).collect();
    let board = &Board {
        parts: number,
        told: [told(), told()],
        crossings: [crossings(), crossings()],
        gate: Gate { parties: number, ..Gate::default() },
    };
    let work = move |index: usize, part: &mut Part| {
        let _warden = Warden(&board.gate);
        board.run(index, part, (owners, lookahead), until);
    };
    thread::scope(|scope| {
        let mut parts = parts.iter_mut().enumerate();
        let first = parts.next();
        for (index, part) in parts {
            scope.spawn(move || work(index, part));
        }
        if let Some((index, part)) = first {
            work(index, part);
        }
    });
}

impl Board {
    fn run(
        &self,
        own: usize,
        part: &mut Part,
        (owners, lookahead): (&[u16], Duration),
        until: Time,
    ) {
        let lookahead = lookahead.as_picos();
        let Part { network, hosts, .. } = part;
        let mut reached = network.now();
        let mut outgoing: Vec<Vec<Crossing>> = (0..self.parts).map(|_| Vec::new()).collect();
        for round in 0_usize.. {
            let side = round % 2;
            let mut next = network.next_event().unwrap_or(Time::MAX);
            let certain = Time::from_picos(reached.as_picos().saturating_add(lookahead));
            network.take_leaving(certain, |port, at, to: NodeId, Packet { header, body }| {
                next = next.min(at);
                let body = hosts.hand_over(body);
                let to = usize::from(owners[usize::from(to.0)]);
                outgoing[to].push(Crossing { port, at, header, body });
            });
            for (to, crossings) in
                outgoing.iter_mut().enumerate().filter(|(_, some)| !some.is_empty())
            {
                let mut place = self.place(side, (to, own));
                std::mem::swap(&mut *place, crossings);
            }
            let leaving = network.next_leaving().unwrap_or(Time::MAX);
            self.told[side][own].next.store(next.as_picos(), Ordering::Relaxed);
            self.told[side][own].leaving.store(leaving.as_picos(), Ordering::Relaxed);
            self.gate.wait();

            let least = |value: fn(&Told) -> &AtomicU64| {
                let values = self.told[side].iter().map(|told| value(told).load(Ordering::Relaxed));
                values.min().unwrap_or(u64::MAX)
            };
            // What the last changes have caused is sent now.
            let next = if round == 0 { reached.as_picos() } else { least(|told| &told.next) };
            let before = next.saturating_add(lookahead).min(least(|told| &told.leaving));
            let end = Time::from_picos(before - 1).min(until);
            for from in (0..self.parts).filter(|&from| from != own) {
                for Crossing { port, at, header, body } in self.place(side, (own, from)).drain(..) {
                    let body = hosts.take_over(body);
                    network.put_arriving(port, at, Packet { header, body });
                }
            }
            if end == until {
                return network.run(until, hosts);
            }
            network.run_on(end, hosts);
            reached = end;
        }
    }

    fn place(
        &self,
        side: usize,
        (to, from): (usize, usize),
    ) -> std::sync::MutexGuard<'_, Vec<Crossing>> {
        let place = &self.crossings[side][to * self.parts + from];
        place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
