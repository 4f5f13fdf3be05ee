//! Any discipline, and the settings of those without classes.

mod cake;
mod codel;
mod dualpi2;
mod flow_queues;
mod fq_codel;
mod fq_pie;
mod pie;
mod red;
mod rounds;
mod sfq;
mod signal;
mod waiting;

use perhop_core::{Bytes, Header, Packet, Stream, Time};

pub use cake::{AckFilter, Cake, CakeConfig, Coding, Diffserv, Framing, Isolation};
pub use codel::{Codel, CodelConfig};
pub use dualpi2::{DualPi2, DualPi2Config};
pub use fq_codel::{FqCodel, FqCodelConfig, StandingBacklog};
pub use fq_pie::{FqPie, FqPieConfig};
pub use pie::{Pie, PieConfig};
pub use red::{Measure, Red, RedConfig, RedProfile, RedRule, RedSpec};
pub use sfq::{Sfq, SfqConfig};

use crate::class::Unmarked;
use crate::{
    Backlog, Cbq, Classes, Dequeue, Discipline, Fifo, FifoConfig, Hfsc, Htb, Ledger, Pass, Policed,
};

/// Any discipline. The set is closed and known when a scenario is compiled, so that the dispatch is
/// a branch instead of a virtual call.
#[derive(Debug)]
pub enum Queue<B> {
    /// First in, first out.
    Fifo(Fifo<B>),
    /// Random early detection, with one profile or several.
    Red(Box<Red<B>>),
    /// Controlled delay.
    Codel(Box<Codel<B>>),
    /// Flow queues with controlled delay.
    FqCodel(Box<FqCodel<B>>),
    /// Shaper, tins, flow queues with fairness of hosts, and ACK filter.
    Cake(Box<Cake<B>>),
    /// Proportional integral controller enhanced.
    Pie(Box<Pie<B>>),
    /// Flow queues with PIE.
    FqPie(Box<FqPie<B>>),
    /// Stochastic fairness queueing.
    Sfq(Box<Sfq<B>>),
    /// Two coupled queues.
    DualPi2(Box<DualPi2<B>>),
    /// Classes that share a link.
    Classes(Box<Classes<B>>),
    /// Class-based queueing as in ALTQ.
    Cbq(Box<Cbq<B>>),
    /// Classes with service curves.
    Hfsc(Box<Hfsc<B>>),
    /// Classes with hierarchical token buckets.
    Htb(Box<Htb<B>>),
    /// A queue, or classes, behind policers.
    Policed(Box<Policed<B>>),
    /// [Reserved](crate::Reserved) classes and, as the last one, the class behind them.
    Reserved(Box<Classes<B>>),
}

/// Calls the same method of the discipline that a queue contains.
macro_rules! delegate {
    ($queue:expr, $discipline:ident => $call:expr) => {
        match $queue {
            Queue::Fifo($discipline) => $call,
            Queue::Red($discipline) => $call,
            Queue::Codel($discipline) => $call,
            Queue::FqCodel($discipline) => $call,
            Queue::Cake($discipline) => $call,
            Queue::Pie($discipline) => $call,
            Queue::FqPie($discipline) => $call,
            Queue::Sfq($discipline) => $call,
            Queue::DualPi2($discipline) => $call,
            Queue::Classes($discipline) => $call,
            Queue::Cbq($discipline) => $call,
            Queue::Hfsc($discipline) => $call,
            Queue::Htb($discipline) => $call,
            Queue::Policed($discipline) => $call,
            Queue::Reserved($discipline) => $call,
        }
    };
}

impl<B> Discipline<B> for Queue<B> {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        delegate!(self, discipline => discipline.enqueue(now, packet, ledger));
    }

    #[inline]
    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B> {
        delegate!(self, discipline => discipline.dequeue(now, ledger))
    }

    #[inline]
    fn pass(&mut self, now: Time, header: &Header) -> Pass {
        delegate!(self, discipline => discipline.pass(now, header))
    }

    #[inline]
    fn head(&mut self, now: Time) -> Option<Bytes> {
        delegate!(self, discipline => discipline.head(now))
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        delegate!(self, discipline => discipline.backlog())
    }

    fn drain(self, packets: &mut Vec<Packet<B>>) {
        delegate!(self, discipline => discipline.drain(packets));
    }
}

impl<B> Queue<B> {
    /// Offers a packet that the class of this queue has marked, or one above it. Classes classify
    /// it by the marks `unmarked`.
    pub(crate) fn enqueue_marked(
        &mut self,
        now: Time,
        packet: Packet<B>,
        unmarked: Unmarked,
        ledger: &mut Ledger<B>,
    ) {
        match self {
            Self::Classes(classes) => classes.enqueue_marked(now, packet, unmarked, ledger),
            Self::Policed(policed) => policed.enqueue_marked(now, packet, unmarked, ledger),
            _ => self.enqueue(now, packet, ledger),
        }
    }
}

/// Settings of a queue without classes.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum QueueConfig {
    /// First in, first out.
    Fifo(FifoConfig),
    /// Random early detection, with one profile or several.
    Red(RedSpec),
    /// Controlled delay.
    Codel(CodelConfig),
    /// Flow queues with controlled delay.
    FqCodel(FqCodelConfig),
    /// Shaper, tins, flow queues with fairness of hosts, and ACK filter.
    Cake(CakeConfig),
    /// Proportional integral controller enhanced.
    Pie(PieConfig),
    /// Flow queues with PIE.
    FqPie(FqPieConfig),
    /// Stochastic fairness queueing.
    Sfq(SfqConfig),
    /// Two coupled queues.
    #[cfg_attr(feature = "serde", serde(rename = "dualpi2"))]
    DualPi2(DualPi2Config),
}

impl QueueConfig {
    /// Creates an empty queue with these settings; one that decides at random draws from `random`.
    pub fn queue<B>(&self, random: impl FnOnce() -> Stream) -> Queue<B> {
        match self {
            Self::Fifo(config) => Queue::Fifo(Fifo::of(*config)),
            Self::Red(spec) => Queue::Red(Box::new(Red::of(spec, random()))),
            Self::Codel(config) => Queue::Codel(Box::new(Codel::new(*config))),
            Self::FqCodel(config) => Queue::FqCodel(Box::new(FqCodel::new(*config, &mut random()))),
            Self::Cake(config) => Queue::Cake(Box::new(Cake::new(*config, random()))),
            Self::Pie(config) => Queue::Pie(Box::new(Pie::new(*config, random()))),
            Self::FqPie(config) => Queue::FqPie(Box::new(FqPie::new(*config, random()))),
            Self::Sfq(config) => Queue::Sfq(Box::new(Sfq::new(*config, random()))),
            Self::DualPi2(config) => Queue::DualPi2(Box::new(DualPi2::new(*config))),
        }
    }
}
