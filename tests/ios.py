"""Configurations of IOS for tests, and what is read of them."""

from __future__ import annotations

import json
import re
from typing import Any

from perhop.routers.reading import Attachment, Configuration, Treatment, source
from perhop.routers.reading.ios import read
from perhop.scenario import parse

BLOCKS = ("class-map", "policy-map", "map-class", "ip access-list", "ipv6 access-list")


def config(text: str) -> Configuration:
    found = read([source(text, "r.cfg")])
    numbers = [line.place.line for line in found.lines]
    assert numbers == sorted(set(numbers)), "a line has two treatments, or is out of order"
    told = text.splitlines()
    for line in found.lines:
        assert line.text in told[line.place.line - 1]
        assert bool(line.note) == (line.treatment is not Treatment.MODELLED)
    missing = qos_lines(text) - set(numbers)
    assert not missing, [f"{number}: {told[number - 1]}" for number in sorted(missing)]
    return found


def qos_lines(text: str) -> set[int]:
    """The lines of an indented configuration that must have a treatment, by other means."""
    inside = ""
    found = set()
    blocks: dict[str, set[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or line.lstrip().startswith("!") or words[0] in ("exit", "end"):
            continue
        if not line[0].isspace():
            inside = next((start for start in BLOCKS if line.startswith(start)), "")
            if "access-list" in line:
                inside = f"list {words[1] if words[0] == 'access-list' else words[-1]}"
        if inside.startswith("list"):
            blocks.setdefault(inside, set()).add(number)
        elif (inside and inside != "map-class") or "service-policy" in words[:2]:
            found.add(number)
    for name, lines in blocks.items():
        if re.search(rf"match (not )?access-group (name )?{name.split()[1]}\b", text):
            found |= lines
    return found


def policy(text: str, interface: str = "GigabitEthernet0/1") -> Attachment:
    return next(each for each in config(text).attachments if each.interface == interface)


def one(statements: str, *, version: str = "12.4", rate: int = 10_000) -> dict[str, Any]:
    """The first class of a policy at an interface of 10 Mb/s."""
    found = policy(
        f"version {version}\nclass-map A\n match ip dscp 8\npolicy-map P\n class A\n"
        + "".join(f"  {line}\n" for line in statements.splitlines())
        + f"interface GigabitEthernet0/1\n bandwidth {rate}\n service-policy output P\n"
    )
    runs(found)
    return dict(found.policy["classes"]["A"])


def runs(attachment: Attachment) -> None:
    """Check that a scenario with this policy is valid."""
    policy = {"classes": _unused(attachment.policy["classes"])}
    shape = {"shape": {"a": attachment.shape}} if attachment.shape else {}
    link = {"ends": ["a", "b"], "rate": f"{attachment.rate or 10**8} bps", **shape}
    scenario = {
        "perhop": 1,
        "name": "x",
        "nodes": {"a": "host", "b": "host"},
        "links": [{**link, "egress": {"a": "p"}}],
        "policies": {"p": policy},
        "duration": "1 s",
    }
    parse(json.dumps(scenario))


def _unused(classes: dict[str, Any]) -> dict[str, Any]:
    """Return classes that no traffic needs to match."""
    found = {}
    for name, each in classes.items():
        inner = {"classes": _unused(each["classes"])} if "classes" in each else {}
        found[name] = {**each, **inner, "unused": True}
    return found


def treatments(text: str) -> dict[str, tuple[str, str]]:
    return {line.text: (line.treatment.value, line.note) for line in config(text).lines}


LISTS = """\
access-list 101 permit ip any 10.0.0.0 0.255.255.255
ip access-list extended WEB
 remark the web
 permit tcp any any eq www 443
class-map OTHER
 match dscp ef
"""


GROUPS = """\
object-group network SITES
 10.1.0.0 255.255.0.0
 host 192.0.2.7
object-group service PORTS
 tcp eq smtp
 tcp 8080
object-group ip address HOSTS
 10 10.2.0.0/24
"""


TEXT = """\
class-map match-any A
 match dscp ef
 match dscp cs5
policy-map P
 class A
  priority percent 10
  police cir 8000
   conform-action transmit
   exceed-action drop
 class class-default
  fair-queue
ip access-list extended L
 permit ip any any
interface GigabitEthernet0/1
 ip address 192.0.2.1 255.255.255.0
 service-policy output P
line con 0
 exec-timeout 0 0
"""


TRANSATLANTIC = """\
class-map match-all qbss
  match ip dscp 8
policy-map qos-policy
  class qbss
    bandwidth percent 1
    queue-limit 64
    random-detect
  class class-default
    random-detect
interface POS1/0
  service-policy output qos-policy
"""
