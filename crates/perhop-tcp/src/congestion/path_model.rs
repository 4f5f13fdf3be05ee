//! Interface of congestion controls that follow a model of the path.

use perhop_core::{Duration, Time};

use super::Window;
use crate::delivery::{LostSegment, RateSample};

/// Information about an acknowledgement that delivers data.
#[derive(Clone, Copy, Debug)]
pub struct Delivered {
    /// Its time.
    pub now: Time,
    /// Sample of the delivery rate.
    pub sample: RateSample,
    /// Bytes that this acknowledgement is the first to cover.
    pub newly: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// True if the sender is in loss recovery.
    pub recovering: bool,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
}

/// A model of the path: it takes every delivery and every loss, paces, and sets the window in
/// recovery, too.
pub trait PathModel {
    /// Takes the sizes of the connection before it begins.
    fn begin(&mut self, window: &Window, mss: f64);

    /// Sets the size of a full segment, in bytes: that of the path has changed.
    fn resize(&mut self, mss: f64);

    /// Returns the pacing rate, in bytes per second; `None` before the first acknowledgement.
    fn pacing_rate(&self) -> Option<f64>;

    /// Returns the minimum round-trip time; zero while unknown.
    fn min_rtt(&self) -> Duration;

    /// Takes an acknowledgement. Returns `true` if rate samples of the next round trip are to be
    /// treated as limited by the application.
    fn on_ack(&mut self, window: &mut Window, ack: Delivered) -> bool;

    /// Takes a segment that was marked as lost; `delivered` is the number of bytes since the
    /// connection began.
    fn on_lost(&mut self, window: &Window, now: Time, lost: LostSegment, delivered: u64);

    /// Begins loss recovery; `recovering` is true if another one had begun.
    fn on_recovery(&mut self, window: &Window, recovering: bool);

    /// Responds to an expiry of the retransmission timer, after `on_recovery` if that is a new
    /// loss.
    fn on_timeout(&mut self) {}

    /// Ends loss recovery.
    fn on_recovered(&mut self, window: &mut Window);

    /// Responds to the discovery that the losses of this recovery were spurious.
    fn on_spurious_loss(&mut self, window: &mut Window, delivered: u64);

    /// Records that the window, and not the application, limits the sender.
    fn on_window_full(&mut self) {}

    /// Restarts: the sender has data again, with nothing in flight.
    fn on_restart(&mut self, window: &mut Window, now: Time, delivered: u64);
}
