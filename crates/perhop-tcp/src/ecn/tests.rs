//! Handshakes compared with their tables, and echoes with their rules.

use perhop_core::Ecn;
use proptest::prelude::*;

use super::*;
use crate::Segment;

const MSS: u64 = 1000;

fn data(ecn: Ecn) -> Segment {
    Segment { payload: MSS as u16, ecn, ..Segment::default() }
}

/// Returns both ends after a handshake in which the SYN arrives with `ecn`.
fn agreed(asks: EcnMode, answers: EcnMode, ecn: Ecn) -> (Marks, Echo, Flags) {
    let (mut marks, mut echo) = (Marks::new(asks, Ecn::Ect0), Echo::new(answers));
    echo.on_syn(&Segment { flags: Flags::SYN.with(asks.syn()), ecn, ..Segment::default() });
    let answer = echo.flags(true);
    marks.on_syn_ack(answer);
    (marks, echo, answer)
}

/// RFC 9768, section 3.1.2, table 2, the second part of which is RFC 3168, section 6.1.1.
#[test]
fn the_handshake_agrees_on_what_both_understand() {
    use EcnMode::*;
    let cases = [
        (Accurate, Accurate, Ecn::NotEct, 0b010, Accurate),
        (Accurate, Accurate, Ecn::Ect1, 0b011, Accurate),
        (Accurate, Accurate, Ecn::Ect0, 0b100, Accurate),
        (Accurate, Accurate, Ecn::Ce, 0b110, Accurate),
        (Accurate, Classic, Ecn::NotEct, 0b001, Classic),
        (Accurate, Off, Ecn::NotEct, 0b000, Off),
        (Classic, Accurate, Ecn::NotEct, 0b001, Classic),
        (Classic, Classic, Ecn::NotEct, 0b001, Classic),
        (Dctcp, Dctcp, Ecn::NotEct, 0b001, Dctcp),
        (Classic, Off, Ecn::NotEct, 0b000, Off),
        (Off, Accurate, Ecn::NotEct, 0b000, Off),
    ];
    for (asks, answers, ecn, ace, expected) in cases {
        let (mut marks, mut echo, answer) = agreed(asks, answers, ecn);
        assert_eq!(answer.ace(), ace, "{asks:?} and {answers:?}");
        assert_eq!(marks.are_on(), expected != Off);
        // A mark is echoed in the negotiated way.
        echo.on_segment(&data(Ecn::Ce));
        let back = echo.flags(false);
        let expected_back = match expected {
            Off => 0,
            Classic | Dctcp => Flags::ECE.ace(),
            Accurate => 0b110,
        };
        assert_eq!(back.ace(), expected_back, "{asks:?} and {answers:?}");
        assert_eq!(marks.take(back, MSS, MSS), if expected == Off { 0 } else { MSS });
    }
}

/// RFC 3168, section 6.1.3.
#[test]
fn classic_echoes_until_the_window_was_reduced() {
    let (mut marks, mut echo, _) = agreed(EcnMode::Classic, EcnMode::Classic, Ecn::NotEct);
    let mut echoed = |segment: &Segment| {
        echo.on_segment(segment);
        echo.flags(false).has(Flags::ECE)
    };
    assert!(!echoed(&data(Ecn::Ect0)));
    assert!(echoed(&data(Ecn::Ce)));
    assert!(echoed(&data(Ecn::Ect0)));
    marks.on_reduced();
    let (flags, ecn) = marks.on_data(false, false);
    assert_eq!((flags, ecn), (Flags::CWR, Ecn::Ect0));
    assert_eq!(marks.on_data(false, false).0, Flags::default(), "said once");
    assert!(!echoed(&Segment { flags, ..data(Ecn::Ect0) }));
    assert!(echoed(&Segment { flags, ..data(Ecn::Ce) }), "marked again");
}

/// RFC 3168, section 6.1.5: a retransmission is not ECN-capable and does not carry CWR.
#[test]
fn classic_retransmissions_are_not_ecn_capable() {
    let (mut marks, _, _) = agreed(EcnMode::Classic, EcnMode::Classic, Ecn::NotEct);
    marks.on_reduced();
    assert_eq!(marks.on_data(false, true), (Flags::default(), Ecn::NotEct));
    assert_eq!(marks.on_data(false, false), (Flags::CWR, Ecn::Ect0));
}

/// RFC 8257, section 3.2.
#[test]
fn dctcp_acknowledges_at_once_when_marking_changes() {
    let (_, mut echo, _) = agreed(EcnMode::Dctcp, EcnMode::Dctcp, Ecn::NotEct);
    let marks = [Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::Ect0, Ecn::Ect0];
    let answers = marks.map(|ecn| (echo.on_segment(&data(ecn)), echo.flags(false)));
    let (none, ece) = (Flags::default(), Flags::ECE);
    assert_eq!(answers, [(false, none), (true, ece), (false, ece), (true, none), (false, none)]);
}

/// RFC 9768, section 3.2.2.5.1: at the first of a run of marks, and at every second.
#[test]
fn accurate_marks_are_acknowledged_before_the_counter_wraps() {
    let (_, mut echo, _) = agreed(EcnMode::Accurate, EcnMode::Accurate, Ecn::NotEct);
    assert!(!echo.on_segment(&data(Ecn::Ect1)));
    assert!(echo.on_segment(&data(Ecn::Ce)));
    let _ = echo.flags(false);
    assert!(!echo.on_segment(&data(Ecn::Ce)));
    assert!(echo.on_segment(&data(Ecn::Ce)));
}

/// RFC 9768, appendix A.2: with eleven packets newly acknowledged and a counter that has advanced
/// by two, there may have been at most ten marks; with five packets, two.
#[test]
fn the_counter_may_have_gone_round() {
    let marks = |packets: u64| {
        let (mut marks, _, _) = agreed(EcnMode::Accurate, EcnMode::Accurate, Ecn::NotEct);
        marks.take(Flags::from_ace(FIRST_COUNT + 2), packets * MSS, MSS) / MSS
    };
    assert_eq!([5, 7, 9, 10, 11].map(marks), [2, 2, 2, 10, 10]);
}

proptest! {
    /// Every mark is echoed once, however acknowledgements are delayed, if none is lost.
    #[test]
    fn every_accurate_mark_is_counted(
        arrivals in prop::collection::vec(any::<(bool, bool)>(), 0..300),
    ) {
        let (mut marks, mut echo, _) = agreed(EcnMode::Accurate, EcnMode::Accurate, Ecn::NotEct);
        let (mut waiting, mut counted) = (0, 0);
        let total = arrivals.iter().filter(|(marked, _)| *marked).count() as u64;
        for (marked, last) in arrivals.into_iter().chain([(false, true)]) {
            waiting += 1;
            let prompt = echo.on_segment(&data(if marked { Ecn::Ce } else { Ecn::Ect1 }));
            if prompt || waiting == 2 || last {
                counted += marks.take(echo.flags(false), waiting * MSS, MSS);
                waiting = 0;
            }
        }
        prop_assert_eq!((marks.echoed(), counted), (total, total * MSS));
    }
}
