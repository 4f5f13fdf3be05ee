//! Settings with which a sender behaves as Linux.

use perhop_core::Duration;
use perhop_tcp::{
    Congestion, CubicConfig, EcnMode, HyStartKind, LossDetection, RtoRule, SenderConfig,
};

/// What connections differ in.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    pub mss: u16,
    /// Linux's CUBIC; Reno otherwise.
    pub cubic: bool,
    pub sack: bool,
    pub timestamps: bool,
    pub ecn: bool,
    /// tcp_tso_win_divisor.
    pub divisor: u32,
    /// Time since the last tick at time zero.
    pub tick_phase: Duration,
}

impl Connection {
    /// Returns the settings of its sender.
    pub fn sender(&self) -> SenderConfig {
        SenderConfig {
            mss: self.mss,
            window: u32::MAX,
            initial_window: 10,
            rto_rule: RtoRule::Linux,
            min_rto: Duration::from_millis(200),
            congestion: match self.cubic {
                false => Congestion::Reno,
                true => Congestion::cubic(CubicConfig {
                    hystart: HyStartKind::Linux,
                    reno_friendly: true,
                    linux: true,
                }),
            },
            decrease_from_window: true,
            loss_detection: match self.sack {
                true => LossDetection::Rack,
                false => LossDetection::Duplicates,
            },
            adaptive_reordering: false,
            undo: true,
            frto: true,
            prr: self.sack,
            limited_transmit: true,
            timestamps: self.timestamps,
            ecn: if self.ecn { EcnMode::Classic } else { EcnMode::Off },
            pacing: false,
            tick_phase: self.tick_phase,
            tso_divisor: self.divisor,
        }
    }
}
