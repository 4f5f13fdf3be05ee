"""Service curves of altq.conf, pf.conf and OpenBSD."""

from __future__ import annotations

from typing import Any

import pytest

from altq import PF_CONF, config, notes, policy


def test_service_curves_of_pf() -> None:
    found = policy(PF_CONF, "em1").policy
    dev, dflt = found["classes"].values()
    assert found["scheduler"] == "hfsc"
    assert dev["upperlimit"] == {"rate": "40 Mbps"}
    assert dev["queue"]["limit"] == "100 packets"
    assert dflt["realtime"] == {"rate": "4.5 Mbps"}
    assert dev["bandwidth"] == "50%"
    assert dflt["linkshare"] == {"m1": "22 Mbps", "d": "100 ms", "m2": "20 Mbps"}
    assert not any(line.note for line in config(PF_CONF).lines if " hfsc(" in line.text)


def hfsc(*queues: str) -> dict[str, Any]:
    """The policy of an interface of 10 Mb/s with queues a and b, of pf.conf."""
    text = "altq on em0 hfsc bandwidth 10Mb queue { a, b }\n" + "\n".join(queues)
    return policy(text + "\npass out on em0 proto udp queue a\n", "em0").policy


def test_curves_that_say_no_more_than_shares_are_shares() -> None:
    for curves in (
        "realtime 3Mb",
        "realtime 30%",
        "linkshare 30% realtime (30% 10 3Mb)",
        "linkshare (0 0 3Mb)",
    ):
        found = hfsc(
            f"queue a bandwidth 30% hfsc({curves} upperlimit 50%)",
            "queue b bandwidth 50% hfsc(default)",
        )
        assert "scheduler" not in found
        assert found["classes"]["a"]["limit"] == "5 Mbps"
    above = hfsc(
        "queue a bandwidth 30% hfsc(upperlimit 11Mb)", "queue b bandwidth 50% hfsc(default)"
    )
    assert "limit" not in above["classes"]["a"]


@pytest.mark.parametrize(
    ("curves", "expected"),
    [
        ("realtime 1Mb", {"bandwidth": "30%", "realtime": {"rate": "1 Mbps"}}),
        (
            "realtime (2Mb 10 1Mb)",
            {"bandwidth": "30%", "realtime": {"m1": "2 Mbps", "d": "10 ms", "m2": "1 Mbps"}},
        ),
        (
            "realtime (0b, 10, 10%)",
            {"bandwidth": "30%", "realtime": {"d": "10 ms", "m2": "1 Mbps"}},
        ),
        ("linkshare (30% 5 20%)", {"linkshare": {"m1": "3 Mbps", "d": "5 ms", "m2": "2 Mbps"}}),
        (
            "linkshare 20% upperlimit (9Mb 5 50%)",
            {"bandwidth": "20%", "upperlimit": {"m1": "9 Mbps", "d": "5 ms", "m2": "5 Mbps"}},
        ),
    ],
)
def test_curves_that_say_more_are_curves(curves: str, expected: dict[str, Any]) -> None:
    """Percentages are of the parent's bandwidth; so is link sharing unless it has a curve."""
    found = hfsc(f"queue a bandwidth 30% hfsc({curves})", "queue b bandwidth 70% hfsc(default)")
    assert found["scheduler"] == "hfsc"
    of_a = found["classes"]["a"]
    assert {key: of_a[key] for key in of_a if key not in ("match", "queue")} == expected


def test_shares_of_queues_are_of_the_bandwidth_of_their_parent() -> None:
    found = hfsc(
        "queue a bandwidth 40% hfsc(linkshare 20%) { x, y }",
        "queue x bandwidth 25% hfsc(realtime 10%)",
        "queue y bandwidth 10%",
        "queue b bandwidth 60% hfsc(default)",
        "pass out on em0 proto tcp queue x",
        "pass out on em0 proto icmp queue y",
    )
    inside = found["classes"]["a"]
    assert inside["bandwidth"] == "20%"
    # A quarter and a tenth of 4 Mb/s, which are in 2 Mb/s.
    assert [each["bandwidth"] for each in inside["classes"].values()][:2] == ["1 Mbps", "400 kbps"]
    assert inside["classes"]["x"]["realtime"] == {"rate": "400 kbps"}
    # The rate of the interface may be unknown.
    text = (
        "altq on em0 hfsc queue { a, b }\n"
        "queue a bandwidth 40% hfsc(realtime (20% 5 10%) upperlimit 50%)\n"
        "queue b bandwidth 60% hfsc(default)\npass out on em0 proto tcp queue a\n"
    )
    of_a = policy(text, "em0").policy["classes"]["a"]
    assert of_a["realtime"] == {"m1": "20%", "d": "5 ms", "m2": "10%"}
    assert (of_a["bandwidth"], of_a["upperlimit"]) == ("40%", {"rate": "50%"})
    shared = policy(text.replace("realtime (20% 5 10%)", ""), "em0").policy["classes"]["a"]
    assert shared["limit"] == "50%"
    # A guarantee in real time of a class with classes has no effect.
    outer = hfsc(
        "queue a bandwidth 40% hfsc(realtime 10%) { x }",
        "queue x bandwidth 25%",
        "queue b bandwidth 60% hfsc(default)",
        "pass out on em0 proto tcp queue x",
    )
    assert "scheduler" not in outer


def test_service_curves_of_altq_conf() -> None:
    head = "interface em0 bandwidth 10M hfsc\n"
    rest = "\nclass hfsc em0 b root default pshare 40\nfilter em0 a 0 0 0 0 17"
    curve = {"m1": "2 Mbps", "d": "10 ms", "m2": "1 Mbps"}
    for settings_, expected in (
        # Shorthands of altq.conf(5): pshare is link sharing, grate real time, bandwidth both.
        ("pshare 30 grate 3M", {"bandwidth": "30%"}),
        ("bandwidth 3M", {"bandwidth": "30%"}),
        ("[sc 0 0 3M] [ul 9M 0 5M]", {"bandwidth": "30%", "limit": "5 Mbps"}),
        ("pshare 30 grate 1M", {"bandwidth": "30%", "realtime": {"rate": "1 Mbps"}}),
        (
            "[ sc 6M 20 3M ] ulimit 5M",
            {
                "realtime": {"m1": "6 Mbps", "d": "20 ms", "m2": "3 Mbps"},
                "linkshare": {"m1": "6 Mbps", "d": "20 ms", "m2": "3 Mbps"},
                "upperlimit": {"rate": "5 Mbps"},
            },
        ),
        (
            "[rt 0 7 1M] [ls 0 0 3M]",
            {"bandwidth": "30%", "realtime": {"d": "7 ms", "m2": "1 Mbps"}},
        ),
        # Without link sharing, a class never borrows.
        ("grate 1M", {"bandwidth": "10%", "limit": "1 Mbps"}),
        (
            "[rt 2M 10 1M]",
            {"bandwidth": "10%", "realtime": curve, "upperlimit": curve},
        ),
    ):
        text = f"{head}class hfsc em0 a root {settings_}{rest}"
        found = policy(text, "em0").policy
        of_a = found["classes"]["a"]
        assert {key: of_a[key] for key in of_a if key not in ("match", "queue")} == expected
        assert ("scheduler" in found) == any(
            key in expected for key in ("realtime", "linkshare", "upperlimit")
        )
        assert notes(text) == {}, settings_
    assert notes(f"{head}class hfsc em0 a root pshare 30 [rt 2M 10 0]{rest}").keys() == {2}


def test_bursts_of_openbsd_are_first_slopes_of_the_curve_before_them() -> None:
    text = (
        "queue top on em0 bandwidth 100M max 100M\n"
        "queue a parent top bandwidth 20M burst 90M for 100ms min 5M burst 10M for 50ms "
        "max 40M burst 60M for 10ms\n"
        "queue b parent top bandwidth 80M default\nmatch out on em0 proto udp set queue a\n"
    )
    of_a = policy(text, "em0").policy["classes"]["a"]
    assert of_a["linkshare"] == {"m1": "90 Mbps", "d": "100 ms", "m2": "20 Mbps"}
    assert of_a["realtime"] == {"m1": "10 Mbps", "d": "50 ms", "m2": "5 Mbps"}
    assert of_a["upperlimit"] == {"m1": "60 Mbps", "d": "10 ms", "m2": "40 Mbps"}
    assert notes(text) == {}
    limited = text.replace("max 100M", "max 100M burst 120M for 5ms")
    assert "the rate in the long run" in notes(limited)[1]
    for wrong in ("min 0K burst 1M for 5ms", "min 5M burst 10M", "min 5M burst x for 5ms"):
        assert notes(text.replace("min 5M burst 10M for 50ms", wrong)).keys() == {2}


def test_priorities_of_hfsc_have_no_effect() -> None:
    text = "altq on em0 hfsc bandwidth 10Mb queue { a }\nqueue a priority 3 hfsc(default)\n"
    assert "HFSC serves by service curves: `priority` has no effect" in notes(text)[2]
