"""Interfaces of IOS: their rates, circuits and older statements."""

from __future__ import annotations

import pytest

from ios import (
    config,
    policy,
    runs,
    treatments,
)


@pytest.mark.parametrize(
    ("interface", "statements", "rate", "line"),
    [
        ("FastEthernet0/0", "", 10**8, 2),
        ("Serial0/0/0:0", "", 1_544_000, 2),
        ("POS1/0", "", 155_000_000, 2),
        ("TenGigabitEthernet1/1", "", 10**10, 2),
        ("Gi0/1", "speed 100", 10**8, 3),
        ("Gi0/1", "speed auto", 10**9, 2),
        ("Serial1", "bandwidth 512", 512_000, 3),
        ("Tunnel1", "", None, None),
        ("GigabitEthernet0/0.5", "", 50_000_000, 8),
    ],
)
def test_rates_of_interfaces(
    interface: str, statements: str, rate: int | None, line: int | None
) -> None:
    text = f"policy-map P\ninterface {interface}\n {statements or '!'}\n description x\n"
    text += " service-policy output P\n!\ninterface GigabitEthernet0/0\n bandwidth 50000\n"
    found = policy(text, interface)
    assert found.rate == rate
    assert (found.rate_place.line if found.rate_place else None) == line


@pytest.mark.parametrize(("rate", "treatment"), [(10_000, "approximated"), (1_000_000, "modelled")])
def test_another_rate_than_the_interface_has_is_an_approximation(rate: int, treatment: str) -> None:
    text = f"policy-map P\ninterface Gi0/1\n bandwidth {rate}\n service-policy output P\n"
    assert treatments(text)[f"bandwidth {rate}"][0] == treatment


def test_older_statements_of_interfaces() -> None:
    text = """\
access-list 102 permit tcp any any eq www
interface GigabitEthernet0/1
 rate-limit output access-group 102 20000000 24000 32000 conform-action transmit exceed-action drop
 rate-limit input 8000000 16000 16000 conform-action set-prec-transmit 1 exceed-action drop
 traffic-shape rate 50000000 500000 500000
 fair-queue 64 256 0
 tx-ring-limit 3
 max-reserved-bandwidth 90
 priority-group 1
 ip load-sharing per-packet
 no mls qos trust
priority-list 1 protocol ip high
"""
    found = config(text)
    out, arriving = found.attachments
    assert (out.direction, arriving.direction, found.balance) == ("out", "in", "per-packet")
    assert out.shape == {"rate": "50 Mbps", "burst": "125 kB"}
    assert out.policy["classes"]["rate-limit-1"]["match"]["destination_port"] == 80
    assert arriving.policy["classes"] == {
        "rate-limit-1": {
            "match": "any",
            "police": {
                "rate": "8 Mbps",
                "burst": "16 kB",
                "conform": {"remark": "cs1"},
                "exceed": "drop",
            },
        }
    }
    assert [line.place.line for line in found.lines] == [1, *range(2, 13)]
    runs(out)


def test_circuits_have_their_own_policies() -> None:
    text = """\
policy-map P
interface ATM0/1
 pvc 0/33
  vbr-nrt 2000 1000 32
  service-policy output P
interface Serial0/0
 frame-relay traffic-shaping
interface Serial0/0.1 point-to-point
 frame-relay interface-dlci 100
  class FR
map-class frame-relay FR
 frame-relay cir 256000
 frame-relay bc 2560
 frame-relay mincir 128000
 service-policy output P
"""
    found = config(text)
    pvc, circuit = found.attachments
    assert (pvc.interface, pvc.rate) == ("ATM0/1 pvc 0/33", 10**6)
    assert circuit.interface == "Serial0/0.1 frame-relay interface-dlci 100"
    assert circuit.shape == {"rate": "256 kbps", "burst": "320 B"}
    assert {line.place.line for line in found.lines} == {1, *range(3, 6), 7, *range(9, 15)} | {15}


def test_spellings_of_an_interface_are_one_interface() -> None:
    text = """\
policy-map P
policy-map Q
interface GigabitEthernet0/0/1
 speed 100
interface Gi0/0/1.5
 service-policy input P
int g 0/0/1
 service-policy output P
 service-policy output Q
interface g0/0/1
 no service-policy output P
"""
    inner, whole = sorted(config(text).attachments, key=lambda each: each.direction)
    assert (inner.interface, inner.rate) == ("Gi0/0/1.5", 10**8)
    assert (whole.interface, whole.rate, whole.name) == ("GigabitEthernet0/0/1", 10**8, "Q")


def test_map_classes_shape_without_a_policy() -> None:
    text = """\
map-class frame-relay VOIP
 no frame-relay adaptive-shaping
 frame-relay cir 512000
 frame-relay fair-queue
interface Serial0/0.1 point-to-point
 frame-relay interface-dlci 100 class VOIP
interface Serial0/0.2 point-to-point
 frame-relay class NONE
"""
    found = config(text)
    (circuit,) = found.attachments
    assert circuit.shape == {"rate": "512 kbps", "burst": "1600 B"}
    assert list(circuit.policy["classes"]["class-default"]["queue"]) == ["limit", "fq-codel"]
    assert [line.place.line for line in found.lines] == [1, 2, 3, 4, 6, 8]
    runs(circuit)


def test_other_policies_are_named() -> None:
    text = """\
class-map type inspect match-any FW
 match protocol tcp
policy-map type inspect FWP
 class type inspect FW
  inspect
policy-map COPP
 class class-default
  police 8000
control-plane
 service-policy input COPP
template T
 service-policy output COPP
interface Tunnel0
 ip nhrp map group SPOKE service-policy output COPP
interface GigabitEthernet0/1
 service-policy output MISSING
 service-policy type control X
 service-policy input COPP
"""
    told = treatments(text)
    assert told["inspect"] == ("not modelled", "policy maps of type inspect are not modelled")
    assert told["service-policy output MISSING"] == ("not modelled", "no policy map MISSING")
    assert "service-policy type control X" in told
    assert told["ip nhrp map group SPOKE service-policy output COPP"][0] == "not modelled"
