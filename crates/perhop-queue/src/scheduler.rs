//! The schedulers that divide a link among classes, behind one interface.

use perhop_core::{Bytes, Time};

use crate::{Drr, LinkShare, Priority, Weight, Wf2q};

/// Scheduler of the classes that are not strict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Sharing {
    /// WF2Q+.
    #[default]
    Wfq,
    /// Deficit round robin, with quanta in proportion to the weights.
    Drr,
    /// Deficit round robin, with the weights as quanta in bytes.
    #[cfg_attr(feature = "serde", serde(rename = "drr-quanta"))]
    DrrQuanta,
    /// Guarantees first, then the remaining bandwidth by priority.
    #[cfg_attr(feature = "serde", serde(rename = "link-sharing"))]
    LinkShare,
}

/// Any scheduler. It records which classes are backlogged, and never holds a packet.
#[derive(Debug)]
pub(crate) enum Scheduler {
    Wfq(Wf2q),
    Drr(Drr),
    LinkShare(LinkShare),
}

impl Scheduler {
    pub fn new(sharing: Sharing, classes: &[(Weight, Priority, Weight)]) -> Self {
        let weights = || classes.iter().map(|(weight, ..)| *weight).collect::<Vec<_>>();
        match sharing {
            Sharing::Wfq => Self::Wfq(Wf2q::new(&weights())),
            Sharing::Drr => Self::Drr(Drr::new(&weights())),
            Sharing::DrrQuanta => Self::Drr(Drr::with_quanta(&weights())),
            Sharing::LinkShare => Self::LinkShare(LinkShare::with_excess(classes)),
        }
    }

    /// Advances the time to `now`, which is not before the last call.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        if let Self::LinkShare(link_share) = self {
            link_share.advance(now);
        }
    }

    /// Adds a class to the backlogged ones; its head packet has the size `head`.
    #[inline]
    pub fn activate(&mut self, class: usize, head: Bytes) {
        match self {
            Self::Wfq(wfq) => wfq.activate(class, head),
            Self::Drr(drr) => drr.activate(class, head),
            Self::LinkShare(link_share) => link_share.activate(class),
        }
    }

    /// Returns the class that goes next, or `None` if none is backlogged.
    #[inline]
    pub fn select(&mut self) -> Option<usize> {
        match self {
            Self::Wfq(wfq) => wfq.select(),
            Self::Drr(drr) => drr.select(),
            Self::LinkShare(link_share) => link_share.select(),
        }
    }

    /// Charges `sent` bytes to the selected class; `head` is the size of its next head packet, if
    /// any.
    #[inline]
    pub fn served(&mut self, class: usize, sent: Bytes, head: Option<Bytes>) {
        match self {
            Self::Wfq(wfq) => wfq.served(class, sent, head),
            Self::Drr(drr) => drr.served(class, sent, head),
            Self::LinkShare(link_share) => link_share.served(class, sent, head.is_some()),
        }
    }

    /// Returns `true` if a class of link sharing is backlogged and within its guarantee.
    pub fn is_guaranteed(&self, class: usize) -> bool {
        matches!(self, Self::LinkShare(link_share) if link_share.is_guaranteed(class))
    }

    /// Charges `sent` bytes to a class for which [`is_guaranteed`](Self::is_guaranteed) holds, and
    /// which was not selected; `more` is true if it is still backlogged.
    pub fn served_before(&mut self, class: usize, sent: Bytes, more: bool) {
        if let Self::LinkShare(link_share) = self {
            link_share.served_before(class, sent, more);
        }
    }

    /// Removes the selected class, or any class of link sharing, from the backlogged ones, for now.
    #[inline]
    pub fn withdraw(&mut self, class: usize) {
        match self {
            Self::Wfq(wfq) => wfq.withdraw(class),
            Self::Drr(drr) => drr.withdraw(class),
            Self::LinkShare(link_share) => link_share.withdraw(class),
        }
    }

    /// Returns `true` if several busy periods that [begin](Self::begin) with packets of the same
    /// class and length leave the state that the first one leaves.
    pub fn repeats(&self) -> bool {
        !matches!(self, Self::LinkShare(_))
    }

    /// Begins a busy period at `now`, with a packet that is sent at once, if one is: its class,
    /// which need not be activated, and its length.
    #[inline]
    pub fn begin(&mut self, now: Time, sent: Option<(usize, Bytes)>) {
        match self {
            Self::Wfq(wfq) => {
                wfq.restart();
                if let Some((class, sent)) = sent {
                    wfq.served_at_once(class, sent);
                }
            }
            Self::Drr(_) => {} // no class waited for this turn
            Self::LinkShare(link_share) => {
                link_share.advance(now);
                if let Some((class, sent)) = sent {
                    link_share.served(class, sent, false);
                }
            }
        }
    }
}
