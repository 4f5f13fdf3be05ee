"""Configurations of IOS and IOS-XE as texts: any form, the documents' own, and damaged ones."""

from __future__ import annotations

import random
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ios import (
    GROUPS,
    LISTS,
    TEXT,
    TRANSATLANTIC,
    config,
    policy,
    treatments,
)
from perhop.gallery import load
from perhop.routers.reading import Configuration, Treatment, source
from perhop.routers.reading.detect import read as detect
from perhop.routers.reading.ios import read

# Text


def test_a_configuration_without_qos_has_no_lines() -> None:
    text = "hostname r\ninterface Gi0/0\n bandwidth 100\n ip address 192.0.2.1 255.255.255.0\n"
    found = config(text + "access-list 1 permit any\nrouter ospf 1\n network 0.0.0.0 area 0\nend\n")
    assert (found.lines, found.attachments, found.defaults) == ((), (), ())


@pytest.mark.parametrize(
    "change",
    [
        lambda text: re.sub(r"(?m)^ +", "", text),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: re.sub(r"(?m)^( +)", lambda m: "\t" * len(m[1]), text),
        lambda text: re.sub(r"(?m)^", "    ", text),
        lambda text: re.sub(r"(?m)^(class-map|policy-map|interface)", r"!\n\1", text),
        lambda text: re.sub(
            r"(?m)^ +", "R1(config-x)#", re.sub(r"(?m)^(?=\S)", "R1(config)#", text)
        ),
        lambda text: (
            "r1#show run\nBuilding configuration...\n\nCurrent configuration : 9 bytes\n"
            "banner motd ^C\npolicy-map NOT\n class A\n^C\n" + text + "end\n\nr1#\n"
        ),
        lambda text: text.replace("  priority", "    priority").replace(" class", "  class"),
        lambda text: text.replace("interface", "inter").replace("  police", "   police"),
        lambda text: text.replace("  police", " police").replace("   conform", "  conform"),
        lambda text: text.replace("ip access", "  exit\n exit\nip access"),
        lambda text: text.replace("class A\n", "class A ! comment\n  ! other\n"),
        lambda text: text.replace("  fair", " --More-- \x08\x08\x08\x08         fair"),
    ],
)
def test_indentation_and_what_surrounds_text_do_not_matter(change: Any) -> None:
    text = change(TEXT)
    found, plain = read([source(text, "r")]), read([source(TEXT, "r")])
    assert [a.policy for a in found.attachments] == [a.policy for a in plain.attachments]
    assert len(found.lines) == len(plain.lines)
    assert len(plain.attachments) == 1 and len(plain.lines) == 13


def test_commands_with_prompts_are_recognised() -> None:
    text = "R1(config)#class-map VOICE\nR1(config-cmap)# match dscp ef\nR1(config-cmap)#exit\n"
    assert detect([source(text, "r.txt")]).family == "ios"


def test_policies_without_queues_and_interface_are_for_what_arrives() -> None:
    text = """\
policy-map MARK
 class class-default
  set dscp af11
policy-map OUTER
 class class-default
  service-policy QUEUE
policy-map QUEUE
 class class-default
  queue-limit 20
"""
    found = config(text).attachments
    assert [(each.name, each.direction) for each in found] == [("MARK", "in"), ("OUTER", "out")]
    assert found[0].policy == {"classes": {"class-default": {"match": "any", "mark": "af11"}}}


def test_statements_outside_their_block_are_named() -> None:
    told = treatments("hostname r\n!\nbandwidth percent 10\n!\nmatch ip dscp 8\n")
    assert {note for _, note in told.values()} == {
        "stands outside the block that it would belong to"
    }
    assert len(told) == 2


# The documents' own configurations


def test_the_transatlantic_router_is_read_as_the_gallery_has_it() -> None:
    found = policy(TRANSATLANTIC, "POS1/0")
    gallery = load("qbss-transatlantic").policies["qos-policy"]
    read_ = _resolved(found.policy, "qos-policy")
    assert list(read_.classes) == list(gallery.classes) == ["qbss", "class-default"]
    assert read_.classes["qbss"] == of_ipv4(gallery.classes["qbss"])
    # The gallery puts in another queue, which is not the document's; see its description.
    queue = gallery.classes["class-default"].queue
    rest = read_.classes["class-default"].model_copy(update={"queue": queue})
    assert rest == gallery.classes["class-default"]
    assert found.rate == 155_000_000
    assert {line.treatment for line in config(TRANSATLANTIC).lines} == {Treatment.MODELLED}


@pytest.mark.parametrize(("name", "priority"), [("qbss-1-70", 70), ("qbss-30-1", 30)])
def test_the_slac_routers_are_read_as_the_gallery_has_them(name: str, priority: int) -> None:
    text = f"""\
class-map match-all qbss
  match ip dscp 8
class-map match-all hi-priority
  match ip dscp 10
policy-map qos-policy
  class qbss
    bandwidth percent 1
  class hi-priority
    bandwidth percent {priority}
  class class-default
    bandwidth percent {99 - priority}
interface Ethernet0/0
  service-policy output qos-policy
"""
    found = policy(text, "Ethernet0/0")
    gallery = list(load(name).policies["qbss"].classes.values())
    classes = list(_resolved(found.policy, "p").classes.values())
    assert [each.effective_queue for each in classes] == [e.effective_queue for e in gallery]
    wanted = [*map(of_ipv4, gallery[:2]), *gallery[2:]]
    assert [each.model_copy(update={"queue": None}) for each in classes] == wanted
    assert found.rate == 10_000_000


def of_ipv4(class_: Any) -> Any:
    """A class of the gallery, all of whose traffic is IPv4, with packets of IPv4 only."""
    return class_.model_copy(update={"match": class_.match.model_copy(update={"ip": (4,)})})


def _resolved(policy: dict[str, Any], name: str) -> Any:
    from perhop.scenario import Scenario

    raw = {
        "perhop": 1,
        "name": "x",
        "nodes": {"a": "host", "b": "host"},
        "links": [{"ends": ["a", "b"], "rate": "155 Mbps"}],
        "policies": {name: {"unused": True, **policy}},
        "duration": "1 s",
    }
    return Scenario.model_validate(raw).policies[name]


# Size and damage


def test_the_time_of_reading_grows_with_the_text_only() -> None:
    def took(count: int) -> float:
        blocks = [
            f"class-map match-any C{n}\n match dscp ef\n match access-group {100 + n % 100}\n"
            f"policy-map P{n}\n class C{n}\n  bandwidth percent 10\n  random-detect\n"
            f"interface Serial{n}\n service-policy output P{n}\n"
            for n in range(count)
        ]
        lists = [f"access-list {n} permit tcp any any eq {n}\n" for n in range(100, 200)]
        text = "".join([*lists, *blocks])
        started = time.process_time()
        read([source(text, "r")])
        return time.process_time() - started

    took(50)
    # A busy machine slows some of the readings down.
    assert any(took(800) < 8 * max(took(200), 0.01) for _ in range(4))


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"class-map C{n}\n match class-map C{n + 1}\n" for n in range(1500))
        + "policy-map P\n class C0\n  priority\n",
        "".join(
            f"policy-map P{n}\n class A\n  service-policy P{n + 1}\n class class-default\n"
            f"  service-policy P{n + 1}\n"
            for n in range(50)
        )
        + "class-map A\n match dscp 1\ninterface Gi0/0\n service-policy output P0\n",
        "policy-map P\n"
        + "".join(f" class C{n}\n  bandwidth 8\n" for n in range(1500))
        + "".join(f"class-map C{n}\n match dscp {n % 64}\n" for n in range(1500))
        + "".join(
            f"interface Gi0/{n}\n bandwidth {n + 1}\n service-policy output P\n" for n in range(100)
        ),
        "".join(f"access-list 100 deny tcp any any eq {n}\n" for n in range(1, 1000))
        + "access-list 100 permit ip any any\nclass-map A\n"
        + " match not access-group 100\n" * 1500
        + "class-map match-any B\n match access-group 100\n match dscp 8\npolicy-map P\n"
        + " class A\n  priority level 2\n class B\n  priority level 1\n"
        + "".join(
            f"interface Gi0/{n}\n bandwidth {n + 1}\n service-policy output P\n" for n in range(500)
        ),
        "".join(f"class-map C{n}\n match access-group {n}\n" for n in range(1, 80))
        + "".join(f"access-list {n} permit 10.0.{n}.0 0.0.0.255\n" for n in range(1, 80))
        + "".join(f"class-map D{n}\n match dscp {n}\n" for n in range(64))
        + "policy-map Q\n"
        + "".join(f" class D{n}\n  set dscp 8\n" for n in range(64))
        + "policy-map P\n"
        + "".join(f" class C{n}\n  service-policy Q\n" for n in range(1, 80))
        + "interface Gi0/0\n service-policy input P\n",
        "\n".join(" " * n + "class-map A" for n in range(2000)),
        "\n".join(f"banner motd {chr(1000 + n)}" for n in range(2000)),
    ],
    ids=[
        "deep class maps",
        "policies by powers",
        "many classes",
        "long lists",
        "classes in classes",
        "indentation",
        "banners",
    ],
)
def test_hostile_text_takes_little(text: str) -> None:
    started = time.process_time()
    config_of(text)
    assert time.process_time() - started < 5


WORDS = sorted({word for text in (TEXT, TRANSATLANTIC, LISTS, GROUPS) for word in text.split()})


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_damaged_text_is_read(seed: int) -> None:
    config_of(damaged(seed))


def damaged(seed: int) -> str:
    """A configuration with some of its text changed."""
    chance = random.Random(seed)
    lines = (GROUPS + LISTS + TEXT + TRANSATLANTIC).splitlines()
    for _ in range(chance.randrange(1, 12)):
        index = chance.randrange(len(lines))
        line = lines[index]
        match chance.randrange(7):
            case 0:
                del lines[index]
            case 1:
                lines.insert(index, chance.choice(lines))
            case 2:
                words = line.split(" ")
                words[chance.randrange(len(words))] = chance.choice(WORDS)
                lines[index] = " ".join(words)
            case 3:
                lines[index] = " " * chance.randrange(4) + line.strip()
            case 4:
                at = chance.randrange(len(line) + 1)
                lines[index] = line[:at] + chr(chance.randrange(1, 300)) + line[at:]
            case 5:
                number = str(chance.choice([0, -1, 2**64, 10**30, 1.5]))
                lines[index] = re.sub("[0-9]+", number, line, count=1)
            case _:
                first, second = sorted(chance.randrange(len(lines)) for _ in range(2))
                lines[first:second] = lines[first:second][::-1]
    return "\n".join(lines)


def config_of(text: str) -> Configuration:
    """Read any text, and check what must hold for all."""
    found = read([source(text.replace("\0", ""), "r")])
    numbers = [line.place.line for line in found.lines]
    assert numbers == sorted(set(numbers))
    for attachment in found.attachments:
        classes = attachment.policy["classes"]
        assert list(classes.values())[-1]["match"] == "any"
        assert all(attachment.place(("classes", name)).line for name in classes)
    return found
