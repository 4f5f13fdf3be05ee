//! Marker and policer of a class.

use perhop_core::{Dscp, Header, LinkClass, Packet, Time};

use crate::{Action, Actions, Cause, ClassCounters, Policer};

/// New marks of packets; a packet keeps its own where this has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// DSCP.
    pub dscp: Option<Dscp>,
    /// Class at layer 2 on the next link.
    pub link: Option<LinkClass>,
}

impl From<Dscp> for Mark {
    fn from(dscp: Dscp) -> Self {
        Self { dscp: Some(dscp), link: None }
    }
}

/// Marks by which the classes inside a class that marks classify a packet: those that the packet
/// had, or the DSCP of a policer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unmarked {
    dscp: Dscp,
    link: LinkClass,
}

impl Unmarked {
    const fn of(header: &Header) -> Self {
        Self { dscp: header.dscp(), link: header.link_class() }
    }

    /// Returns the same marks with another DSCP.
    pub const fn with_dscp(self, dscp: Dscp) -> Self {
        Self { dscp, ..self }
    }

    /// Returns a header with these marks.
    pub fn restored(self, mut header: Header) -> Header {
        header.traffic_class = header.traffic_class.with_dscp(self.dscp);
        header.set_link_class(self.link);
        header
    }
}

/// Traffic conditioner of a class: a marker, then a policer (RFC 2475, section 2.3.3).
#[derive(Debug, Default)]
pub(super) struct Conditioner {
    /// Marks that every packet gets.
    pub mark: Option<Mark>,
    /// Policer, which measures packets with their new DSCP.
    pub policer: Option<(Policer, Actions)>,
}

impl Conditioner {
    /// Marks a packet, and passes it through the policer, which may remark or drop it. `unmarked`
    /// has the marks before those of outer classes, if any have marked the packet. Returns the
    /// marks by which classes inside classify, unless they are those of the packet.
    pub fn apply<B>(
        &mut self,
        now: Time,
        packet: &mut Packet<B>,
        mut unmarked: Option<Unmarked>,
        counters: &mut ClassCounters,
    ) -> Result<Option<Unmarked>, Cause> {
        if let Some(mark) = self.mark {
            unmarked = unmarked.or(Some(Unmarked::of(&packet.header)));
            if let Some(dscp) = mark.dscp {
                set_dscp(packet, dscp);
            }
            if let Some(class) = mark.link {
                packet.header.set_link_class(class);
            }
        }
        let Some((policer, actions)) = &mut self.policer else { return Ok(unmarked) };
        let verdict = policer.police(now, packet.size(), packet.header.dscp());
        counters.count_policed(verdict, packet.size());
        match actions.of(verdict) {
            Action::Send => Ok(unmarked),
            Action::Drop => Err(Cause::Policer),
            Action::Remark(dscp) => {
                counters.remarked += 1;
                set_dscp(packet, dscp);
                Ok(unmarked.map(|unmarked| unmarked.with_dscp(dscp)))
            }
        }
    }
}

fn set_dscp<B>(packet: &mut Packet<B>, dscp: Dscp) {
    let header = &mut packet.header;
    header.traffic_class = header.traffic_class.with_dscp(dscp);
}
