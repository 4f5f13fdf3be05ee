"""Commands of a user's script, for the interface of a link: checked, and never run by a shell.

The kernel engine runs them in place of perhop's own translation of the policy that was read from
them, so that a run shows what Linux makes of the script, not what perhop makes of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perhop.errors import UnsupportedError
from perhop.linux import htb
from perhop.linux.tree import ETHERNET, fills
from perhop.scenario.model.cake import Framing
from perhop.scenario.model.classes import Shape
from perhop.scenario.model.htb import slack
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.scenario import LinkShape, Policy, Scenario
    from perhop.scenario.model.script import Script

__all__ = ["Command", "Given", "fingerprint", "given"]

_PACKET: Final = 1500
_MOST_SAID: Final = 160
_OUTER: Final = "7fff"
"""The number of the qdisc that has the rate of the link, above those of the script."""

_OBJECTS: Final = frozenset({"qdisc", "class", "filter", "actions"})
_PARENTS: Final = frozenset({"parent", "root", "ingress", "egress", "block"})
_WORD: Final = re.compile(r"[A-Za-z0-9_.:,/%+=@!*&|()<>^~{}\[\] -]{1,256}")
_OPTION: Final = re.compile(r"-(?:[0-9]+|[AIDtpsdijgomNFXPZRC]|-[a-z][a-z0-9-]*)|[^-].*|!")
_FOREIGN: Final = frozenset(
    (
        *("bpf", "xt", "ipt", "object-file", "obj", "object-pinned", "pinned", "bytecode-file"),
        *("export", "exec", "run", "police-file", "bcf", "tcindex-file"),
    )
)
"""Words of tc by which it reads files or runs programs of this machine."""

_FILES: Final = re.compile(r"\b(?:include|define)\b|\$|`|\\")
_LINE: Final = re.compile(r"[\t\x20-\x7e]{0,65536}")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a script, for an interface.

    Attributes:
        place: Its place in the scenario.
        said: Its words in the script.
        words: The program and its arguments.
        text: Its standard input.
    """

    place: str
    said: str
    words: tuple[str, ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Given:
    """Commands for an interface.

    Attributes:
        shaper: Commands of tc, without `tc`, that give the interface the rate of its link where
            the script's own qdiscs may send faster.
        commands: The script's commands.
        counted: Bytes of layer 2 that Linux counts with each packet; None where a script says how
            many.
    """

    shaper: tuple[str, ...]
    commands: tuple[Command, ...]
    counted: int | None


def fingerprint(policy: Policy, shape: LinkShape | None) -> str:
    """Return a digest of a policy, without notes and commands, and of the shaper of its link."""
    left_out = {"notes", "script", "unused"}
    content = policy.model_dump(mode="json", exclude_defaults=True, exclude=left_out)
    bucket: Shape | None = shape
    if shape is not None and shape.overhead == Framing():
        bucket = Shape.model_construct(rate=shape.rate, burst=shape.burst)
    text = json.dumps([_without_unused(content), str(bucket)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _without_unused(content: object) -> object:
    """Return data without the keys `unused`, which change no packet."""
    if isinstance(content, dict):
        return {key: _without_unused(v) for key, v in content.items() if key != "unused"}
    return content


def given(scenario: Scenario, direction: str, device: str, header: int) -> Given | None:
    """Return the commands of the script from which the policy of an interface was read.

    Args:
        scenario: The scenario.
        direction: The direction of the link.
        device: The interface.
        header: Bytes of a packet that Linux counts beyond IP at this interface.

    Raises:
        UnsupportedError: A command cannot be run here, or the policy was changed since.
    """
    link, node = scenario.directions[direction]
    name = link.egress.get(node)
    script = None if name is None else scenario.policies[name].script
    if name is None or script is None:
        return None
    policy, place = scenario.policies[name], f"policies.{name}.script"
    shape = link.shape.get(node)
    if fingerprint(policy, shape) != script.policy:
        raise UnsupportedError(
            f"{place}: the policy or its shaper was changed after it was read from the commands of "
            f"{quote(script.interface)}, which do not have the change; change the script, or "
            f"remove `{place}` from the scenario so that perhop's own commands are run"
        )
    if any(str(change.on) == direction for change in scenario.changes):
        raise UnsupportedError(
            f"{place}: changes of {direction} during a run cannot be made to a script's own qdiscs;"
            " remove them from `changes`"
        )
    medium, rate = link.medium(node), link.medium(node).rate
    own = policy.htb.rate if policy.htb is not None else None
    own = shape.rate.of(rate) if shape is not None else own
    framing = policy.htb.overhead if policy.htb is not None else policy.overhead
    outer = own is None or fills(medium, own, shape.overhead if shape is not None else framing)
    shaper = [f"qdisc add dev {device} root handle {_OUTER}:{_stab(header)} htb default 1"]
    counted, most = medium.overhead.size - ETHERNET, rate
    if counted < 0:
        # What Linux counts with full packets is the same rate.
        counted, most = 0, rate * (_PACKET + ETHERNET) // (_PACKET + medium.overhead.size)
    layer2 = f" overhead {counted}" if counted else ""
    layer2 += " linklayer atm" if medium.overhead.cells else ""
    shaper += [
        f"class add dev {device} parent {_OUTER}: classid {_OUTER}:1 "
        f"{htb.Class(most, slack(most), most, slack(most))}{layer2}"
    ]
    above = ["parent", f"{_OUTER}:1"] if outer else ["root"]
    made = tuple(_commands(script, device, above, header, place))
    own_table = any("stab" in each for each in script.commands)
    return Given(tuple(shaper) if outer else (), made, None if own_table else ETHERNET)


def _stab(header: int) -> str:
    return f" stab overhead {ETHERNET - header}" if header != ETHERNET else ""


def _commands(
    script: Script, device: str, above: list[str], header: int, place: str
) -> Iterator[Command]:
    name = script.interface
    for number, (tool, *words) in enumerate(script.commands):
        at, said = f"{place}.commands.{number}", " ".join((tool, *words))[:_MOST_SAID]
        if tool == "nft":
            yield Command(at, said, ("nft", "-f", "-"), _ruleset(words, name, device, at))
        elif tool == "tc":
            yield Command(at, said, ("tc", *_tc(words, name, device, above, header, at)))
        elif tool in ("iptables", "ip6tables"):
            yield Command(at, said, (tool, "-w", *_iptables(words, name, device, at)))
        elif tool == "ip":
            yield Command(at, said, _queue(words, name, device, at))
        else:
            raise _refused(at, tool, "it is not tc, nft, ip, iptables or ip6tables")


def _tc(
    words: Sequence[str], name: str, device: str, above: list[str], header: int, at: str
) -> list[str]:
    if words[0] not in _OBJECTS:
        raise _refused(at, words[0], "it is no object of tc that perhop runs")
    if words[0] == "filter" and above[0] == "parent" and not _PARENTS & {*words}:
        raise _refused(at, "filter", "without `parent` it would be at the qdisc of the link's rate")
    found: list[str] = []
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        if before == "dev" and word == name:
            found.append(device)
            continue
        _safe(word, at)
        if word in _FOREIGN or re.match(r"-[^0-9]", word):
            raise _refused(at, word, "tc would read files or run programs of this machine")
        found += above if words[0] == "qdisc" and word == "root" else [word]
    if words[:2] in (["qdisc", "add"], ["qdisc", "replace"]):
        return _counting(found, header)
    return found


def _counting(words: list[str], header: int) -> list[str]:
    """Return a command that adds a qdisc, counting an Ethernet header that the interface lacks."""
    more = ETHERNET - header
    if not more:
        return words
    if "stab" in words:
        at = words.index("stab")
        if "overhead" in words[at:-1]:
            number = words.index("overhead", at) + 1
            if re.fullmatch("-?[0-9]{1,4}", words[number]):
                return [*words[:number], str(int(words[number]) + more), *words[number + 1 :]]
        return [*words[: at + 1], "overhead", str(more), *words[at + 1 :]]
    if "root" not in words:
        return words
    at = words.index("root") + 1
    return [*words[:at], "stab", "overhead", str(more), *words[at:]]


def _iptables(words: Sequence[str], name: str, device: str, at: str) -> list[str]:
    found = []
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        if before in ("-o", "-i", "--out-interface", "--in-interface") and word == name:
            found.append(device)
            continue
        _safe(word, at)
        if not _OPTION.fullmatch(word) or re.match("--mo(?!de$)", word):
            raise _refused(at, word, "iptables could run a program of this machine")
        found.append(word)
    return found


def _queue(words: Sequence[str], name: str, device: str, at: str) -> tuple[str, ...]:
    """Return the command that sets the length of an interface's queue."""
    if list(words[:4]) != ["link", "set", "dev", name] or words[4:5] != ["txqueuelen"]:
        raise _refused(at, "ip", "only `ip link set dev … txqueuelen …` is run")
    if len(words) != 6 or not re.fullmatch("[0-9]{1,9}", words[5]):
        raise _refused(at, words[-1], "it is no length of a queue")
    return ("ip", "link", "set", "dev", device, "txqueuelen", words[5])


def _ruleset(lines: Sequence[str], name: str, device: str, at: str) -> str:
    interface = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])")
    found = []
    for line in lines:
        if not _LINE.fullmatch(line) or _FILES.search(line):
            raise _refused(at, line, "perhop gives nft only rules: no variable and no other file")
        found.append(interface.sub(device, line))
    return "\n".join([*found, ""])


def _safe(word: str, at: str) -> None:
    if not _WORD.fullmatch(word) or ".." in word or word.startswith("/"):
        raise _refused(at, word, "expected a word of tc or iptables, not a path or a text")


def _refused(at: str, word: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"{at}: the kernel engine does not run {quote(word[:60])}: {why}; remove the command from "
        "the script, or run it with `--engine sim`"
    )
