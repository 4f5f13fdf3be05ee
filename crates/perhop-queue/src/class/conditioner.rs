//! Marker and policer of a class.

use perhop_core::{Dscp, Packet, Time};

use crate::{Action, Actions, Cause, ClassCounters, Policer};

/// Traffic conditioner of a class: a marker, then a policer (RFC 2475, section 2.3.3).
#[derive(Debug, Default)]
pub(super) struct Conditioner {
    /// DSCP that every packet gets.
    pub mark: Option<Dscp>,
    /// Policer, which measures packets with their new DSCP.
    pub policer: Option<(Policer, Actions)>,
}

/// Effect on a packet that is not dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conditioned {
    /// The packet has the DSCP that it had.
    Unchanged,
    /// The packet has the mark, and had the DSCP `unmarked`.
    Marked { unmarked: Dscp },
    /// The policer remarked the packet.
    Remarked,
}

impl Conditioner {
    /// Marks a packet, and passes it through the policer, which may remark or drop it.
    pub fn apply<B>(
        &mut self,
        now: Time,
        packet: &mut Packet<B>,
        counters: &mut ClassCounters,
    ) -> Result<Conditioned, Cause> {
        let mut effect = Conditioned::Unchanged;
        if let Some(mark) = self.mark {
            effect = Conditioned::Marked { unmarked: packet.header.dscp() };
            set_dscp(packet, mark);
        }
        let Some((policer, actions)) = &mut self.policer else { return Ok(effect) };
        let verdict = policer.police(now, packet.size(), packet.header.dscp());
        counters.count_policed(verdict, packet.size());
        match actions.of(verdict) {
            Action::Send => Ok(effect),
            Action::Drop => Err(Cause::Policer),
            Action::Remark(dscp) => {
                counters.remarked += 1;
                set_dscp(packet, dscp);
                Ok(Conditioned::Remarked)
            }
        }
    }
}

fn set_dscp<B>(packet: &mut Packet<B>, dscp: Dscp) {
    let header = &mut packet.header;
    header.traffic_class = header.traffic_class.with_dscp(dscp);
}
