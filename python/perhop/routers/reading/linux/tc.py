"""Commands of tc: what they add to, change in and remove from the interfaces of a host."""

from __future__ import annotations

import re
from sys import intern
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Fault, HostCommand
from perhop.routers.reading.linux import refusals, units
from perhop.routers.reading.linux.cake import ETHERNET
from perhop.routers.reading.linux.cake import FLAGS as CAKE_FLAGS
from perhop.routers.reading.linux.changes import change_class, change_qdisc, latest
from perhop.routers.reading.linux.filters import Words, actions, filter_of
from perhop.routers.reading.linux.handles import ROOT_TABLE, Handles, has_handle
from perhop.routers.reading.linux.model import (
    CLSACT_EGRESS,
    CLSACT_INGRESS,
    INGRESS,
    ROOT,
    Action,
    Class,
    Device,
    Filter,
    Host,
    Options,
    Qdisc,
)
from perhop.scenario.model.cake import MOST_OVERHEAD
from perhop.scenario.model.script import MOST_COMMANDS
from perhop.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.linux.ledger import Ledger

__all__ = ["OBJECTS", "VERBS", "Tc"]

OBJECTS: Final = {
    **dict.fromkeys(("qdisc", "qd", "q"), "qdisc"),
    **dict.fromkeys(("class", "cl"), "class"),
    **dict.fromkeys(("filter", "filt", "f"), "filter"),
    **dict.fromkeys(("actions", "action"), "actions"),
}
"""The objects of tc and their abbreviations."""

VERBS: Final = {
    **dict.fromkeys(("add", "a", "create"), "add"),
    **dict.fromkeys(("change", "chg", "ch"), "change"),
    **dict.fromkeys(("replace", "repl"), "replace"),
    **dict.fromkeys(("del", "delete", "d"), "del"),
    "link": "change",
}
"""The commands of tc that change something, and their abbreviations."""

_AUTOMATIC: Final = 0xC000
_FLAGS: Final = frozenset(
    (
        *("ecn", "noecn", "bounded", "isolated", "adaptive", "harddrop", "nodrop"),
        *("grio", "bytemode", "nobytemode", "pacing", "nopacing", "dq_rate_estimator"),
        *("adaptative", "headdrop", "horizon_cap", "horizon_drop", "no_dq_rate_estimator"),
    )
)
"""Words of disciplines without a value."""

_FLAGS_OF: Final = frozenset({("htb", "offload")})
_LISTS: Final = frozenset({"priomap", "quanta", "map", "queues"})
_OF_CLASSES: Final = {"dev": "dev", "parent": "parent", "classid": "classid", "handle": "classid"}
_OF_FILTERS: Final = {
    **{name: name for name in ("dev", "block", "parent", "handle", "chain", "protocol")},
    **dict.fromkeys(("prio", "pref", "priority", "preference"), "prio"),
    "proto": "protocol",
}
_HOOKS: Final = {"root": 0, "ingress": CLSACT_INGRESS, "egress": CLSACT_EGRESS}
_ALONE: Final = _HOOKS.keys()
"""Settings without a value."""

_RATES: Final = frozenset({"rate", "ceil", "peakrate"})
_SPEED: Final = 10**9
"""The speed of a card that the script does not tell, in bit/s."""

_NO_ENTRY: Final = "RTNETLINK answers: No such file or directory"
_INVALID: Final = "RTNETLINK answers: Invalid argument"
_OF_QDISC: Final = (
    "Error: Failed to find specified qdisc.",
    "Error: Specified class not found.",
)
_OF_FILTER: Final = (
    "Error: Parent Qdisc doesn't exists.",
    "Error: Specified class doesn't exist.",
)
_FIXED: Final = frozenset({"htb", "sfq"})
"""The disciplines whose settings stay (`change` of `Qdisc_ops` is null)."""

_NO_CHANGE: Final = "Error: Change operation not supported by specified qdisc."
_SLOPES: Final = frozenset({"sc", "rt", "ls", "ul"})
_MOST_OBJECTS: Final = 2**17
_MOST_FILTERS: Final = 2**16


class Tc:
    """The state of the interfaces of a host, as the commands so far make it."""

    def __init__(self, ledger: Ledger, speeds: Mapping[str, int]) -> None:
        self.host = Host(speeds)
        self.ledger = ledger
        self._count = self._filters = 0
        self._shown = False
        self.refused: dict[str, tuple[Place, str]] = {}
        """The first line of each interface that tc refuses, with its reason."""
        self.changes: list[tuple[Place, Place]] = []
        """Lines that change a qdisc or class, and those that add it."""
        self.commands: list[HostCommand] = []
        """The commands that the host would run, but those that would fail or do nothing."""
        self.unread = False
        """True after a command that is not read, which may add what a later one needs."""
        self._vain = False
        self._branched = False
        """True after a command that depends on a condition, so that its effect is not sure."""
        self._firsts: dict[tuple[str, int, int], tuple[str, str]] = {}
        """The protocol and classifier of filters, by interface, parent and priority."""
        self._numbers: dict[tuple[str, int], int] = {}

    def run(
        self,
        words: Sequence[str],
        place: Place,
        *,
        branch: bool = False,
        space: str = "",
        shown: bool = False,
    ) -> None:
        """Apply a command: its words without ``tc`` and its options.

        Args:
            words: Object, verb, and the rest.
            place: Its line.
            branch: True if it depends on a condition.
            space: Prefix of the names of interfaces, such as that of a network namespace.
            shown: True for what tc printed, which the kernel has accepted.
        """
        self._shown = shown
        self._branched = self._branched or branch
        kind, verb = OBJECTS[words[0]], VERBS[words[1]]
        self._count += 1
        if self._count > _MOST_OBJECTS:
            self.ledger.ignored(place, f"perhop reads {_MOST_OBJECTS:,} commands of tc at most")
            return
        self._vain = False
        self._run(words, kind, verb, place, branch=branch, space=space)
        if not (shown or self._vain):
            name = space + words[words.index("dev") + 1] if "dev" in words[:-1] else ""
            self.given(HostCommand(place, name, ("tc", kind, verb, *words[2:])))

    def given(self, command: HostCommand) -> None:
        """Keep a command that the host would run; one more than a scenario can have."""
        if len(self.commands) <= MOST_COMMANDS:
            self.commands.append(command)

    def _run(
        self,
        words: Sequence[str],
        kind: str,
        verb: str,
        place: Place,
        *,
        branch: bool,
        space: str,
    ) -> None:
        try:
            rest = Words(words[2:])
            if kind == "qdisc":
                self._qdisc(verb, rest, place, branch, space)
            elif kind == "class":
                self._class(verb, rest, place, branch, space)
            elif kind == "filter":
                self._filter(verb, rest, place, branch, space)
            else:
                self._action(verb, rest, place)
        except refusals.RefusedError as error:
            absent = self.unread and isinstance(error, refusals.AbsentError)
            present = isinstance(error, refusals.PresentError) and (self.unread or self._branched)
            if self._shown or absent or present:
                self.ledger.ignored(place, _because(str(error)))
                return
            self.ledger.ignored(place, f"tc refuses it: {error}", Fault.REFUSED)
            if "dev" in words[:-1]:
                name = space + words[words.index("dev") + 1]
                self.refused.setdefault(name, (place, str(error)))
        except (ValueError, OverflowError) as error:
            self.unread = True
            self.ledger.ignored(place, _because(str(error)))

    def _qdisc(self, verb: str, words: Words, place: Place, branch: bool, space: str) -> None:
        name, parent, handle, kind = "", ROOT, 0, ""
        named, framing = False, None
        while words and not kind:
            word = words.take()
            if word == "dev":
                name = space + words.take()
            elif word == "root":
                parent, named = ROOT, True
            elif word in ("ingress", "clsact"):
                parent, named = INGRESS, True
                handle = 0xFFFF
                kind = word
            elif word == "parent":
                text = words.take()
                named = True
                parent = _identity(units.classid, text, "parent ID")
                if parent >> 16 == 0xFFFF and parent & 0xFFFF in (0, 0xFFF1):
                    parent = INGRESS
            elif word == "handle":
                handle = _identity(units.handle, words.take(), "qdisc ID")
            elif word in ("ingress_block", "egress_block"):
                words.take()
                self.ledger.approximated(place, "filters of a shared block are not modelled")
            elif word == "stab":
                framing = self._stab(words, place)
            elif word == "estimator":
                words.take()
                words.take()
            else:
                kind = word
        if not name:
            raise ValueError("it names no interface")
        device = self.host.device(name)
        if framing is not None:
            device.framing = framing
        if verb == "del":
            if not named and handle:
                found = device.numbered(handle)
                parent = found.parent if found else ROOT
            self._remove(branch, place, parent in device.qdiscs, lambda: device.remove(parent))
            return
        said = words.all()
        options, lists = self._options(words, place, kind)
        if not self._shown:
            refusals.qdisc(kind, options.values, lists, said)
            if parent < INGRESS and verb in ("add", "replace"):
                _standing(device, parent, *_OF_QDISC)
        self._of_speed(options, device)
        if handle == 0xFFFF and kind in ("ingress", "clsact"):
            parent = INGRESS
        before = device.qdiscs.get(parent) or (None if named else device.numbered(handle))
        if before is not None and verb == "add":
            self._vain = True
            self.ledger.ignored(
                place, f"{name} has a qdisc here already, by {before.place}: `add` fails"
            )
            return
        if before is not None and before.kind == kind and handle in (0, before.handle):
            if not self._shown and kind in _FIXED:
                raise refusals.PresentError(_NO_CHANGE)
            self.changes.append((place, before.place))
            change_qdisc(before, options, lists, place)
            if framing is None and device.framing is not None and before.parent == ROOT:
                # `qdisc_change` takes the size table away that a change does not name.
                device.framing = f"{ETHERNET} B"
            return
        if verb == "change":
            self._vain = True
            self.ledger.ignored(place, "there is nothing to change yet")
            return
        named_again = before is not None and handle == before.handle and parent != INGRESS
        if named_again and not self._shown:
            raise refusals.PresentError("Error: Invalid qdisc name: must match existing qdisc.")
        if before is not None:
            device.remove(parent)
        if handle == 0:
            handle = device.new_handle()
        qdisc = Qdisc(intern(kind), handle, parent, options, place)
        if lists:
            qdisc.lists = lists
        device.put(qdisc)

    def _stab(self, words: Words, place: Place) -> str:
        """Return what a size table makes Linux count beside an IP packet, as a scenario writes it.

        It adds to the frame, which has an Ethernet header (Linux, `__qdisc_calculate_pkt_len`);
        cells pad that.
        """
        given = {"overhead": "0", "mpu": "0", "linklayer": "ethernet"}
        while words.next in ("overhead", "linklayer", "mtu", "mpu", "tsize"):
            key = words.take()
            given[key] = words.take()
        overhead, mpu = ETHERNET + int(given["overhead"]), int(given["mpu"])
        if not (0 <= overhead <= MOST_OVERHEAD and 0 <= mpu <= MOST_OVERHEAD):
            note = f"a packet counts 0 to {MOST_OVERHEAD} B more, and so much at least"
            self.ledger.approximated(place, note)
        overhead, mpu = (min(max(each, 0), MOST_OVERHEAD) for each in (overhead, mpu))
        atm = " atm" if given["linklayer"] in ("atm", "adsl") else ""
        least = f" mpu {mpu} B" if mpu else ""
        return f"{overhead} B{atm}{least}" if overhead or atm or least else ""

    def _options(
        self, words: Words, place: Place, kind: str
    ) -> tuple[Options, dict[str, tuple[str, ...]]]:
        values: dict[str, str] = {}
        lists: dict[str, tuple[str, ...]] = {}
        while words:
            word = words.take()
            if word in _LISTS:
                some = []
                known = r"[0-9@]+" if word == "queues" else r"[0-9]{1,9}"
                while words and re.fullmatch(known, words.next):
                    some.append(words.take())
                lists[word] = tuple(some)
            elif kind == "hfsc" and word in _SLOPES:
                some = [word]
                while words and words.next not in _SLOPES:
                    some.append(words.take())
                lists[word] = tuple(some[1:])
            elif kind == "netem" and word in (
                "delay",
                "latency",
                "loss",
                "reorder",
                "corrupt",
                "duplicate",
            ):
                some = []
                while words and re.match(r"[0-9.]|random|state|gemodel", words.next):
                    some.append(words.take())
                lists[word] = tuple(some)
            elif kind == "cake" and word in CAKE_FLAGS:
                values[intern(word)] = ""
                lists[word] = (*lists.get(word, ()), word)
            elif not words or word in _FLAGS or (kind, word) in _FLAGS_OF:
                values[intern(word)] = ""
            else:
                values[intern(word)] = intern(words.take())
        return Options(place, latest(kind, {}, values), self.ledger), lists

    def _of_speed(self, options: Options, device: Device) -> None:
        """Replace rates in per cent, which are those of the card's speed (`get_percent_rate`)."""
        for key, text in options.values.items():
            if key not in _RATES or "%" not in text:
                continue
            share = units.percent(text)
            if device.speed is None:
                name = device.name[:30]
                note = (
                    f"per cent of {format_rate(_SPEED)}, as the script does not tell the speed of "
                    f"{name}: `ethtool -s {name} speed 1000` does"
                )
                self.ledger.approximated(options.place, note)
            options.values[key] = f"{int((device.speed or _SPEED) * share)}bit"

    def _device(self, given: Mapping[str, str], space: str) -> Device:
        """Return the interface that a command names."""
        if "dev" not in given:
            raise ValueError("it names no interface")
        return self.host.device(space + given["dev"])

    def _remove(self, branch: bool, place: Place, exists: bool, remove: object) -> None:
        self._vain = branch or not exists
        if branch and exists:
            self.ledger.ignored(place, "it is in a branch, which may not be taken")
        elif exists:
            assert callable(remove)
            remove()

    def _class(self, verb: str, words: Words, place: Place, branch: bool, space: str) -> None:
        given, kind = _before_kind(words, _OF_CLASSES)
        device = self._device(given, space)
        name = device.name
        above = "0:0" if "root" in given else given.get("parent", "0:0")
        parent = _identity(units.classid, above, "parent ID")
        said = given.get("classid", "0:0")
        classid = _identity(lambda text: units.classid(text, parent >> 16), said, "class ID")
        if verb == "del":
            gone = device.classes.get(classid)
            if gone is not None and not branch and not self._shown:
                self._used(device, gone)
            self._remove(branch, place, gone is not None, lambda: device.classes.pop(classid))
            return
        if not classid:
            refusals.class_(kind, {}, (), numbered=False)
            raise ValueError("it has no `classid`")
        qdisc = device.numbered(classid >> 16)
        if qdisc is None:
            reason = _INVALID if device.numbered(parent >> 16) else _NO_ENTRY
            raise refusals.AbsentError(f"{reason}: {name} has no qdisc {classid >> 16:x}:")
        if qdisc.kind == "hfsc" and parent & 0xFFFF and parent not in device.classes:
            raise refusals.AbsentError(f"{_NO_ENTRY}: {name} has no class {given['parent']}")
        rest = words.all()
        options, lists = self._options(words, place, kind)
        for key, some in lists.items():
            options.values[key] = " ".join(some)
        if not self._shown:
            refusals.class_(kind, options.values, rest, numbered=True)
            if kind == "ets" and "quantum" in options.values:
                strict = qdisc.options.number("strict") or 0
                if classid & 0xFFFF <= strict:
                    raise refusals.RefusedError("RTNETLINK answers: a strict band has no quantum")
        self._of_speed(options, device)
        before = device.classes.get(classid)
        if before is not None:
            if verb == "add":
                self._vain = True
                raise ValueError(f"{name} has this class already, by {before.place}: `add` fails")
            self.changes.append((place, before.place))
            change_class(kind, before.options, options, place)
            return
        if verb == "change" and qdisc.kind not in ("prio", "ets"):
            self._vain = True
            raise ValueError("there is nothing to change yet")
        early = bool(parent & 0xFFFF) and parent not in device.classes
        if qdisc.kind == "htb" and early and not self._shown:
            # `htb_change_class` takes the root for a parent that it does not know (yet).
            note = f"there is no class {above} before it: HTB makes it a class without a parent"
            self.ledger.fault(place, note, Fault.UNDEFINED)
            parent = 0
        device.classes[classid] = Class(
            intern(kind), classid, parent or classid & 0xFFFF0000, options, place
        )

    def _used(self, device: Device, gone: Class) -> None:
        """Refuse to delete a class with classes below it, or with a filter that leads to it."""
        above = device.numbered(gone.classid >> 16)
        if above is None or above.kind not in ("htb", "hfsc", "drr"):
            return
        below = any(each.parent == gone.classid for each in device.classes.values())
        led = any(
            each.target == gone.classid and each.parent >> 16 == above.handle
            for each in device.filters
        )
        if below or led:
            busy = "RTNETLINK answers: Device or resource busy"
            reason = "Error: HTB class in use." if above.kind == "htb" else busy
            raise refusals.PresentError(reason)

    def _action(self, verb: str, words: Words, place: Place) -> None:
        """Add a policer with an index, to which filters refer."""
        if words.next == "action":
            words.take()
        kinds = actions(words)
        if verb == "del" or not all(each.kind == "police" for each in kinds):
            self.ledger.ignored(place, "only policers are modelled among actions of their own")
        for each in kinds:
            if not self._shown:
                refusals.action(each)
            self._register(each)

    def _register(self, action: Action) -> None:
        """Keep a policer that has an index."""
        index = action.values.get("index")
        if action.kind == "police" and index is not None and "rate" in action.values:
            self.host.actions[index] = action

    def _filter(self, verb: str, words: Words, place: Place, branch: bool, space: str) -> None:
        given, kind = _before_kind(words, _OF_FILTERS)
        if "block" in given:
            raise ValueError("filters of a shared block are not modelled")
        device = self._device(given, space)
        name = device.name
        if not self._shown and verb != "del":
            refusals.filter_(kind, given, words.all())
        if units.number(given.get("chain", "0")):
            raise ValueError("only chain 0 of filters is modelled")
        parent = _identity(units.classid, given.get("parent", "0:0"), "parent ID")
        for hook, hooked in _HOOKS.items():
            parent = hooked if hook in given else parent
        prio = units.number(given.get("prio", "0"))
        protocol, handle = given.get("protocol", "all").lower(), given.get("handle", "")
        root = device.qdiscs.get(ROOT)
        if parent == 0 and root is not None:
            parent = root.handle << 16
        if parent in (0xFFFF0000, 0xFFFFFFF1, 0xFFFFFFF2):
            parent = CLSACT_INGRESS
        if parent == 0xFFFFFFF3:
            parent = CLSACT_EGRESS
        if verb == "del":
            gone = [
                each
                for each in device.filters
                if each.parent == parent
                and (prio in (0, each.prio) or (kind == "u32" and handle))
                and kind in ("", each.kind)
                and (not handle or has_handle(each, kind, handle))
            ]
            if gone and not prio and (kind or "protocol" in given or handle):
                said = "Error: Cannot flush filters with protocol, handle or kind set."
                self.ledger.fault(place, f"it removes nothing: {said}", Fault.WITHOUT_EFFECT)
                gone = []
            self._remove(branch, place, bool(gone), lambda: self._drop(device, parent, gone))
            return
        if not self._shown and parent & 0xFFFF and parent < INGRESS:
            _standing(device, parent, *_OF_FILTER)
            above = device.numbered(parent >> 16)
            if above is not None and above.kind in ("drr", "ets"):
                said = f"Error: {above.kind.upper()} classid must be zero."
                raise refusals.RefusedError(said)
        hooked = parent in (CLSACT_INGRESS, CLSACT_EGRESS)
        if (device.qdiscs.get(INGRESS) if hooked else device.numbered(parent >> 16)) is None:
            raise refusals.AbsentError(_OF_FILTER[0])
        if prio == 0:
            # The kernel gives a filter without a priority one before those of the others.
            key = (name, parent)
            prio = self._numbers[key] = self._numbers.get(key, _AUTOMATIC + 1) - 1
            self.ledger.default(
                place, "pref", str(prio), "Linux, tcf_auto_prio: before filters added earlier"
            )
        first = self._firsts.get((name, parent, prio), (protocol, kind))
        if first != (protocol, kind) and not self._shown:
            for other in device.filters:
                if (other.parent, other.prio) == (parent, prio):
                    refusals.beside(other, protocol, kind)
        self._firsts[name, parent, prio] = (protocol, kind)
        self._filters += 1
        if self._filters > _MOST_FILTERS:
            raise ValueError(f"perhop reads {_MOST_FILTERS:,} filters at most")
        protocol, kind, handle = intern(protocol), intern(kind), intern(handle)
        base = Filter(parent, prio, kind, protocol, handle, None, None, (), place)
        made = filter_of(kind, words, base, self.ledger, place)
        if 0 < made.table < ROOT_TABLE and not self._shown:
            tables = {each.made for each in device.filters if each.parent == parent}
            if made.table not in tables:
                raise refusals.RefusedError("Error: cls_u32: Specified hash table not found.")
        for each in made.actions:
            if not self._shown:
                refusals.action(each)
        handles = device.handles.setdefault(parent, Handles())
        known = handles.number(made, shown=self._shown)
        if not self._shown:
            twice = known if verb == "add" or kind == "matchall" else False
            if twice or (handles.same(made) and not known):
                self._vain = True
                self.ledger.ignored(place, f"{name} has this filter already: `{verb}` fails")
                return
            if verb == "change" and not known:
                self._vain = True
                self.ledger.ignored(place, "there is nothing to change yet")
                return
        for each in made.actions:
            self._register(each)
        if known:
            self._replace(device, made)
            return
        note = handles.add(made, shown=self._shown)
        if note:
            self.ledger.approximated(place, note)
        device.filters.append(made)

    def _drop(self, device: Device, parent: int, gone: Sequence[Filter]) -> None:
        """Remove filters below a parent."""
        without = {id(each) for each in gone}
        device.filters = [each for each in device.filters if id(each) not in without]
        kept = [each for each in device.filters if each.parent == parent]
        if parent in device.handles:
            device.handles[parent] = device.handles[parent].without(kept)

    def _replace(self, device: Device, made: Filter) -> None:
        """Put a filter in the place of the one with its handle, whose comparisons u32 keeps."""
        for at, old in enumerate(device.filters):
            same = (old.parent, old.kind, old.table, old.bucket, old.node) == (
                *(made.parent, made.kind, made.table, made.bucket, made.node),
            )
            if not same or old.made or (made.kind != "u32" and old.prio != made.prio):
                continue
            if made.kind == "u32":
                if made.tests != old.tests:
                    note = "u32 keeps the comparisons of a filter that it replaces"
                    self.ledger.fault(made.place, note, Fault.WITHOUT_EFFECT)
                made.tests, made.link = old.tests, made.link or old.link
                made.hashed, made.prio = old.hashed, old.prio
            made.order = old.order
            device.filters[at] = made
            kept = [each for each in device.filters if each.parent == made.parent]
            moved = made.masks != old.masks
            others = [each for each in kept if each is not made or not moved]
            handles = device.handles[made.parent] = device.handles[made.parent].without(others)
            if moved:
                handles.add(made, shown=True)
            return


def _standing(device: Device, parent: int, no_qdisc: str, no_class: str) -> None:
    """Refuse a qdisc or a filter below a qdisc or class that the interface does not have."""
    above = device.numbered(parent >> 16)
    if above is None:
        raise refusals.AbsentError(no_qdisc)
    root = above.kind == "hfsc" and not parent & 0xFFFF
    if above.kind in ("htb", "hfsc", "drr") and parent not in device.classes and not root:
        raise refusals.AbsentError(no_class)


def _before_kind(words: Words, names: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Return the settings before the kind of a class or filter, and the kind.

    Args:
        words: The words of the command.
        names: The settings with their abbreviations.
    """
    given: dict[str, str] = {}
    while words:
        word = words.take()
        if word == "estimator":
            words.take(), words.take()
        elif word in _ALONE:
            given[word] = ""
        elif word in names:
            name, value = names[word], words.take()
            if name in given:
                said = {"prio": "priority"}.get(name, name)
                raise refusals.RefusedError(f'Error: duplicate "{said}": "{value[:40]}"')
            given[name] = value
        else:
            return given, word
    return given, ""


def _identity(reader: Callable[[str], int], text: str, what: str) -> int:
    """Return the number of a qdisc or class, which tc refuses if it is none."""
    try:
        return reader(text)
    except ValueError:
        raise refusals.RefusedError(f'argument "{text[:40]}" is wrong: invalid {what}') from None


def _because(text: str) -> str:
    """Return the reason of an error, without the details of Python's."""
    if match := re.match(r"'(.*?)' does not appear to be an IPv4 or IPv6", text):
        return f"`{match[1][:40]}` is not an address or prefix"
    if match := re.match(r"invalid literal for int\(\) with base \d+: '(.*)'", text):
        return f"`{match[1][:40]}` is not a number"
    return re.sub(r"\s+", " ", text)[:160] or "it is malformed"
