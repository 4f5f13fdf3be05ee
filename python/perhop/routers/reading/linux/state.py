"""The state of a running machine: the outputs of `tc show` and `nft list`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from sys import intern
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.linux import nft_json
from perhop.routers.reading.linux.output import Object, items
from perhop.routers.reading.linux.tc_json import (
    OWN_CLASSES,
    class_of,
    class_words,
    filter_words,
    qdisc_words,
)

if TYPE_CHECKING:
    from perhop.routers.reading.configuration import Place, Source
    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.linux.nft import Ruleset
    from perhop.routers.reading.linux.output import Item
    from perhop.routers.reading.linux.tc import Tc
    from perhop.routers.reading.linux.translation import Translations

__all__ = ["State"]

_COMMAND: Final = re.compile(r"\btc (?:-\w+ )*(?:qdisc|class|filter) ?(?:show|list|ls)?\b(.*)")
_CHANGES: Final = re.compile(
    r"\b(?:tc|TC\}?) (?:-\w+ )*(?:qdisc|class|filter) (?:add|replace|change) "
)
_MULTIQUEUE: Final = "7fff"
"""The number of a discipline `mq` that the kernel made, whose own is 0."""

_NO_NAME: Final = "interface"


@dataclass(slots=True)
class _Shown:
    """An object, the interface in the command or object that shows it, and its words."""

    place: Place
    device: str
    words: list[str]
    kind: str = ""
    number: str = ""

    def __post_init__(self) -> None:
        """Keep each word once: those of many objects are the same."""
        self.words = [intern(word) for word in self.words]


@dataclass(slots=True)
class State:
    """Reads outputs; `apply` makes the interfaces once all are read."""

    tc: Tc
    rules: Ruleset
    ledger: Ledger
    translations: Translations
    _qdiscs: list[_Shown] = field(default_factory=list)
    _classes: list[_Shown] = field(default_factory=list)
    _filters: list[_Shown] = field(default_factory=list)
    _nameless: int = 0
    _outputs: int = 0
    _rooted: bool = False
    _done: set[tuple[str, ...]] = field(default_factory=set)

    def read(self, source: Source) -> None:
        """Read the outputs in a file."""
        device, where, shown = "", [""], -1
        output = -1
        for item in items(source):
            self._outputs += item.output != output
            output = item.output
            try:
                if item.problem:
                    raise ValueError(item.problem)
                if item.value is None:
                    if _CHANGES.search(item.text):
                        raise ValueError("a command among outputs: give it in a script of its own")
                    command = _COMMAND.search(item.text)
                    if command is not None:
                        device, where = _asked(command[1].split())
                        continue
                    if item.words[0] == "class":
                        self._class(item, device)
                        continue
                    if item.words[0] not in ("qdisc", "filter"):
                        continue  # counters, and other lines below a class
                value = item.value if item.value is not None else _qdisc_of(item.words)
                if "class" in value:
                    self._class(item, device)
                elif "kind" not in value:
                    nft_json.add(value, self.rules, item.place, item.text)
                    self.translations.shown(value, item.place)
                elif "protocol" in value or "pref" in value:
                    self._filter(item, value, device, where)
                else:
                    new = item.value is None or item.output != shown
                    shown = item.output
                    self._qdisc(item, value, device, new=new)
            except (ValueError, OverflowError) as error:
                self.ledger.about(item.place, item.text)
                self.ledger.ignored(item.place, str(error)[:160] or "it is malformed")

    def _qdisc(self, item: Item, value: Object, device: str, *, new: bool) -> None:
        if value.get("kind") == "noqueue":
            return
        self.ledger.about(item.place, item.text)
        name = _named(value) or device
        if not name:
            # Without a name, each output and each root is of another interface.
            if not self._nameless or (self._rooted and (new or value.get("root"))):
                self._nameless, self._rooted = self._nameless + 1, False
            self._rooted = self._rooted or bool(value.get("root"))
            name = f"{_NO_NAME}{self._nameless if self._nameless > 1 else ''}"
        words = qdisc_words(value)
        kind = str(value["kind"])
        number = str(value.get("handle", ""))
        if kind == "mq" and number == "0:":
            words[1:1] = ["handle", f"{_MULTIQUEUE}:"]
        elif words[:1] == ["parent"] and words[1].startswith(":"):
            words[1] = _MULTIQUEUE + words[1]
        if kind == "red":
            unknown = ["average packet", "burst"]
            if "probability" not in value.inner("options"):
                unknown.append("probability (which `tc -d` prints)")
            said = " and ".join(", ".join(unknown).rsplit(", ", 1))
            note = f"{said} are the defaults of tc, as the output does not have them"
            self.ledger.approximated(item.place, note)
        self._qdiscs.append(_Shown(item.place, name, words, kind, number))

    def _class(self, item: Item, device: str) -> None:
        self.ledger.about(item.place, item.text)
        kind, number, above, settings = class_of(item.value or Object([]), item.words)
        if kind in OWN_CLASSES:
            name = _named(item.value or Object([])) or device
            words = class_words(kind, number, above, settings)
            self._classes.append(_Shown(item.place, name, words, kind, number))

    def _filter(self, item: Item, value: Object, device: str, where: list[str]) -> None:
        self.ledger.about(item.place, item.text)
        words = filter_words(value)
        if not words:
            return
        hook = next((each for each in ("root", "ingress", "egress") if value.get(each)), "")
        parent = value.get("parent")
        above = [hook] if hook else ["parent", str(parent)] if parent else where
        options = value.inner("options")
        number = str(parent or options.get("flowid") or options.get("classid") or "")
        shown = _Shown(item.place, _named(value) or device, [*above, *words], "filter", number)
        self._filters.append(shown)

    def apply(self) -> None:
        """Add what the outputs show to the interfaces."""
        by_number: dict[str, dict[str, None]] = {}
        for each in self._qdiscs:
            number = each.number.partition(":")[0]
            by_number.setdefault(number, {})[each.device] = None
            self._run("qdisc", each, each.device)
        names = list(dict.fromkeys(each.device for each in self._qdiscs))
        for object_, shown in (("class", self._classes), ("filter", self._filters)):
            for each in shown:
                number = each.number.lstrip("*").partition(":")[0]
                found = [each.device] if each.device else list(by_number.get(number, ()))
                if not found and not each.device:
                    found = names
                if len(found) == 1:
                    if each.words[0] == "" and number not in by_number:
                        # Filters of received packets lead to no class.
                        each.words[0] = "ingress"
                    self._run(object_, each, found[0])
                else:
                    reason = "several interfaces" if found else "no interface"
                    self.ledger.ignored(
                        each.place,
                        f"the output does not name its interface, and {reason} can have it: put "
                        "the command with its `dev` before the output",
                    )

    def _run(self, object_: str, shown: _Shown, device: str) -> None:
        """Run a command that makes an object, unless an earlier output has it, too."""
        words = (object_, "add", "dev", device, *filter(None, shown.words))
        shown.words = []
        if words in self._done:
            return
        if self._outputs > 1:
            self._done.add(words)
        self.tc.run(words, shown.place, shown=True)


def _named(value: Object) -> str:
    name = value.get("dev")
    return name[:64] if isinstance(name, str) else ""


def _asked(words: list[str]) -> tuple[str, list[str]]:
    """Return the interface and the parent that a command asks for."""
    device = words[words.index("dev") + 1] if "dev" in words[:-1] else ""
    if "parent" in words[:-1]:
        return device, ["parent", words[words.index("parent") + 1]]
    return device, [next((each for each in ("ingress", "egress", "root") if each in words), "")]


def _qdisc_of(words: tuple[str, ...]) -> Object:
    """Return a qdisc from a line of text: ``qdisc pfifo 8001: dev eth0 root refcnt 2 limit 9p``."""
    if words[0] == "filter" or len(words) < 4:
        raise ValueError("filters are read from JSON: print them by `tc -j filter show`")
    pairs: list[tuple[str, object]] = [("kind", words[1]), ("handle", words[2])]
    rest = list(words[3:])
    while rest and rest[0] in ("dev", "root", "parent", "refcnt", "ingress", "clsact"):
        word = rest.pop(0)
        known = word not in ("root", "ingress", "clsact")
        pairs.append((word, rest.pop(0) if known and rest else True))
    settings = [re.sub(r"(?<=[0-9])p$", "", word) for word in rest]
    return Object([*pairs, ("options", " ".join(settings))])
