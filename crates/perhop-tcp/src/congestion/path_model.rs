//! What a congestion control that follows a model of the path is told, and what it decides.

use perhop_core::{Duration, Time};

use super::Window;
use crate::scoreboard::{LostSegment, RateSample};

/// What a sender tells with an acknowledgement that delivers data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    pub now: Time,
    pub sample: RateSample,
    /// Bytes that the acknowledgement is the first to cover.
    pub newly: u64,
    /// What is in flight after it.
    pub in_flight: u64,
    /// True if the sender is in loss recovery.
    pub recovering: bool,
    pub smoothed_rtt: Duration,
}

/// A model of the path: it learns of every delivery and every loss, paces, and sets the window in
/// recovery, too.
pub(crate) trait PathModel {
    /// Takes the sizes of the connection, before it begins.
    fn begin(&mut self, window: &Window, mss: f64);

    /// Bytes a second at which segments go out; none before the first acknowledgement.
    fn pacing_rate(&self) -> Option<f64>;

    /// Returns the least round-trip time that is known; zero if none is.
    fn min_rtt(&self) -> Duration;

    /// Takes an acknowledgement. Returns whether rate samples are to be ignored for a round trip as
    /// if the application had nothing to send.
    fn on_ack(&mut self, window: &mut Window, ack: Delivered) -> bool;

    /// Takes a segment that was marked as lost; `delivered` bytes are since the connection began.
    fn on_lost(&mut self, window: &Window, now: Time, lost: LostSegment, delivered: u64);

    /// Loss recovery begins, maybe within another.
    fn on_recovery(&mut self, window: &Window, recovering: bool);

    /// The retransmission timer has expired, after `on_recovery` if that is a new loss.
    fn on_timeout(&mut self) {}

    /// Loss recovery has ended.
    fn on_recovered(&mut self, window: &mut Window);

    /// The losses for which recovery began were none.
    fn on_spurious_loss(&mut self, window: &mut Window, delivered: u64);

    /// The window, and not the application, held the sender up.
    fn on_window_full(&mut self) {}

    /// The sender has something to send again, after nothing was in flight.
    fn on_restart(&mut self, window: &mut Window, now: Time, delivered: u64);
}
