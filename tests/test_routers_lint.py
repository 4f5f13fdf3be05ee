"""Rules of `perhop lint`: for each, configurations with the fault and near misses."""

from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lint_cases import CASES, At, Case
from perhop.routers.lint import RULES, Finding, Settings, attached_policies, check
from perhop.routers.lint.packets import Box, Budget, packets_of, without
from perhop.routers.reading import Conditions, Configuration, Default, Packet, Rules


def found(
    policies: list[At], given: Settings | None = None, limit: int | None = None
) -> list[Finding]:
    attachments = tuple(at.attachment(f"{at.name}.cfg") for at in policies)
    defaults = tuple(
        Default(attachment.place(("classes", name)), "queue-limit", "64 packets", "x")
        for at, attachment in zip(policies, attachments, strict=True)
        for name in at.defaults
    )
    configuration = Configuration("ios", (), defaults, attachments)
    judged = list(attached_policies(configuration, platform_limit=limit))
    return check(judged, given or Settings())


def flat(kind: str) -> list[Any]:
    return [
        pytest.param(case, policies, id=f"{case.rule}-{number}")
        for case in CASES
        for number, policies in enumerate(getattr(case, kind))
    ]


@pytest.mark.parametrize(("case", "policies"), flat("faults"))
def test_a_rule_finds_its_fault(case: Case, policies: list[At]) -> None:
    names = [finding.rule.name for finding in found(policies, case.settings, case.limit)]
    assert case.rule in names
    ignoring = Settings(untrusted=case.settings.untrusted, ignored=frozenset({case.rule}))
    left = [finding.rule.name for finding in found(policies, ignoring, case.limit)]
    assert left == [name for name in names if name != case.rule]


@pytest.mark.parametrize(("case", "policies"), flat("misses"))
def test_a_rule_does_not_find_a_near_miss(case: Case, policies: list[At]) -> None:
    names = [finding.rule.name for finding in found(policies, case.settings, case.limit)]
    assert case.rule not in names


def test_every_rule_has_cases() -> None:
    # Readers find these: tests are in test_routers_lint_files.py, _families.py and _effect.py.
    found = {"undefined-name", "unclassified-packets", "unused-class", "unread-line"}
    found |= {"refused-line", "line-without-effect", "queue-without-congestion"}
    found |= {"implicit-discard", "no-ceiling", "short-delay-line"}
    assert {case.rule for case in CASES} == set(RULES) - found


# Sets of packets


packets = (
    st.builds(
        Packet,
        dscp=st.sampled_from([0, 8, 10, 46]),
        protocol=st.sampled_from(["tcp", "udp", "icmp"]),
        source=st.sampled_from(
            [ip_address("10.0.0.1"), ip_address("10.0.1.1"), ip_address("fe80::1")]
        ),
        source_port=st.sampled_from([1, 80, 443]),
        destination_port=st.sampled_from([1, 80, 5060]),
        pcp=st.none() | st.sampled_from([0, 5, 7]),
    )
    .flatmap(
        lambda p: st.just(p) if p.pcp is not None else st.sampled_from([p, replace(p, mpls_tc=5)])
    )
    .map(lambda p: p if p.protocol != "icmp" else replace(p, source_port=0, destination_port=0))
)

conditions = st.builds(
    Conditions,
    dscp=st.none() | st.frozensets(st.sampled_from([0, 8, 10, 46]), min_size=1),
    protocols=st.none() | st.frozensets(st.sampled_from(["tcp", "udp", "icmp"]), min_size=1),
    source=st.none()
    | st.sampled_from([(ip_network("10.0.0.0/24"),), (ip_network("10.0.0.0/16"),)]),
    source_ports=st.none() | st.sampled_from([((80, 80),), ((1, 100), (443, 443))]),
    destination_ports=st.none() | st.sampled_from([((80, 80),), ((1, 6000),)]),
    pcp=st.none() | st.frozensets(st.sampled_from([0, 5]), min_size=1),
    mpls_tc=st.none() | st.none() | st.just(frozenset({5})),
)

sets = st.lists(st.tuples(st.booleans(), conditions), min_size=1, max_size=4).map(
    lambda rules: Rules(tuple(rules))
)


def boxes(rules: Rules) -> list[Box]:
    written = rules.written()
    return packets_of(written, {}, Budget()) if written != [] else []


def among(packet: Packet, found: list[Box]) -> bool:
    numbers = {"icmp": 1, "tcp": 6, "udp": 17}
    base = 0 if packet.source.version == 4 else 2**32
    values = (
        packet.dscp,
        numbers[packet.protocol],
        packet.source_port,
        packet.destination_port,
        base + int(packet.source),
        int(packet.destination),
        packet.pcp
        if packet.pcp is not None
        else 16
        if packet.mpls_tc is None
        else 8 + packet.mpls_tc,
    )
    return any(
        all(
            any(low <= value <= high for low, high in ranges)
            for value, ranges in zip(values, box, strict=True)
        )
        for box in found
    )


@settings(max_examples=60, deadline=None)
@given(sets, packets)
def test_boxes_have_the_packets_of_a_match(rules: Rules, packet: Packet) -> None:
    assert among(packet, boxes(rules)) == rules.matches(packet)


@settings(max_examples=60, deadline=None)
@given(st.lists(sets, min_size=1, max_size=3), sets, st.lists(packets, min_size=5, max_size=20))
def test_a_class_that_gets_a_packet_is_not_shadowed(
    earlier: list[Rules], rules: Rules, some: list[Packet]
) -> None:
    left = without(boxes(rules), [box for each in earlier for box in boxes(each)], Budget())
    for packet in some:
        reaches = rules.matches(packet) and not any(each.matches(packet) for each in earlier)
        assert among(packet, left) == reaches
