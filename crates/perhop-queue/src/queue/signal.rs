//! Signals of congestion: marks and drops.

use perhop_core::{Ecn, Packet};

use crate::{Cause, Ledger};

/// Signals congestion by a packet: marks and returns it if `ecn` is set and its transport is
/// ECN-capable; drops it otherwise (RFC 3168, section 5).
pub(super) fn signal<B>(
    ecn: bool,
    mut packet: Packet<B>,
    ledger: &mut Ledger<B>,
) -> Option<Packet<B>> {
    if ecn && packet.header.ecn().is_capable() {
        mark(&mut packet, ledger);
        Some(packet)
    } else {
        ledger.drop(packet, Cause::Early);
        None
    }
}

/// Marks a packet with CE (congestion experienced). One that was marked before stays as it is and
/// does not count again.
pub(super) fn mark<B>(packet: &mut Packet<B>, ledger: &mut Ledger<B>) {
    let header = &mut packet.header;
    if header.ecn() != Ecn::Ce {
        header.traffic_class = header.traffic_class.with_ecn(Ecn::Ce);
        ledger.marks += 1;
    }
}
