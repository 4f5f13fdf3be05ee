//! The receiver's side: the echo of marks.

use perhop_core::Ecn;

use super::{EcnMode, FIRST_COUNT};
use crate::{Flags, Segment};

/// Marks since the last acknowledgement that cause one while data waits for it (RFC 9768, section
/// 3.2.2.5.1).
const PROMPT: u8 = 2;

/// State of the echo at a receiver.
#[derive(Clone, Debug)]
pub(crate) struct Echo {
    /// Configured mode; after the SYN, the negotiated mode.
    mode: EcnMode,
    /// Classic: marks are echoed until the sender signals its response. DCTCP: the last segment was
    /// marked (RFC 8257, section 3.2: DCTCP.CE).
    echoing: bool,
    /// AccECN's counter of marked packets, modulo 8: r.cep.
    count: u8,
    /// Marks since the last acknowledgement.
    unsaid: u8,
    /// True if the last packet was marked.
    last_marked: bool,
    /// ECN field with which the SYN arrived, as its answer encodes it.
    syn: Flags,
}

impl Echo {
    pub fn new(mode: EcnMode) -> Self {
        Self {
            mode,
            echoing: false,
            count: FIRST_COUNT,
            unsaid: 0,
            last_marked: false,
            syn: Flags::default(),
        }
    }

    /// Takes the SYN: sets the negotiated mode and the bits of the answer (RFC 3168, section 6.1.1;
    /// RFC 9768, section 3.1.2, table 2).
    pub fn on_syn(&mut self, segment: &Segment) {
        self.mode = self.mode.answering(segment.flags);
        self.syn = match self.mode {
            EcnMode::Off => Flags::default(),
            EcnMode::Classic | EcnMode::Dctcp => Flags::ECE,
            EcnMode::Accurate => Flags::from_ace(match segment.ecn {
                Ecn::NotEct => 0b010,
                Ecn::Ect1 => 0b011,
                Ecn::Ect0 => 0b100,
                Ecn::Ce => 0b110,
            }),
        };
    }

    /// Returns `true` if data before this segment must be acknowledged first, because the segment
    /// changes the echo: DCTCP (RFC 8257, section 3.2: the second of two).
    pub fn parts(&self, segment: &Segment) -> bool {
        let marked = segment.ecn == Ecn::Ce;
        self.mode == EcnMode::Dctcp && segment.payload > 0 && marked != self.echoing
    }

    /// Takes a segment after the SYN; returns `true` if it must be acknowledged at once.
    pub fn on_segment(&mut self, segment: &Segment) -> bool {
        let marked = segment.ecn == Ecn::Ce;
        match self.mode {
            EcnMode::Off => false,
            EcnMode::Classic => {
                // A segment with CWR may be marked itself.
                self.echoing = marked || self.echoing && !segment.flags.has(Flags::CWR);
                false
            }
            EcnMode::Dctcp if segment.payload > 0 => {
                let changed = marked != self.echoing;
                self.echoing = marked;
                changed
            }
            EcnMode::Dctcp => false,
            EcnMode::Accurate => {
                let begins = marked && !self.last_marked && segment.payload > 0;
                self.last_marked = marked;
                self.count = (self.count + u8::from(marked)) % 8;
                self.unsaid += u8::from(marked);
                begins || marked && self.unsaid >= PROMPT
            }
        }
    }

    /// Returns the bits of an acknowledgement, or of the answer to the SYN.
    pub fn flags(&mut self, syn: bool) -> Flags {
        self.unsaid = 0;
        match self.mode {
            EcnMode::Off => Flags::default(),
            _ if syn => self.syn,
            EcnMode::Accurate => Flags::from_ace(self.count),
            _ if self.echoing => Flags::ECE,
            _ => Flags::default(),
        }
    }
}
