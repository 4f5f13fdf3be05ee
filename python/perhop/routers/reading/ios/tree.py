"""The statements of an IOS configuration as a tree, with their lines.

Saved configurations indent the statements of a block. IOS itself ignores indentation: what a
statement belongs to follows from the block that is open. So a line belongs to the innermost open
block that is less indented, or that has such statements, and pasted text needs no indentation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from sys import intern
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perhop.routers.reading.configuration import Source


@dataclass(slots=True)
class Statement:
    """A line, with the statements of the block that it opens.

    Attributes:
        place: The line.
        text: The text without indentation.
        words: Its words, in the case of the text.
        indent: The number of spaces before it.
        kind: The kind of block that it opens, a key of `BLOCKS`; `CONTINUED`; "" for others.
        inside: The statements in the block; None for none, as most lines open no block.
        loose: True while lines of the same indentation may belong to the block.
    """

    place: Place
    text: str
    words: list[str]
    indent: int = 0
    kind: str = ""
    inside: list[Statement] | None = None
    loose: bool = False

    @property
    def children(self) -> Sequence[Statement]:
        """The statements in the block."""
        return self.inside or ()

    def add(self, *children: Statement) -> None:
        """Add statements to the block."""
        if self.inside is None:
            self.inside = []
        self.inside += children

    def word(self, index: int) -> str:
        """Return a word in lower case; "" if there are fewer."""
        return self.words[index].lower() if index < len(self.words) else ""

    def starts(self, *words: str) -> bool:
        """Return whether the statement starts with these words."""
        return len(self.words) >= len(words) and all(
            self.words[index].lower() == word for index, word in enumerate(words)
        )


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ACTIONS: Final = _set("conform-action exceed-action violate-action")
ACTIONS: Final = _ACTIONS | _set("conform-color exceed-color")

CONTINUED: Final = "continued"
"""The kind of a line that is the rest of the statement that it is in."""

CLASS_STATEMENTS: Final = _set(
    "bandwidth priority police shape queue-limit random-detect fair-queue set service-policy "
    "compress netflow-sampler drop log estimate account admit measure trust queue-buffers "
    "random-detect-label fragment dbl"
)

INTERFACE_STATEMENTS: Final = _set(
    "service-policy bandwidth rate-limit traffic-shape random-detect fair-queue priority-group "
    "custom-queue-list hold-queue tx-ring-limit max-reserved-bandwidth speed pvc encapsulation "
    "description shutdown mls auto srr-queue wrr-queue priority-queue qos"
)

BLOCKS: Final[dict[str, frozenset[str]]] = {
    "class-map": _set("match description"),
    "policy-map": _set("class description parameter"),
    "class": CLASS_STATEMENTS,
    "police": ACTIONS,
    "access-list": _set("permit deny remark evaluate dynamic"),
    "object-group": _set(
        "host range network-object port-object protocol-object service-object group-object "
        "any tcp udp tcp-udp icmp ip"
    ),
    "interface": INTERFACE_STATEMENTS,
    "pvc": _set("service-policy vbr-nrt vbr-rt ubr cbr abr tx-ring-limit class-vc class-int"),
    "map-class": _set("frame-relay service-policy"),
    "control-plane": _set("service-policy"),
    "other": frozenset(),
}
"""The statements of each kind of block that need no indentation to belong to it."""

_GLOBAL: Final = _set(
    "aaa access-list alias archive banner boot class-map config-register control-plane controller "
    "diagnostic dial-peer dialer-list enable errdisable exception gatekeeper hostname hw-module "
    "interface license line map-class memory netconf-yang object-group parser policy-map "
    "priority-list privilege queue-list radius-server redundancy restconf route-map router "
    "scheduler snmp-server tacacs-server telephony-service template tftp-server username version "
    "webvpn zone"
)
"""First words of statements that belong to no block, so that they end those without indentation."""

INTERFACE: Final = frozenset("interface"[:length] for length in range(3, 10))
"""The word `interface` and its abbreviations."""

_GLOBAL_IP: Final = _set(
    "access-list as-path bgp-community cef classless community-list default-gateway "
    "default-network dhcp domain domain-lookup domain-name domain-list extcommunity-list "
    "finger flow-cache flow-export forward-protocol ftp gratuitous-arps host http icmp "
    "identd inspect local multicast-routing name-server prefix-list radius rcmd route routing "
    "scp sla source-route spd ssh subnet-zero tacacs tcp telnet tftp unicast-routing"
)
"""Second words of such statements that start with `ip` or `ipv6`."""

_PROMPT: Final = re.compile(r"[A-Za-z0-9_.:/@-]{1,64}(\([A-Za-z0-9_-]{1,40}\))?[#>] *")
_NOISE: Final = re.compile(r"[\x08\x1b]|--More--|<--- More --->")
_BANNER: Final = re.compile(r"banner +(?:[a-z-]+ +)?(\^.|\S)(.*)", re.IGNORECASE)
_COMMENT: Final = re.compile(r"\s!.*")
_MOST_BANNER: Final = 1000
_SHORTEST: Final = 3
"""The fewest letters of an abbreviation."""

_COMPLETE: Final = frozenset({"service", "exit"})
"""Statements with which others begin."""

_DEEP: Final = 16
"""The depth to which blocks are looked at; QoS takes five levels."""


def read_tree(source: Source) -> list[Statement]:
    """Return the statements of a file that belong to no block, in linear time."""
    top: list[Statement] = []
    open_blocks: list[Statement] = []
    for number, indent, text in _lines(source.text):
        if not text or text.startswith("!"):
            if text == "!":
                for block in open_blocks[:_DEEP]:
                    block.loose = block.loose and indent > block.indent
            continue
        lower = text.lower()
        if lower in ("exit", "quit") or lower.startswith(("end-", "exit-")):
            _close(open_blocks)
            continue
        if lower == "end":
            open_blocks.clear()
            continue
        words = _words(_COMMENT.sub("", text) if "!" in text else text)
        statement = Statement(Place(source.file, number), text, words, indent)
        if open_blocks and _continues(open_blocks[-1], statement):
            statement.kind = CONTINUED
            open_blocks[-1].words += words
            open_blocks[-1].add(statement)
            continue
        parent = _parent(statement, open_blocks)
        if parent is not None and parent.kind:
            words[0] = _in_full(words[0], BLOCKS.get(parent.kind, frozenset()))
        statement.kind = _kind(statement, parent)
        statement.loose = bool(statement.kind)
        if parent is not None:
            parent.add(statement)
        else:
            top.append(statement)
        open_blocks.append(statement)
    return top


def _in_full(word: str, known: frozenset[str]) -> str:
    """Return the first word of a statement in full, if it is an abbreviation in its block."""
    if len(word) < _SHORTEST or word in known or word in _COMPLETE:
        return word
    found = [each for each in known if each.startswith(word.lower())]
    return found[0] if len(found) == 1 else word


def _words(text: str) -> list[str]:
    """Return the words of a line; those that most configurations repeat take memory once."""
    words = [
        intern(word) if word[0].isalpha() or len(word) < 4 or word.startswith("0.") else word
        for word in text.split()
    ]
    return words[:]  # of this length, with no room for more


def walk(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Yield statements and all that they contain, in the order of the lines."""
    todo = list(statements)[::-1]
    while todo:
        statement = todo.pop()
        yield statement
        todo.extend(reversed(statement.children))


def _lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the number, the indentation and the text of lines, without banners and prompts."""
    lines = text.split("\n")
    unknown_ends: set[str] = set()
    index = 0
    while index < len(lines):
        line = lines[index]
        index += 1
        if "\x08" in line or "\x1b" in line or "More" in line:
            line = _NOISE.sub("", line)
        stripped = line.strip()
        indent = _indent(line)
        if "#" in stripped or ">" in stripped:
            prompt = _PROMPT.match(stripped)
            if prompt is not None:
                # Commands at a prompt: those of the configuration mode count, `show run` does not.
                if prompt[1] is None or prompt[1] == "(config)":
                    yield index, 0, "!"
                stripped = stripped[prompt.end() :] if prompt[1] is not None else ""
                indent = 0
        yield index, indent, stripped
        banner = _BANNER.match(stripped) if stripped[:6].lower() == "banner" else None
        if banner is not None and banner[1] not in banner[2]:
            index = _after(banner[1], lines, index, unknown_ends)


def _indent(line: str) -> int:
    """Return the width of the space before a line, with tabs at every eighth column."""
    if not line[:1].isspace():
        return 0
    space = line[: min(len(line) - len(line.lstrip()), 200)]
    return len(space.expandtabs(8))


def _after(end: str, lines: list[str], start: int, unknown: set[str]) -> int:
    """Return the index after the line with the end of a banner, or `start` if there is none."""
    if end in unknown or len(unknown) > 64:
        return start
    for index in range(start, min(start + _MOST_BANNER, len(lines))):
        if end in lines[index]:
            return index + 1
    unknown.add(end)
    return start


def _parent(statement: Statement, open_blocks: list[Statement]) -> Statement | None:
    """Close the blocks that a statement ends, and return the one that it belongs to."""
    keyword = statement.word(0)
    if keyword in ("no", "default") or keyword.isdigit():
        keyword = statement.word(1)
    ends = _is_global(statement)
    if ends and all(block.kind in _STRICT or not block.kind for block in open_blocks[:_DEEP]):
        open_blocks.clear()  # as IOS has it, however it is indented
    while open_blocks:
        block = open_blocks[-1]
        outer = open_blocks[-2].kind if len(open_blocks) > 1 else ""
        if block.indent < statement.indent:
            known = keyword in BLOCKS.get(block.kind, ())
            if known or outer not in _NESTED or keyword not in BLOCKS[outer]:
                break
        elif block.kind and not ends and _takes(block, statement, keyword):
            break
        open_blocks.pop()
    if not open_blocks:
        return None
    if open_blocks[-1].indent < statement.indent:
        open_blocks[-1].loose = False
    return open_blocks[-1]


def _continues(before: Statement, statement: Statement) -> bool:
    """Return whether a line is the rest of the one before it, which a terminal broke in two."""
    if before.word(0) == "rate-limit":
        return statement.word(0) in _ACTIONS
    if before.kind != "police" and before.word(0) not in ACTIONS:
        return False
    rest = statement.word(0)
    if rest in _ACTIONS:
        return statement.indent < before.indent
    is_action = rest in ("transmit", "drop") or rest.endswith("-transmit")
    return is_action and before.words[-1].lower() in _ACTIONS


def _takes(block: Statement, statement: Statement, keyword: str) -> bool:
    """Return whether a statement that is not more indented than a block belongs to it."""
    beside = block.loose and block.indent == statement.indent
    if block.kind == "interface":
        return beside
    if keyword in BLOCKS[block.kind]:
        return True
    if keyword in _STATEMENTS or block.kind == "police":
        return False  # of a block further out
    return beside


_STRICT: Final = _set("class-map policy-map class police access-list object-group")
"""Blocks that contain no statement with the first word of a global one."""

_NESTED: Final = _set("class-map policy-map class police access-list")
"""Blocks whose statements belong to them even if they are indented further than the one before."""

_STATEMENTS: Final = frozenset().union(
    *(BLOCKS[kind] for kind in ("class-map", "policy-map", "class", "access-list"))
)


def _is_global(statement: Statement) -> bool:
    """Return whether a statement belongs to no block."""
    index = 1 if statement.word(0) == "no" else 0
    if statement.word(0) == "default" and statement.word(1) in INTERFACE:
        return True
    if statement.word(index) in ("ip", "ipv6"):
        return statement.word(index + 1) in _GLOBAL_IP
    return statement.word(index) in _GLOBAL or statement.word(index) in INTERFACE


def _kind(statement: Statement, parent: Statement | None) -> str:
    """Return the kind of block that a statement opens."""
    first, second = statement.word(0), statement.word(1)
    inside = parent.kind if parent is not None else ""
    if inside == "policy-map":
        return "class" if first == "class" else ""
    if inside == "class":
        return first if first == "police" else ""
    if inside == "interface":
        return "pvc" if first == "pvc" else ""
    if parent is not None and inside != "other":
        return ""
    if first in ("class-map", "policy-map", "map-class", "control-plane"):
        return first
    if first in INTERFACE:
        return "interface"
    if first in ("ip", "ipv6") and second == "access-list":
        return "access-list"
    if first == "object-group":
        return "object-group"
    return "other" if parent is None and _opens(statement) else ""


_OTHERS: Final = _set(
    "router line route-map vrf controller dial-peer template key crypto voice flow"
)


def _opens(statement: Statement) -> bool:
    return statement.word(0) in _OTHERS or statement.starts("ip", "vrf")


def _close(open_blocks: list[Statement]) -> None:
    """Close the innermost block."""
    while open_blocks and not open_blocks[-1].kind and not open_blocks[-1].children:
        open_blocks.pop()
    if open_blocks:
        open_blocks.pop()
