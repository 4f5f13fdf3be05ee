"""Schedulers, buffers and drop profiles of Junos, and rates of interfaces."""

from typing import Any

import pytest

from junos import (
    attachment,
    notes,
    one,
    policy,
    reading,
)


@pytest.mark.parametrize(
    ("statement", "settings_"),
    [
        ("transmit-rate 30m;", {"bandwidth": "30 Mbps"}),
        ("transmit-rate percent 30;", {"bandwidth": "30%"}),
        ("transmit-rate { percent 30; exact; }", {"bandwidth": "30%", "borrow": False}),
        ("transmit-rate remainder 50;", {"bandwidth": "50%"}),
        ("transmit-rate remainder;", {}),
        ("shaping-rate 20m;", {"limit": "20 Mbps", "bandwidth": "20 Mbps"}),
        (
            "transmit-rate 1m; shaping-rate 20m burst-size 10k;",
            {"bandwidth": "1 Mbps", "shape": {"rate": "20 Mbps", "burst": "10 kB"}},
        ),
        ("priority strict-high;", {"priority": "strict"}),
        (
            "priority strict-high; transmit-rate 5m exact;",
            {"priority": "strict", "limit": "5 Mbps"},
        ),
    ],
)
def test_schedulers_say_what_a_class_gets(statement: str, settings_: dict[str, Any]) -> None:
    found = policy(one(statement))["best-effort"]
    assert {
        key: value for key, value in found.items() if key not in ("match", "queue")
    } == settings_


@pytest.mark.parametrize(
    ("statement", "limit"),
    [
        # 1 Gb/s holds 12.5 MB for 100 ms.
        ("transmit-rate percent 10;", "100 ms"),
        ("transmit-rate percent 10; buffer-size percent 10;", "100 ms"),
        ("transmit-rate percent 10; buffer-size percent 20;", "2500 kB"),
        ("transmit-rate percent 10; buffer-size temporal 8k;", "1 MB"),
        ("transmit-rate percent 10; buffer-size remainder;", "11875 kB"),
    ],
)
def test_buffers_become_limits(statement: str, limit: str) -> None:
    found = policy(one(statement, "transmit-rate percent 5; buffer-size percent 5;"))
    assert found["best-effort"]["queue"] == {"limit": limit}


def test_priorities_below_strict_order_borrowing() -> None:
    text = one("transmit-rate percent 10; priority low;", "transmit-rate percent 5; priority high;")
    found = policy(text)
    assert [found[name]["priority"] for name in ("best-effort", "network-control")] == [3, 0]
    assert {treatment for treatment, _ in notes(text).values()} == {"approximated"}


def test_guarantees_above_the_interface_shrink() -> None:
    found = policy(one("transmit-rate 900m;", "transmit-rate percent 30;"))
    assert [found[name]["bandwidth"] for name in ("network-control", "best-effort")] == [
        "25%",
        "75%",
    ]


def test_the_default_scheduler_map_is_listed() -> None:
    text = "class-of-service { interfaces { ge-0/0/0 { shaping-rate 50m; } } }\n"
    found = reading(text)
    assert found.attachments[0].shape == {"rate": "50 Mbps"}
    classes = found.attachments[0].policy["classes"]
    assert {name: each["bandwidth"] for name, each in classes.items()} == {
        "network-control": "5%",
        "best-effort": "95%",
    }
    assert classes["network-control"]["match"] == {
        "dscp": ["cs6", *range(49, 56), "cs7", *range(57, 64)]
    }
    said = {(each.setting, each.value) for each in found.defaults}
    assert ("scheduler-map", "queue 0: 95%, queue 3: 5%") in said
    assert ("speed", "1 Gbps") in said
    assert ("classifiers", "ipprec-compatibility") in said
    assert "forwarding-classes" in {setting for setting, _ in said}
    assert all(each.source for each in found.defaults)


@pytest.mark.parametrize(
    ("profile", "low", "high", "probability", "treatment"),
    [
        ("interpolate { fill-level [ 30 80 ]; drop-probability [ 0 100 ]; }", 30, 80, 100, None),
        (
            "interpolate { fill-level [ 0 25 50 100 ]; drop-probability [ 0 0 40 100 ]; }",
            *(25, 100, 100),
            "approximated",
        ),
        (
            "fill-level 40 drop-probability 5; fill-level 90 drop-probability 50;",
            *(40, 100, 50),  # the last step goes on to the full queue
            "approximated",
        ),
        ("fill-level 10 drop-probability 5;", 10, 100, 5, "approximated"),
    ],
)
def test_drop_profiles_become_random_early_detection(
    profile: str, low: int, high: int, probability: int, treatment: str | None
) -> None:
    text = one(
        "transmit-rate percent 80; drop-profile-map loss-priority any protocol any drop-profile p;",
        "transmit-rate percent 5;",
        more=f"drop-profiles {{ p {{ {profile} }} }}",
    )
    red = policy(text)["best-effort"]["queue"]["red"]
    assert (red["min"], red["max"]) == (f"{low} ms", f"{high} ms")
    assert red["probability"] == f"{probability}%"
    assert (red["gentle"], red["ecn"], red["weight"]) == (probability < 100, False, "100%")
    assert notes(text).get(6, (None,))[0] == treatment


def test_loss_priorities_become_thresholds_by_code_point() -> None:
    text = one(
        "transmit-rate 12m; drop-profile-map loss-priority high protocol any drop-profile p;",
        "transmit-rate percent 5;",
        interface="unit 0 { classifiers { dscp c; } }",
        more="""
    drop-profiles { p { interpolate { fill-level [ 10 20 ]; drop-probability [ 0 100 ]; } } }
    classifiers { dscp c {
        forwarding-class best-effort { loss-priority high code-points cs1; }
    } }""",
    )
    queue = policy(text)["best-effort"]["queue"]
    # 100 ms at 12 Mb/s are 100 packets of 1500 B.
    assert queue["limit"] == "100 packets"
    low, high = queue["wred"]["profiles"]
    assert (high["dscp"], high["min"], high["max"]) == ([8], "10 packets", "20 packets")
    assert (len(low["dscp"]), low["min"], low["max"]) == (63, "99 packets", "100 packets")


def test_lines_of_drop_profiles_go_on_above_their_last_point() -> None:
    text = one(
        "transmit-rate 12m; drop-profile-map loss-priority high protocol any drop-profile p;",
        "transmit-rate percent 5;",
        interface="unit 0 { classifiers { dscp c; } rewrite-rules { dscp w; } }",
        more="""
    drop-profiles { p { interpolate { fill-level [ 20 60 ]; drop-probability [ 0 80 ]; } } }
    rewrite-rules { dscp w {
        forwarding-class best-effort { loss-priority low code-point cs2; } } }
    classifiers { dscp c {
        forwarding-class best-effort { loss-priority high code-points cs1; }
    } }""",
    )
    _, high = policy(text)["best-effort"]["queue"]["wred"]["profiles"]
    assert (high["min"], high["max"], high["probability"]) == ("20 packets", "70 packets", "100%")
    assert any("drop profiles see the new code point" in note for _, note in notes(text).values())


# Interfaces


@pytest.mark.parametrize(
    ("name", "statement", "rate"),
    [
        ("ge-0/0/0", "", 10**9),
        ("xe-0/0/0", "", 10**10),
        ("et-0/0/0:1", "speed 25g;", 25 * 10**9),
        ("so-0/0/0", "speed oc12;", 622_080_000),
        ("ge-0/0/0", "gigether-options { speed 100m; }", 10**8),
        ("ge-0/0/0", "unit 0 { bandwidth 622m; }", 622 * 10**6),
        ("ae0", "", None),
    ],
)
def test_interfaces_have_rates(name: str, statement: str, rate: int | None) -> None:
    text = f"interfaces {{ {name} {{ description x; {statement} }} }}\n"
    text += f"class-of-service {{ interfaces {{ {name} {{ unit 0; }} }} }}\n"
    found = attachment(text, name)
    assert found.rate == rate
    assert (found.rate_place is not None) == bool(statement)


def test_bundles_have_the_rates_of_their_links() -> None:
    text = "".join(f"set interfaces xe-0/0/{n} gigether-options 802.3ad ae0\n" for n in range(2))
    text += "set interfaces ae0 unit 0\nset class-of-service interfaces ae0 unit 0\n"
    assert attachment(text, "ae0").rate == 2 * 10**10


def test_units_with_profiles_have_policies_of_their_own() -> None:
    text = """\
set class-of-service traffic-control-profiles gold scheduler-map m shaping-rate 100m
set class-of-service traffic-control-profiles gold shaping-rate burst-size 64k
set class-of-service scheduler-maps m forwarding-class best-effort scheduler s
set class-of-service schedulers s transmit-rate percent 90
set class-of-service interfaces ge-0/0/3 unit 7 output-traffic-control-profile gold
"""
    (found,) = reading(text).attachments
    assert (found.interface, found.name) == ("ge-0/0/3.7", "m")
    assert found.shape == {"rate": "100 Mbps", "burst": "64 kB"}


@pytest.mark.parametrize("way", ["per-packet", "per-flow"])
def test_load_is_balanced_by_flow(way: str) -> None:
    text = f"""\
set policy-options policy-statement lb then load-balance {way}
set routing-options forwarding-table export lb
"""
    assert reading(text).balance == "per-flow"
    assert reading(text.split("\n")[0]).balance is None


@pytest.mark.parametrize("unit", ["percent", "proportion"])
def test_excess_rates_weigh_what_exceeds_the_guarantees(unit: str) -> None:
    text = one(f"transmit-rate percent 10; excess-rate {unit} 75;", "transmit-rate percent 5;")
    found = policy(text)
    assert {each["quantum"] for each in found.values()} == {"113550 B", "7570 B"}
    # Without guarantees, everything is shared by these weights.
    found = policy(one(f"excess-rate {unit} 75;", f"excess-rate {unit} 25;"))
    assert {each["bandwidth"] for each in found.values()} == {"75%", "25%"}
