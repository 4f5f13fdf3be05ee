"""Configurations with thousands of classes: all are read, or the configuration is refused."""

from collections.abc import Callable, Hashable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import SLOW, Outcome
from perhop.errors import UsageError
from perhop.routers import scenario as routers_scenario
from perhop.routers.lint import lint
from perhop.routers.reading import Packet, Source, Treatment, configuration
from perhop.routers.reading.altq import classes as altq_classes
from perhop.routers.reading.altq import devices as altq_devices
from perhop.routers.reading.conditions import Conditions
from perhop.routers.reading.decisions import matches
from perhop.routers.reading.detect import read
from perhop.routers.reading.ios import policies as ios_policies
from perhop.routers.reading.linux import tree

BOUND = 16_384


def address(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def tc(count: int) -> str:
    lines = [
        "tc qdisc add dev eth0 root handle 1: htb default fffe",
        "tc class add dev eth0 parent 1: classid 1:ffff htb rate 10gbit",
    ]
    for each in range(1, count):
        lines += [
            f"tc class add dev eth0 parent 1:ffff classid 1:{each:x} htb rate 100kbit ceil 1mbit",
            "tc filter add dev eth0 parent 1: protocol ip prio 1 u32 "
            f"match ip dst {address(each)}/32 flowid 1:{each:x}",
        ]
    return "\n".join(
        [*lines, "tc class add dev eth0 parent 1:ffff classid 1:fffe htb rate 100kbit"]
    )


def ios(count: int) -> str:
    numbers = range(1, count)
    return "\n".join(
        [
            *(
                f"ip access-list extended L{each}\n permit ip any host {address(each)}\n"
                f"class-map C{each}\n match access-group name L{each}"
                for each in numbers
            ),
            "policy-map P",
            *(f" class C{each}\n  bandwidth 100" for each in numbers),
            "interface TenGigabitEthernet0/1\n service-policy output P",
        ]
    )


def pf(count: int) -> str:
    # The last rule decides, so that rules stand in the opposite order of a scenario's classes.
    return "\n".join(
        [
            "queue main on em0 bandwidth 10G max 10G",
            *(f"queue q{each} parent main bandwidth 100K" for each in range(1, count)),
            "queue rest parent main bandwidth 100K default",
            *(f"match out on em0 to {address(each)} set queue q{each}" for each in range(1, count)),
        ]
    )


def altq(count: int) -> str:
    return "\n".join(
        [
            "interface pvc0 bandwidth 1000M cbq no-control",
            "class cbq pvc0 root_class NULL priority 0 admission none pbandwidth 100",
            "class cbq pvc0 rest root_class default exactbandwidth 10K",
            *(
                f"class cbq pvc0 c{each} root_class priority 3 admission none exactbandwidth 10K"
                for each in range(1, count)
            ),
        ]
    )


FAMILIES = {"tc": tc, "ios": ios, "pf": pf}


@SLOW
@pytest.mark.parametrize("family", FAMILIES)
def test_thousands_of_classes_are_read(family: str) -> None:
    text = Source("r.txt", FAMILIES[family](1200))
    configuration = read([text])
    (attachment,) = configuration.attachments
    classes = attachment.policy["classes"]
    inner = classes if len(classes) > 1 else next(iter(classes.values()))["classes"]
    assert len(inner) == 1200
    matched = [each["match"] for each in inner.values() if each["match"] != "any"]
    assert matched == [{"destination": address(each)} for each in range(1, 1200)]
    assert configuration.counts[Treatment.NOT_MODELLED] == 0
    # No rule says that others take all packets of a class; some say that queues are long or short.
    assert {finding.rule.name for finding in lint([text])} <= {
        "long-queue", "short-queue", "queue-without-congestion",
    }  # fmt: skip


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound of 40 classes, so that the tests are short."""
    for module in (tree, ios_policies, altq_classes, altq_devices, configuration):
        assert module.MAX_CLASSES == BOUND
        monkeypatch.setattr(module, "MAX_CLASSES", 40)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("family", [tc, ios, pf, altq])
def test_more_classes_than_a_policy_can_have_are_refused(family: Callable[[int], str]) -> None:
    (attachment,) = read([Source("r.txt", family(37))]).attachments
    assert attachment.policy["classes"]
    with pytest.raises(UsageError, match=r"^r\.txt:\d+: `\w+` has more than 40 classes"):
        read([Source("r.txt", family(42))])


@pytest.mark.usefixtures("few")
def test_every_command_refuses_too_many_classes(
    perhop: Callable[..., Outcome], tmp_path: Path
) -> None:
    path = tmp_path / "r.txt"
    path.write_text(ios(42))
    for arguments in (("import",), ("lint",), ("run",), ("diff", str(path))):
        outcome = perhop(*arguments, str(path))
        assert (outcome.code, outcome.out) == (2, "")
        assert "`P` has more than 40 classes" in outcome.err


def test_a_run_has_a_flow_for_each_class_or_says_why_not(
    perhop: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routers_scenario, "MAX_FLOWS", 30)
    path = tmp_path / "r.txt"
    path.write_text(ios(31))
    outcome = perhop("run", str(path))
    assert outcome.code == 2
    assert "`P` has 31 classes" in outcome.err
    assert "30 at most" in outcome.err
    read_at_all = perhop("import", str(path))
    assert "0 not modelled" in read_at_all.out
    assert "`P` has 31 classes" in read_at_all.out + read_at_all.err


# Decision lists


conditions = st.builds(
    Conditions,
    dscp=st.none() | st.frozensets(st.integers(0, 3), min_size=1, max_size=2),
    protocols=st.none() | st.just(frozenset({"udp"})),
    destination_ports=st.none() | st.sampled_from([((80, 80),), ((443, 443),), ((80, 443),)]),
)
packets = st.builds(
    Packet,
    dscp=st.integers(0, 4),
    protocol=st.sampled_from(["tcp", "udp"]),
    destination_port=st.sampled_from([79, 80, 100, 443]),
)


@given(
    st.lists(st.tuples(conditions, st.integers(0, 3)), max_size=12),
    st.permutations(range(4)),
    st.lists(packets, min_size=1, max_size=8),
)
def test_the_first_entry_that_a_packet_meets_decides(
    found: list[tuple[Conditions, Hashable]], order: list[Hashable], some: list[Packet]
) -> None:
    rules = matches(found, order)
    for packet in some:
        first = next((key for met, key in found if met.matches(packet)), order[-1])
        assert next(key for key in order if rules[key].matches(packet)) == first
