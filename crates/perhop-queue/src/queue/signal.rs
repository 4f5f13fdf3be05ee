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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::packet;

    /// ECN of the packet, whether marks are on, ECN of what is sent, and number of marks.
    #[test]
    fn signals_by_hand() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        for (before, ecn, after, marks) in [
            (NotEct, true, None, 0),
            (Ect0, true, Some(Ce), 1),
            (Ect1, true, Some(Ce), 1),
            (Ce, true, Some(Ce), 0),
            (Ect0, false, None, 0),
            (Ce, false, None, 0),
        ] {
            let mut packet = packet(100, 46);
            packet.header.traffic_class = packet.header.traffic_class.with_ecn(before);
            let mut ledger = Ledger { marks: 7, ..Ledger::new() };
            let sent = signal(ecn, packet, &mut ledger);
            assert_eq!(sent.map(|sent| sent.header.ecn()), after);
            assert!(sent.is_none_or(|sent| sent.header.dscp().get() == 46));
            let dropped: Vec<_> = ledger.drops.iter().map(|drop| drop.cause).collect();
            assert_eq!(dropped, if after.is_none() { vec![Cause::Early] } else { vec![] });
            assert_eq!(ledger.marks, 7 + marks, "{before:?} {ecn}");
        }
    }
}
