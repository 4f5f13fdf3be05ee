//! The sender's side: evaluation of the echo.

use perhop_core::Ecn;

use super::{EcnMode, FIRST_COUNT};
use crate::Flags;

/// State of ECN at a sender.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    /// Requested mode; after the SYN's answer, the negotiated mode.
    mode: EcnMode,
    /// ECN field of data packets with ECN.
    ect: Ecn,
    /// Classic: true if the next new segment carries CWR.
    cwr: bool,
    /// Last known value of AccECN's counter, modulo 8: s.cep.
    count: u8,
    /// Data packets that were reported as marked: with AccECN the marked ones, otherwise all that
    /// an acknowledgement with an echo was the first to cover (Linux's `tcpi_delivered_ce`).
    echoed: u64,
}

impl Marks {
    /// Creates the state of a sender that requests `mode`, with the ECN field `ect` on its data.
    pub fn new(mode: EcnMode, ect: Ecn) -> Self {
        Self { mode, ect, cwr: false, count: FIRST_COUNT, echoed: 0 }
    }

    /// Returns the number of data packets that were reported as marked since the connection began:
    /// with AccECN the marked ones, otherwise all that an acknowledgement with an echo was the
    /// first to cover.
    pub fn echoed(&self) -> u64 {
        self.echoed
    }

    /// Returns `true` if acknowledgements echo marks.
    pub fn are_on(&self) -> bool {
        self.mode != EcnMode::Off
    }

    /// Takes the bits of the SYN's answer (RFC 3168, section 6.1.1; RFC 9768, section 3.1.2).
    pub fn on_syn_ack(&mut self, flags: Flags) {
        self.mode = match (self.mode, flags.ace()) {
            (EcnMode::Accurate, 0b010 | 0b011 | 0b100 | 0b110) => EcnMode::Accurate,
            (EcnMode::Accurate, 0b001 | 0b101) => EcnMode::Classic,
            (mode @ (EcnMode::Classic | EcnMode::Dctcp), 0b001) => mode,
            _ => EcnMode::Off,
        };
        if self.mode == EcnMode::Classic {
            self.ect = Ecn::Ect0; // ECT(1) is for L4S (RFC 9331, section 4.2)
        }
    }

    /// Returns how many of the `delivered` bytes that an acknowledgement is the first to cover were
    /// marked. Classic ECN has no number; an echo counts for all of them.
    pub fn take(&mut self, flags: Flags, delivered: u64, mss: u64) -> u64 {
        match self.mode {
            EcnMode::Off => 0,
            EcnMode::Classic | EcnMode::Dctcp => {
                let marked = flags.has(Flags::ECE);
                self.echoed += if marked { delivered.div_ceil(mss) } else { 0 };
                if marked { delivered.max(1) } else { 0 }
            }
            EcnMode::Accurate => {
                // An acknowledgement that covers nothing new may be older than one that was read.
                if delivered == 0 {
                    return 0;
                }
                let more = u64::from(flags.ace().wrapping_sub(self.count) % 8);
                let packets = delivered.div_ceil(mss);
                // With more packets than the counter has values it may have wrapped: the safest
                // likely case (RFC 9768, section 3.2.2.5.2 and appendix A.2).
                let marked = if packets > 7 { packets - (packets + 8 - more) % 8 } else { more };
                self.count = flags.ace();
                self.echoed += marked;
                (marked * mss).min(delivered)
            }
        }
    }

    /// Records a reduction of the congestion window.
    pub fn on_reduced(&mut self) {
        self.cwr = self.mode == EcnMode::Classic || self.mode == EcnMode::Dctcp;
    }

    /// Returns the control bits and the ECN field of a segment with data. Classic ECN does not
    /// apply to retransmissions (RFC 3168, section 6.1.5); if marks are counted, retransmissions
    /// may be marked, too (RFC 8311, section 4.3).
    pub fn on_data(&mut self, first: bool, again: bool) -> (Flags, Ecn) {
        match self.mode {
            EcnMode::Off => (Flags::default(), Ecn::NotEct),
            EcnMode::Accurate => {
                // The receiver counts no marks, since acknowledgements are not ECN-capable. The
                // first segment reports the ECN field of the SYN's answer (RFC 9768, table 3).
                (Flags::from_ace(if first { 0b010 } else { FIRST_COUNT }), self.ect)
            }
            _ if again => (Flags::default(), Ecn::NotEct),
            _ => {
                let cwr = std::mem::take(&mut self.cwr);
                (if cwr { Flags::CWR } else { Flags::default() }, self.ect)
            }
        }
    }
}
