//! Settings of a sender.

use perhop_core::Duration;

use crate::{Congestion, EcnMode, RtoRule};

/// Method to detect losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// Three duplicate acknowledgements, without selective ones (RFC 5681, 6582).
    Duplicates,
    /// Three SACKed segments above (RFC 6675).
    Sack,
    /// Time, with a reordering window and a tail loss probe (RFC 8985).
    Rack,
}

/// Settings of a sender.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Data of a full segment, in bytes.
    pub mss: u16,
    /// Send buffer, in bytes: the limit of outstanding data.
    pub window: u32,
    /// Initial congestion window in segments (RFC 6928).
    pub initial_window: u32,
    /// Rule of the retransmission timeout.
    pub rto_rule: RtoRule,
    /// Minimum of the retransmission timeout, or of Linux's addition to the round-trip time.
    pub min_rto: Duration,
    /// Congestion control, in its initial state.
    pub congestion: Congestion,
    /// True if a loss reduces the congestion window, in whole segments, as in Linux, instead of the
    /// part of it in flight (RFC 5681). As in Linux, the loss of a retransmission in fast recovery
    /// then does not reduce it again, and slow start grows by all that an acknowledgement covers.
    pub decrease_from_window: bool,
    /// Detection of losses; all methods but [`LossDetection::Duplicates`] need selective
    /// acknowledgements.
    pub loss_detection: LossDetection,
    /// True if the threshold of [`LossDetection::Sack`] adapts to reordering.
    pub adaptive_reordering: bool,
    /// True if the response to a spurious loss is undone, which timestamps (RFC 3522) or reported
    /// duplicates reveal.
    pub undo: bool,
    /// True if F-RTO (RFC 5682) detects spurious timeouts, too; needs `undo`.
    pub frto: bool,
    /// True if delivered data clocks transmissions in recovery (RFC 9937); needs selective
    /// acknowledgements.
    pub prr: bool,
    /// True if new data is sent on the first two duplicate acknowledgements (RFC 3042).
    pub limited_transmit: bool,
    /// True if segments carry timestamps (RFC 7323). Samples of the round-trip time come from the
    /// scoreboard, and from timestamps if the copy that arrived is uncertain.
    pub timestamps: bool,
    /// ECN mode that it requests.
    pub ecn: EcnMode,
    /// True if segments are paced; some congestion controls pace in any case.
    pub pacing: bool,
    /// Phase of the ticks of Linux's timers, which hosts do not share: the time since the last tick
    /// at time zero.
    pub tick_phase: Duration,
    /// Share of the window, as a divisor, that Linux waits for rather than send a part of two
    /// segments (tcp_tso_win_divisor); zero if it does not wait.
    pub tso_divisor: u32,
}
