//! What a sender is set to.

use perhop_core::Duration;

use crate::{Congestion, EcnMode, RtoRule};

/// How a sender finds out what was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// By three duplicate acknowledgements, without selective ones (RFC 5681, 6582).
    Duplicates,
    /// By three SACKed segments above (RFC 6675).
    Sack,
    /// By time, with a reordering window and a tail loss probe (RFC 8985).
    Rack,
}

/// How a sender behaves.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Data bytes of a full segment.
    pub mss: u16,
    /// Send buffer in bytes: no more than this is outstanding.
    pub window: u32,
    /// Initial congestion window in segments (RFC 6928).
    pub initial_window: u32,
    /// How the retransmission timeout follows from round-trip times.
    pub rto_rule: RtoRule,
    /// Floor of the retransmission timeout, or of what Linux adds to the round-trip time.
    pub min_rto: Duration,
    /// The congestion control, at its beginning.
    pub congestion: Congestion,
    /// True if a loss decreases the congestion window, in whole segments, as in Linux, and not what
    /// is in flight of it (RFC 5681). In Linux a retransmission that is lost in fast recovery does
    /// not decrease it again, and slow start grows by all that an acknowledgement covers.
    pub decrease_from_window: bool,
    /// How losses are found; all but [`LossDetection::Duplicates`] need selective
    /// acknowledgements.
    pub loss_detection: LossDetection,
    /// True if the threshold of [`LossDetection::Sack`] follows the reordering that is seen.
    pub adaptive_reordering: bool,
    /// True if the answer to a loss that was none is taken back: timestamps (RFC 3522) or reported
    /// duplicates tell.
    pub undo: bool,
    /// True if spurious timeouts are found by F-RTO (RFC 5682), too; needs `undo`.
    pub frto: bool,
    /// True if recovery is clocked by what is delivered (RFC 9937); needs selective
    /// acknowledgements.
    pub prr: bool,
    /// True if new data is sent on the first two duplicate acknowledgements (RFC 3042).
    pub limited_transmit: bool,
    /// True if segments carry timestamps (RFC 7323). Samples of the round-trip time come from the
    /// scoreboard, and from timestamps where it does not know which copy has arrived.
    pub timestamps: bool,
    /// Which congestion notification it asks for.
    pub ecn: EcnMode,
    /// True if segments are spread over the round trip; some congestion controls are not without.
    pub pacing: bool,
}
