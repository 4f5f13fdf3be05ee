//! The receiver's side: echoing marks.

use perhop_core::Ecn;

use super::{EcnMode, FIRST_COUNT};
use crate::{Flags, Segment};

/// So many marks since the last acknowledgement cause one while data waits for it (RFC 9768,
/// section 3.2.2.5.1).
const PROMPT: u8 = 2;

/// What a receiver remembers of marks.
#[derive(Clone, Debug)]
pub(crate) struct Echo {
    /// What it is set to; once a SYN has come, what was agreed.
    mode: EcnMode,
    /// Classic: marks are echoed until the sender says that it has answered. DCTCP: the last
    /// segment was marked (RFC 8257, section 3.2: DCTCP.CE).
    echoing: bool,
    /// AccECN's counter of marked packets, modulo 8: r.cep.
    count: u8,
    /// Marks since the last acknowledgement.
    unsaid: u8,
    /// True if the last packet was marked.
    last_marked: bool,
    /// How the SYN arrived, as its answer says.
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

    /// Takes the SYN: what is agreed, and what its answer says (RFC 3168, section 6.1.1; RFC 9768,
    /// section 3.1.2, table 2).
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

    /// Returns `true` if a segment changes what the acknowledgement of those before it has to say:
    /// DCTCP's is due first then (RFC 8257, section 3.2: the second of two).
    pub fn parts(&self, segment: &Segment) -> bool {
        let marked = segment.ecn == Ecn::Ce;
        self.mode == EcnMode::Dctcp && segment.payload > 0 && marked != self.echoing
    }

    /// Takes a segment after the SYN; returns whether it is to be acknowledged at once.
    pub fn on_segment(&mut self, segment: &Segment) -> bool {
        let marked = segment.ecn == Ecn::Ce;
        match self.mode {
            EcnMode::Off => false,
            EcnMode::Classic => {
                // A segment that says that the window was reduced may be marked itself.
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
