//! The schedulers that divide a link among classes, behind one face.

use perhop_core::{Bytes, Time};

use crate::{Drr, LinkShare, Priority, Weight, Wf2q};

/// How the classes of a policy that are not strict share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Sharing {
    /// By WF2Q+.
    #[default]
    Wfq,
    /// By deficit round robin.
    Drr,
    /// Guarantees first, then what is left by priority.
    #[cfg_attr(feature = "serde", serde(rename = "link-sharing"))]
    LinkShare,
}

/// Any scheduler. It knows which classes are backlogged, and never holds a packet.
#[derive(Debug)]
pub(crate) enum Scheduler {
    Wfq(Wf2q),
    Drr(Drr),
    LinkShare(LinkShare),
}

impl Scheduler {
    pub fn new(sharing: Sharing, classes: &[(Weight, Priority)]) -> Self {
        let weights = || classes.iter().map(|(weight, _)| *weight).collect::<Vec<_>>();
        match sharing {
            Sharing::Wfq => Self::Wfq(Wf2q::new(&weights())),
            Sharing::Drr => Self::Drr(Drr::new(&weights())),
            Sharing::LinkShare => Self::LinkShare(LinkShare::new(classes)),
        }
    }

    /// It is `now`; not earlier than the last time.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        if let Self::LinkShare(link_share) = self {
            link_share.advance(now);
        }
    }

    /// A class that had nothing waiting now has, with a head packet of this size.
    #[inline]
    pub fn activate(&mut self, class: usize, head: Bytes) {
        match self {
            Self::Wfq(wfq) => wfq.activate(class, head),
            Self::Drr(drr) => drr.activate(class, head),
            Self::LinkShare(link_share) => link_share.activate(class),
        }
    }

    /// The class that goes next, or `None` if none is backlogged.
    #[inline]
    pub fn select(&mut self) -> Option<usize> {
        match self {
            Self::Wfq(wfq) => wfq.select(),
            Self::Drr(drr) => drr.select(),
            Self::LinkShare(link_share) => link_share.select(),
        }
    }

    /// The selected class has sent `sent` bytes, and has another head packet or none.
    #[inline]
    pub fn served(&mut self, class: usize, sent: Bytes, head: Option<Bytes>) {
        match self {
            Self::Wfq(wfq) => wfq.served(class, sent, head),
            Self::Drr(drr) => drr.served(class, sent, head),
            Self::LinkShare(link_share) => link_share.served(class, sent, head.is_some()),
        }
    }

    /// The selected class has nothing to send for now.
    #[inline]
    pub fn withdraw(&mut self, class: usize) {
        match self {
            Self::Wfq(wfq) => wfq.withdraw(class),
            Self::Drr(drr) => drr.withdraw(class),
            Self::LinkShare(link_share) => link_share.withdraw(class),
        }
    }

    /// Nothing was waiting: a busy period begins.
    #[inline]
    pub fn restart(&mut self) {
        if let Self::Wfq(wfq) = self {
            wfq.restart();
        }
    }

    /// A class has sent `sent` bytes as the first of a busy period, without having been activated.
    #[inline]
    pub fn served_at_once(&mut self, class: usize, sent: Bytes) {
        match self {
            Self::Wfq(wfq) => wfq.served_at_once(class, sent),
            Self::Drr(_) => {} // a turn that nobody waited for
            Self::LinkShare(link_share) => link_share.served(class, sent, false),
        }
    }
}
