"""Agreement of runs, and what a comparison says: by hand, on comparisons made of few values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perhop import analysis
from perhop.analysis.compared import (
    CodePointPath,
    ComparedPhase,
    ComparedQuantity,
    Difference,
    EcnPath,
    RunComparison,
)


def quantity(*values: float | None, packets: tuple[float | None, ...] = ()) -> ComparedQuantity:
    return ComparedQuantity("s", values, packets)


def phase(**more: Any) -> ComparedPhase:
    given = {"window": (0.0, 4.0), "throughput": {"total": quantity(None, None)}, "share": {}}
    return ComparedPhase(**{**given, **more})


def beside(**more: Any) -> RunComparison:
    given: dict[str, Any] = {key: {} for key in ("flows", "pings", "classes", "codepoints", "ecn")}
    given |= {"names": ("one", "two"), "differences": (), "covered_s": 4.0, "phases": ()}
    return RunComparison(**{**given, "tcp": frozenset(), **more})


def of_kind(kind: str, each: ComparedQuantity) -> RunComparison:
    """A comparison with one quantity of a kind."""
    rates = {"f": quantity(1, 1), "g": quantity(1, 1), "total": quantity(None, None)}
    match kind:
        case "share":
            both = {"f": each, "total": quantity(1, 1)}
            return beside(phases=(phase(throughput=rates, share={"g": quantity(), **both}),))
        case "goodput":
            return beside(phases=(phase(throughput={"total": each}),))
        case "queueing":
            return beside(phases=(phase(queueing={"f": each}),))
        case "rtt":
            return beside(pings={"f": {"rtt_median": each}})
        case "codepoint":
            return beside(codepoints={"f": {CodePointPath("b", 46, 0): each}})
        case "ecn":
            return beside(ecn={"f": {EcnPath("b", 2, 3): each}})
        case "loss":
            return beside(pings={"f": {"loss": each}})
        case "order":
            return beside(flows={"f": {"reordered": each}})
        case "call":
            return beside(flows={"f": {"mos": each}})
        case _:
            return beside(flows={"f": {"bitrate": each}})


@pytest.mark.parametrize(
    ("kind", "values", "ok"),
    [
        # Points of a share.
        ("share", (0.5, 0.55), True),
        ("share", (0.5, 0.4499), False),
        ("codepoint", (1, 0.99), True),
        ("codepoint", (1, 0.9899), False),
        ("ecn", (0.5, 0.51), True),
        ("ecn", (0.5, 0.5101), False),
        ("loss", (0, 0.01), True),
        ("loss", (0, 0.0101), False),
        ("order", (0.3, 0.29), True),
        ("order", (0.3, 0.2899), False),
        # Parts of the first.
        ("goodput", (100, 105), True),
        ("goodput", (100, 94.9), False),
        ("rtt", (100, 110), True),
        ("rtt", (100, 89.9), False),
        ("call", (4, 4.4), True),
        ("call", (4, 3.59), False),
        ("application", (1, 1.1), True),
        ("application", (1, 1.11), False),
        # A quarter, or 5 ms.
        ("queueing", (0.1, 0.125), True),
        ("queueing", (0.1, 0.0749), False),
        ("queueing", (0.001, 0.006), True),
        ("queueing", (0.001, 0.0061), False),
        # The extremes of several runs, relative to the first.
        ("rtt", (100, 95, 105), True),
        ("rtt", (100, 95, 105.1), False),
        ("rtt", (95, 105, 100), False),
        # From nothing, nothing else is near; and one value is compared with none.
        ("rtt", (0, 0), True),
        ("rtt", (0, 1), False),
        ("rtt", (None, 1), True),
        ("rtt", (None, 100, 111), False),
        ("loss", (None, 0.5), True),
    ],
)
def test_runs_agree_within_documented_tolerances(
    kind: str, values: tuple[float | None, ...], ok: bool
) -> None:
    found = {each.kind: each for each in analysis.agreement(of_kind(kind, quantity(*values)))}
    assert found[kind].ok is ok
    # Twice the tolerance is asked for.
    asked = {kind: 2 * analysis.TOLERANCES[kind]}
    twice = analysis.agreement(of_kind(kind, quantity(*values)), asked)[-1].tolerance
    if kind == "queueing":
        assert twice == max(0.5 * (values[0] or 0), 0.005)
    else:
        assert twice == 2 * found[kind].tolerance


def test_few_packets_differ_by_chance() -> None:
    def tolerance(kind: str, *values: float | None, packets: tuple[float | None, ...]) -> float:
        each = quantity(*values, packets=packets)
        (found,) = analysis.agreement(of_kind(kind, each))
        return found.tolerance

    # Three standard errors: of 60 and 60 packets, 1 of all 120 was lost.
    error = (1 / 120 * (119 / 120) * (1 / 60 + 1 / 60)) ** 0.5
    for kind in ("loss", "ecn", "order"):
        assert tolerance(kind, 0, 1 / 60, packets=(60, 60)) == pytest.approx(3 * error)
    # Of three runs the extremes: 0 of 100, and 8 of 400.
    error = (8 / 500 * (492 / 500) * (1 / 100 + 1 / 400)) ** 0.5
    packets = (100.0, 1000.0, 400.0)
    assert tolerance("loss", 0, 0.01, 0.02, packets=packets) == pytest.approx(3 * error)
    # Of very many packets the tolerance counts, and where the number is not known.
    assert tolerance("loss", 0, 0.01, packets=(1e9, 1e9)) == 0.01
    assert tolerance("loss", 0, 0.5, packets=(None, 4)) == 0.01
    assert tolerance("loss", None, 0.5, packets=(4, 4)) == 0.01
    # One packet of those with a code point, where each run has some and others.
    assert tolerance("codepoint", 0.1, 0.14, packets=(50, 40)) == 1 / 40
    assert tolerance("codepoint", 0.1, None, packets=(50, None)) == 1 / 50
    assert tolerance("codepoint", 0.1, 0.2, packets=(5000, 5000)) == 0.01
    for one, other in ((0, 0.5), (0.5, 1)):
        assert tolerance("codepoint", one, other, packets=(2, 2)) == 0.01


def test_losses_and_marks_of_tcp_may_be_twice_as_many() -> None:
    tcp = frozenset({"f"})

    def tolerance(found: RunComparison) -> float:
        (each,) = analysis.agreement(found)
        return each.tolerance

    lost = {"f": {"loss": quantity(0.03, 0.06)}}
    assert tolerance(beside(flows=lost, tcp=tcp)) == 0.03
    assert tolerance(beside(flows=lost)) == 0.01
    assert tolerance(beside(flows={"f": {"loss": quantity(0.004, 0.01)}}, tcp=tcp)) == 0.01
    # Of packets without a mark it is the others that count.
    ecn = {"f": {EcnPath("b", -1, 2): quantity(0.96, 0.92)}}
    assert tolerance(beside(ecn=ecn, tcp=tcp)) == pytest.approx(0.04)
    late = {"f": {"reordered": quantity(0.03, 0.06)}}
    assert tolerance(beside(flows=late, tcp=tcp)) == 0.01


def test_quantities_that_are_compared() -> None:
    same = quantity(1.0, 1.0)
    sent = ("f", "g", "total")
    found = beside(
        phases=(
            phase(throughput=dict.fromkeys(sent, same), share=dict.fromkeys(sent, same)),
            phase(
                window=(4.0, 5.5),
                throughput={"f": same, "g": quantity(0.0, None), "total": quantity(0.0, None)},
                share=dict.fromkeys(sent, same),
                queueing={"f": same},
            ),
            # No flow sends.
            phase(throughput=dict.fromkeys(sent, same), share={}, sending=False),
            # A flow alone has the whole.
            phase(throughput={"f": same, "total": same}, share={"f": same, "total": same}),
        ),
        flows={
            "f": dict.fromkeys(
                ("srtt_median", "rtt_median", "loss", "reordered", "mos", "mouth_to_ear"), same
            ),
            "g": dict.fromkeys(
                ("completion_median", "page_load_median", "startup", "bitrate", "throughput"), same
            ),
        },
        pings={"p": dict.fromkeys(("rtt_median", "srtt_median", "loss"), same)},
        codepoints={"f": {CodePointPath("b", 46, 0): same}},
        ecn={"f": {EcnPath("b", -1, 3): same}},
    )
    dash = "\N{EN DASH}"
    assert [(each.kind, each.name) for each in analysis.agreement(found)] == [
        ("share", f"f, 0{dash}4 s"),
        ("share", f"g, 0{dash}4 s"),
        ("goodput", f"total, 0{dash}4 s"),
        ("share", f"f, 4{dash}5.5 s"),
        ("queueing", f"f, 4{dash}5.5 s"),
        ("goodput", f"total, 0{dash}4 s"),
        ("rtt", "f"),
        ("rtt", "p"),
        ("codepoint", "f, ef as be at b"),
        ("ecn", "f, CE at b"),
        ("loss", "f"),
        ("order", "f"),
        ("loss", "p"),
        ("call", "f, MOS"),
        ("call", "f, mouth to ear"),
        ("application", "g, median completion"),
        ("application", "g, median page load"),
        ("application", "g, start-up"),
        ("application", "g, bit rate"),
    ]


# Comparisons


def test_a_comparison_as_json() -> None:
    found = beside(
        differences=(Difference("links.1.rate", ("8 Mbps", None)),),
        phases=(
            phase(
                throughput={"f": quantity(100, 50)},
                share={"f": quantity(0.5, None)},
                queueing={"f": quantity(0, 1)},
            ),
        ),
        flows={"f": {"loss": quantity(0.1, 0.2)}},
        pings={"p": {"rtt_median": quantity(2, 1)}},
        classes={"r>b": {"gold": {"share": quantity(0.5, 0.75)}}},
        codepoints={"f": {CodePointPath("b", 46, 0): quantity(1, 0)}},
        ecn={"f": {EcnPath("b", -1, 3): quantity(1, 0), EcnPath("b", 0, 1): quantity(0, 1)}},
    )

    def written(values: list[Any], ratios: list[Any]) -> dict[str, Any]:
        return {"values": values, "ratios": ratios}

    assert json.loads(json.dumps(analysis.compared(found))) == {
        "runs": ["one", "two"],
        "covered_s": 4,
        "differences": [{"path": "links.1.rate", "values": ["8 Mbps", None]}],
        "phases": [
            {
                "start_s": 0,
                "end_s": 4,
                "throughput_bps": {"f": written([100, 50], [1, 0.5])},
                "share": {"f": written([0.5, None], [1, None])},
                "queueing_s": {"f": written([0, 1], [None, None])},
            }
        ],
        "flows": {"f": {"loss": written([0.1, 0.2], [1, 2])}},
        "pings": {"p": {"rtt_median": written([2, 1], [1, 0.5])}},
        "classes": {"r>b": {"gold": {"share": written([0.5, 0.75], [1, 1.5])}}},
        "codepoints": {"f": [{"node": "b", "sent": 46, "arrived": 0, "values": [1, 0]}]},
        "ecn": {
            "f": [
                {"node": "b", "sent": None, "arrived": 3, "values": [1, 0]},
                {"node": "b", "sent": 0, "arrived": 1, "values": [0, 1]},
            ]
        },
    }
    assert repr(found) == "<RunComparison of one, two: 1 flow, 1 ping, 1 difference>"
    assert repr(beside()) == "<RunComparison of one, two: 0 flows, 0 pings, 0 differences>"
    names = [str(path) for path in found.ecn["f"]] + [str(EcnPath("b", 2, 2))]
    assert names == ["CE at b", "Not-ECT as ECT(1) at b", "ECT(0) as ECT(0) at b"]


def test_notebooks_show_what_differs_and_what_is_known() -> None:
    found = beside(
        differences=(Difference("streams", (1, None)),),
        flows={"f": {"loss": quantity(0.123456, None), "rtt_p99": quantity(None, None)}},
        pings={"p": {"rtt_median": quantity(2, 1)}},
    )
    shown = found._repr_html_()
    for cell in ("streams", "f loss (s)", "0.1235", "p rtt_median (s)", "\N{EN DASH}", "one"):
        assert f">{cell}</t" in shown, cell
    assert "RunComparison of one, two: 1 flow, 1 ping, 1 difference</b>" in shown
    assert "rtt_p99" not in shown
