//! Congestion control: the growth and reduction of the congestion window.
//!
//! Loss recovery belongs to the sender. A congestion control takes acknowledged bytes and
//! congestion events, and adapts a [`Window`].

mod bbr;
mod bbr1;
mod cubic;
mod hystart;
mod ledbat;
mod linux_cubic;
mod linux_hystart;
mod path_model;
mod scalable;

use perhop_core::{Duration, Ecn, Stream, Time};

use bbr::Bbr;
use bbr1::Bbr1;
use cubic::Cubic;
use hystart::HyStart;
use ledbat::Ledbat;
use linux_cubic::LinuxCubic;
use linux_hystart::LinuxHyStart;
use scalable::Scalable;

pub use path_model::{Delivered, PathModel};
pub use scalable::Marked;

use crate::Offset;

/// Congestion window and slow-start threshold in bytes.
///
/// The window has a fraction, because congestion avoidance grows it by less than a byte at a time.
/// It is computed with the four basic operations only, which every platform rounds alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Congestion window, in bytes.
    pub cwnd: f64,
    /// Slow-start threshold, in bytes: below it the window doubles every round trip.
    pub ssthresh: f64,
}

impl Window {
    /// Creates a window of `cwnd` bytes in slow start.
    pub const fn new(cwnd: f64) -> Self {
        Self { cwnd, ssthresh: f64::INFINITY }
    }

    /// Returns `true` in slow start.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// A congestion control with its state. States larger than CUBIC's are boxed, so that thousands of
/// connections with another control do not take memory for them.
#[derive(Clone, Debug)]
pub enum Congestion {
    /// Additive increase, halving on loss (RFC 5681), counting bytes (RFC 3465).
    Reno,
    /// A cubic function of the time since the last loss (RFC 9438).
    Cubic(CubicState),
    /// Yields when the queue grows (draft-irtf-iccrg-ledbat-plus-plus).
    Ledbat(LedbatState),
    /// DCTCP, which shrinks in proportion to the share of marks (RFC 8257), or Prague, its
    /// successor for the Internet (draft-briscoe-iccrg-prague-congestion-control).
    Scalable(ScalableState),
    /// BBR version 3, which follows a model of the path (draft-ietf-ccwg-bbr).
    Bbr(Box<BbrState>),
    /// BBR version 1, as in Linux (draft-cardwell-iccrg-bbr-congestion-control-00).
    Bbr1(Box<Bbr1State>),
}

/// State of BBR version 3.
#[derive(Clone, Debug)]
pub struct BbrState(Bbr);

/// State of BBR version 1.
#[derive(Clone, Debug)]
pub struct Bbr1State(Bbr1);

/// State of DCTCP or Prague.
#[derive(Clone, Debug)]
pub struct ScalableState(Box<Scalable>);

/// State of LEDBAT++.
#[derive(Clone, Debug)]
pub struct LedbatState(Box<Ledbat>);

/// State of CUBIC.
#[derive(Clone, Debug)]
pub struct CubicState {
    growth: Growth,
    /// Detection of the end of slow start before the queue is full.
    slow_start: Option<Box<SlowStart>>,
}

#[derive(Clone, Debug)]
enum Growth {
    Rfc9438(Cubic),
    Linux(Box<LinuxCubic>),
}

#[derive(Clone, Debug)]
enum SlowStart {
    /// HyStart++, until the first loss.
    PlusPlus(HyStart),
    Linux(LinuxHyStart),
}

/// Variant of CUBIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CubicConfig {
    /// End of slow start before a loss.
    pub hystart: HyStartKind,
    /// True if the window grows at least as fast as Reno's (RFC 9438, section 4.3).
    pub reno_friendly: bool,
    /// True if it grows as in Linux, which differs from RFC 9438.
    pub linux: bool,
}

/// A congestion control of Linux, whose sender computes it in integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinuxKind {
    Reno,
    Cubic { reno_friendly: bool, hystart: bool },
}

/// Method to end slow start before a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum HyStartKind {
    /// None: slow start ends with a loss.
    #[default]
    None,
    /// HyStart++ (RFC 9406), in the first slow start.
    #[cfg_attr(feature = "serde", serde(rename = "hystart++"))]
    PlusPlus,
    /// HyStart as in Linux, by delay and trains of acknowledgements.
    Linux,
}

/// Amount that a congestion event multiplies by the decrease factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DecreaseFrom {
    /// Bytes in flight, as far as they are within the window (RFC 5681, equation 4).
    Flight(f64),
    /// The window, in whole segments (as in Linux).
    Window,
}

/// Information about an acknowledgement for congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Its time.
    pub now: Time,
    /// Bytes acknowledged cumulatively; with QUIC, those that it is the first to cover.
    pub bytes: u64,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Round-trip time measured by this acknowledgement, if any.
    pub rtt: Option<Duration>,
    /// End of the acknowledged data: SND.UNA; with QUIC, the number after the largest acknowledged
    /// packet.
    pub ack: Offset,
    /// End of the sent data: SND.NXT; with QUIC, the number of the next packet.
    pub end: Offset,
    /// True if the window limited the sender; a window that is not used does not grow (RFC 7661,
    /// section 1).
    pub limited: bool,
    /// True if slow start grows by all acknowledged bytes, however many.
    pub stretched: bool,
    /// True if Reno grows in proportion to its window in bytes (RFC 9002, section 7.3.3), instead
    /// of its whole segments.
    pub bytewise: bool,
}

impl Acked {
    /// Returns the round-trip time of data. Linux's congestion control starts when the connection
    /// is established (`tcp_init_transfer`), so that the handshake is not one of its samples.
    fn data_rtt(&self) -> Option<Duration> {
        self.rtt.filter(|_| self.ack > 1)
    }
}

impl Congestion {
    /// Creates CUBIC in its initial state.
    pub fn cubic(config: CubicConfig) -> Self {
        let slow_start = match config.hystart {
            HyStartKind::None => None,
            HyStartKind::PlusPlus => Some(SlowStart::PlusPlus(HyStart::new(false))),
            HyStartKind::Linux => Some(SlowStart::Linux(LinuxHyStart::new(false))),
        };
        let growth = match config.linux {
            false => Growth::Rfc9438(Cubic::new(config.reno_friendly)),
            true => Growth::Linux(Box::new(LinuxCubic::new(config.reno_friendly))),
        };
        Self::Cubic(CubicState { growth, slow_start: slow_start.map(Box::new) })
    }

    /// Returns the congestion control if Linux has it.
    pub(crate) fn linux(&self) -> Option<LinuxKind> {
        match self {
            Self::Reno => Some(LinuxKind::Reno),
            Self::Cubic(CubicState { growth: Growth::Linux(cubic), slow_start }) => {
                let hystart = match slow_start.as_deref() {
                    None => false,
                    Some(SlowStart::Linux(_)) => true,
                    Some(SlowStart::PlusPlus(_)) => return None,
                };
                Some(LinuxKind::Cubic { reno_friendly: cubic.is_reno_friendly(), hystart })
            }
            _ => None,
        }
    }

    /// Creates LEDBAT++ in its initial state.
    pub fn ledbat() -> Self {
        Self::Ledbat(LedbatState(Box::new(Ledbat::new())))
    }

    /// Creates DCTCP in its initial state.
    pub fn dctcp() -> Self {
        Self::Scalable(ScalableState(Box::new(Scalable::dctcp())))
    }

    /// Creates Prague in its initial state.
    pub fn prague() -> Self {
        Self::Scalable(ScalableState(Box::new(Scalable::prague())))
    }

    /// Creates BBR version 3 in its initial state; it draws the times of its probes from `random`.
    pub fn bbr(random: Stream) -> Self {
        Self::Bbr(Box::new(BbrState(Bbr::new(random))))
    }

    /// Creates BBR version 1 in its initial state; it draws the start of its cycles from `random`.
    pub fn bbr1(random: Stream) -> Self {
        Self::Bbr1(Box::new(Bbr1State(Bbr1::new(random))))
    }

    /// Returns the model of the path, if there is one. It takes every delivery and every loss, and
    /// sets the window in recovery, too.
    pub fn model(&mut self) -> Option<&mut dyn PathModel> {
        match self {
            Self::Bbr(state) => Some(&mut state.0),
            Self::Bbr1(state) => Some(&mut state.0),
            _ => None,
        }
    }

    /// Returns `true` if a model of the path sets the window.
    pub fn is_modelled(&self) -> bool {
        matches!(self, Self::Bbr(_) | Self::Bbr1(_))
    }

    /// Returns `true` if the response to marks is in proportion to their share, instead of that to
    /// a loss.
    pub fn is_scalable(&self) -> bool {
        matches!(self, Self::Scalable(_))
    }

    fn is_prague(&self) -> bool {
        matches!(self, Self::Scalable(ScalableState(scalable)) if scalable.is_prague())
    }

    /// Returns `true` if the congestion control needs paced segments.
    pub fn needs_pacing(&self) -> bool {
        self.is_prague() || self.is_modelled()
    }

    /// Records that segments are paced: growth then needs no bound against bursts (RFC 9406,
    /// section 4.3: L).
    pub fn pace(&mut self) {
        if let Self::Cubic(CubicState { slow_start: Some(slow_start), .. }) = self {
            **slow_start = match **slow_start {
                SlowStart::PlusPlus(_) => SlowStart::PlusPlus(HyStart::new(true)),
                SlowStart::Linux(_) => SlowStart::Linux(LinuxHyStart::new(true)),
            };
        }
    }

    /// Returns the pacing rate that the congestion control sets, in bytes per second; `None` if it
    /// sets none.
    pub fn pacing_rate(&self) -> Option<f64> {
        match self {
            Self::Bbr(state) => state.0.pacing_rate(),
            Self::Bbr1(state) => state.0.pacing_rate(),
            _ => None,
        }
    }

    /// Returns the congestion control's own pacing factor after slow start, in windows per round
    /// trip. Prague sets one, so that marks come from the queue and not from bursts.
    pub fn pacing_factor(&self) -> Option<f64> {
        self.is_prague().then_some(1.0)
    }

    /// Returns the ECN field of packets of an ECN-capable connection.
    pub fn ect(&self) -> Ecn {
        match self {
            Self::Bbr(_) | Self::Bbr1(_) => Ecn::NotEct, // they do not respond to marks
            _ if self.is_prague() => Ecn::Ect1,
            _ => Ecn::Ect0,
        }
    }

    /// Takes delivered data, in recovery or not, over an ECN-capable connection.
    pub fn on_delivered(&mut self, marked: Marked) {
        if let Self::Scalable(ScalableState(scalable)) = self {
            scalable.on_delivered(marked);
        }
    }

    /// Takes data that was acknowledged outside loss recovery.
    pub fn on_ack(&mut self, window: &mut Window, mss: f64, acked: Acked) {
        if self.is_modelled() {
            return; // the model sets the window with each delivery
        }
        if let Self::Cubic(state) = self
            && state.watch_slow_start(window, mss, acked)
        {
            return;
        }
        if let Self::Ledbat(LedbatState(ledbat)) = self {
            ledbat.on_ack(window, mss, acked);
            return;
        }
        if !acked.limited {
            if let Self::Cubic(CubicState { growth, .. }) = self {
                match growth {
                    Growth::Rfc9438(cubic) => cubic.on_unused(acked.now),
                    Growth::Linux(cubic) => cubic.on_unused(acked.now),
                }
            }
            return;
        }
        if window.in_slow_start() {
            // Appropriate byte counting with L = 2: a delayed acknowledgement does not slow growth
            // down, and a stretched one does not cause a burst (RFC 3465, section 2.2). Linux,
            // whose receivers stretch acknowledgements, has no L, but stops at the threshold
            // (tcp_slow_start).
            let bytes = acked.bytes as f64;
            window.cwnd = match acked.stretched {
                true => (window.cwnd + bytes).min(window.ssthresh),
                false => window.cwnd + bytes.min(2.0 * mss),
            };
            return;
        }
        match self {
            // A segment for each window of acknowledged bytes (RFC 5681, section 3.1), counted in
            // whole segments as in Linux.
            Self::Reno => {
                // Floating-point sums of a segment's fractions may be a little below one.
                let segments = match acked.bytewise {
                    true => window.cwnd / mss,
                    false => (window.cwnd / mss + 1e-9).floor(),
                };
                window.cwnd += acked.bytes as f64 / segments.max(1.0);
            }
            Self::Cubic(CubicState { growth, .. }) => match growth {
                Growth::Rfc9438(cubic) => cubic.on_ack(window, mss, acked),
                Growth::Linux(cubic) => cubic.on_ack(window, mss, acked),
            },
            Self::Scalable(ScalableState(scalable)) => scalable.on_ack(window, mss, acked),
            Self::Ledbat(_) | Self::Bbr(_) | Self::Bbr1(_) => {}
        }
    }

    /// Responds to a loss: sets the threshold, and the window to it.
    pub fn on_loss(&mut self, window: &mut Window, mss: f64, from: DecreaseFrom) {
        let factor = match self {
            // RFC 8257, section 3.5: the response to a loss is unchanged.
            Self::Reno | Self::Ledbat(_) | Self::Scalable(_) => 0.5,
            Self::Cubic(CubicState { growth, slow_start }) => {
                if matches!(slow_start.as_deref(), Some(SlowStart::PlusPlus(_))) {
                    *slow_start = None; // the initial slow start is over
                }
                match growth {
                    Growth::Rfc9438(cubic) => cubic.on_loss(window.cwnd / mss),
                    Growth::Linux(cubic) => cubic.on_loss(window.cwnd / mss),
                }
            }
            Self::Bbr(_) | Self::Bbr1(_) => return,
        };
        let decreased = match from {
            DecreaseFrom::Flight(flight) => flight * factor,
            DecreaseFrom::Window => ((window.cwnd / mss).floor() * factor).floor() * mss,
        };
        window.ssthresh = decreased.max(2.0 * mss);
        window.cwnd = window.ssthresh;
    }

    /// Returns the state to restore if a loss turns out to be spurious: CUBIC's (RFC 9438, section
    /// 4.9). Reno has none, and the state of controls that respond to marks or delays need not be
    /// restored.
    pub fn before_loss(&self) -> Option<Self> {
        matches!(self, Self::Cubic(_)).then(|| self.clone())
    }

    /// Responds to an expiry of the retransmission timer, after `on_loss` if that counts as a new
    /// loss.
    pub fn on_timeout(&mut self) {
        if let Self::Cubic(CubicState { growth, slow_start }) = self {
            match growth {
                Growth::Rfc9438(cubic) => cubic.on_timeout(),
                Growth::Linux(cubic) => cubic.on_timeout(),
            }
            if let Some(SlowStart::Linux(hystart)) = slow_start.as_deref_mut() {
                hystart.on_timeout();
            }
        } else if let Some(model) = self.model() {
            model.on_timeout();
        }
    }

    /// Responds to the first mark of a round trip as to a loss, unless the congestion control has
    /// its own response (RFC 3168, section 6.1.2; RFC 9438, section 4.6). Returns `true` if the
    /// window shrank.
    pub fn on_mark(
        &mut self,
        window: &mut Window,
        mss: f64,
        from: DecreaseFrom,
        at: Marked,
    ) -> bool {
        let Self::Scalable(ScalableState(scalable)) = self else {
            self.on_loss(window, mss, from);
            return true;
        };
        let Some(factor) = scalable.on_mark(at.now, at.smoothed_rtt) else { return false };
        // RFC 8257, section 3.3, step 9: a factor of the window, whatever is in flight.
        window.ssthresh = (window.cwnd * factor).max(2.0 * mss);
        window.cwnd = window.ssthresh;
        true
    }
}

impl CubicState {
    /// Passes an acknowledgement to HyStart; returns `true` if that has grown the window.
    fn watch_slow_start(&mut self, window: &mut Window, mss: f64, acked: Acked) -> bool {
        if let (Growth::Linux(cubic), Some(rtt)) = (&mut self.growth, acked.data_rtt()) {
            cubic.on_rtt(rtt);
        }
        match self.slow_start.as_deref_mut() {
            // HyStart++ is for the initial slow start only (RFC 9406, section 4.3).
            Some(SlowStart::PlusPlus(hystart)) if window.ssthresh == f64::INFINITY => {
                hystart.on_ack(window, mss, acked);
                true
            }
            Some(SlowStart::Linux(hystart)) => {
                hystart.on_ack(window, mss, acked);
                false
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
