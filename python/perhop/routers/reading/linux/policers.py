"""Policers of filters and of nftables, as policers of classes or before them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import scenario_name
from perhop.routers.reading.linux.classify import matches
from perhop.routers.reading.linux.model import Options, Outcome
from perhop.routers.reading.matching import Rules
from perhop.units import format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Sequence

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.linux.classify import Packets
    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.linux.model import Action, Device, Filter

__all__ = ["DROPS", "Buckets", "policer"]

DROPS: Final[dict[str, Any]] = {"rate": "8 bps", "burst": "1 B", "conform": "drop"}
"""A policer that drops all packets."""

_FRAME: Final = 1514
_GONE: Final = frozenset({"drop", "shot", "stolen", "trap"})
"""Verdicts by which the qdisc never sees a packet."""

_SENDS: Final = frozenset({"ok", "pass", "pipe", "continue"})


@dataclass(slots=True)
class _Bucket:
    """A policer.

    `levels` has the packets of each place where packets got to it, and the packets that reach this
    place at all.
    """

    place: Place
    label: str
    police: dict[str, Any]
    levels: list[tuple[Sequence[Packets], Rules]] = field(default_factory=list)
    claimed: bool = False


class Buckets:
    """The policers of an interface: packets have their keys, and all with one key share a bucket.

    A policer becomes that of a class whose packets it measures all, and no others. The rest stand
    before the classes.
    """

    def __init__(self, device: Device, ledger: Ledger, overhead: str = "") -> None:
        """Begin without policers.

        Args:
            device: The interface.
            ledger: Where differences are noted.
            overhead: The bytes beside an IP packet that filters count, as a scenario writes them.
        """
        self.device = device
        self.ledger = ledger
        self.overhead = overhead
        self._known: dict[Hashable, int] = {}
        self._buckets: list[_Bucket] = []

    def __bool__(self) -> bool:
        return bool(self._buckets)

    @property
    def place(self) -> Place:
        """The line of the first policer."""
        return self._buckets[0].place

    def add(
        self, identity: Hashable, place: Place, label: str, police: dict[str, Any], overhead: str
    ) -> int:
        """Return the key of a policer, which is added if it is not known."""
        if identity not in self._known:
            counted = {"overhead": overhead} if overhead else {}
            self._known[identity] = len(self._buckets)
            self._buckets.append(_Bucket(place, label, police | counted))
        return self._known[identity]

    def of_actions(self, filter_: Filter, start: int = 0) -> Outcome:
        """Return what a filter's actions do, from that of number `start` on (`tcf_action_exec`)."""
        keys: list[int] = []
        edits: list[Action] = []
        for number, action in enumerate(filter_.actions[start:], start):
            if action.kind == "police":
                conform = self._police(filter_, number, keys)
                if conform == "continue":
                    return Outcome("next", tuple(keys), tuple(edits))
                if conform != "pipe":
                    break
                continue
            if action.kind == "skbedit":
                edits.append(action)
            if "random" in action.values and action.kind == "gact":
                note = "the verdict of `random` for a part of the packets is not modelled"
                self.ledger.ignored(filter_.place, note)
            elif action.kind not in ("gact", "skbedit"):
                note = f"the action {action.kind[:20]} is not modelled"
                self.ledger.approximated(filter_.place, note)
            if action.verdict == "continue":
                return Outcome("next", tuple(keys), tuple(edits))
            if action.verdict in _GONE and action.kind in ("gact", "skbedit"):
                return Outcome("drop", tuple(keys), tuple(edits))
            if action.verdict in ("reclassify", "goto", "jump"):
                note = f"the verdict {action.verdict} is not modelled"
                self.ledger.approximated(filter_.place, note)
            if action.verdict not in ("", "pipe"):
                break
        return Outcome("class", tuple(keys), tuple(edits))

    def _police(self, filter_: Filter, number: int, keys: list[int]) -> str:
        """Add the key of a policer, and return the verdict on what conforms."""
        action = filter_.actions[number]
        named = self._defined(action)
        exceed, _, conform = named.values.get("conform-exceed", named.verdict).partition("/")
        index = action.values.get("index")
        identity: Hashable = ("index", index) if index else (id(filter_), number)
        if identity not in self._known:
            police = policer(Options(filter_.place, named.values, self.ledger), named.verdict)
            if police is None:
                return "pipe"
            if exceed == "pipe" and conform != "pipe":
                self._exceed_alone(filter_, number, police)
            elif "exceed" in police and exceed != "pipe" and conform == "pipe":
                behind = filter_.actions[number + 1 :]
                if any(each.kind != "gact" or each.verdict in _GONE for each in behind):
                    note = "the actions behind the policer count for what exceeds, too"
                    self.ledger.approximated(filter_.place, note)
            self.add(identity, filter_.place, "police", police, self.overhead)
        keys.append(self._known[identity])
        return conform

    def _exceed_alone(self, filter_: Filter, number: int, police: dict[str, Any]) -> None:
        """Give what exceeds, which alone goes on, what the actions behind a policer do with it."""
        behind = self.of_actions(filter_, number + 1)
        if behind.then == "drop":
            police.pop("exceed")
        elif behind != Outcome():
            note = "what exceeds has the class, without the actions behind the policer"
            self.ledger.approximated(filter_.place, note)

    def _defined(self, action: Action) -> Action:
        """Return the policer that an index stands for."""
        if "rate" in action.values:
            return action
        return self.device.actions.get(action.values.get("index", ""), action)

    def reached(self, arriving: Sequence[Packets], now: Sequence[Packets], within: Rules) -> None:
        """Note the packets that get to policers, where these measure them first.

        Args:
            arriving: The packets before these policers.
            now: All packets after them, as a decision list.
            within: All packets that get here.
        """
        before = {key for packets in arriving for key in packets.policers}
        for key in sorted({key for packets in now for key in packets.policers} - before):
            self._buckets[key].levels.append((now, within))

    def claim(
        self, own: Sequence[Packets], level: Sequence[Packets], within: Rules
    ) -> dict[str, Any] | None:
        """Return the policer of a class if it measures all packets of this class, and no others.

        Args:
            own: The packets of the class.
            level: All packets of the discipline that the class belongs to.
            within: The packets that get to this discipline.
        """
        keys = dict.fromkeys(key for packets in own for key in packets.policers)
        left = [key for key in keys if not self._buckets[key].claimed]
        if len(left) != 1 or any(left[0] not in packets.policers for packets in own):
            return None
        bucket = self._buckets[left[0]]
        others = sum(left[0] in packets.policers for packets in level) > len(own)
        if others or [where for _, where in bucket.levels] != [within]:
            return None
        bucket.claimed = True
        return bucket.police

    def rest(self, taken: Collection[str]) -> Iterator[tuple[str, dict[str, Any], Place]]:
        """Yield the name, the settings and the line of each policer before the classes.

        Args:
            taken: The names of the classes.

        Raises:
            TooManyRulesError: If it takes too many rules to tell its packets.
        """
        names = [*taken]
        for key, bucket in enumerate(self._buckets):
            if bucket.claimed:
                continue
            those = Rules.never()
            for level, within in bucket.levels:
                found = [(packets.origin, key in packets.policers) for packets in level]
                those = those | (matches(found, [True, False])[True] & within)
            if those.is_never:
                continue
            name = scenario_name(bucket.label, names)
            names.append(name)
            yield name, {"match": those.written(), "police": bucket.police}, bucket.place


def policer(options: Options, verdict: str) -> dict[str, Any] | None:
    """Return a policer of tc's `police` action; None if it has no rate."""
    ledger = options.ledger
    rate, burst = options.rate("rate"), options.size("burst", "buffer", "maxburst")
    for key in options.values:
        if key not in (
            *("rate", "burst", "buffer", "maxburst", "mtu", "conform-exceed", "index"),
            *("peakrate", "minburst"),
        ):
            ledger.approximated(options.place, f"`{key[:30]}` of the policer is not modelled")
    if not rate or burst is None:
        ledger.ignored(options.place, "a policer without rate and burst is not modelled")
        return None
    exceed, _, conform = options.values.get("conform-exceed", verdict or "").partition("/")
    if not exceed:
        ledger.default(options.place, "conform-exceed", "reclassify", "tc-police(8): drops")
    if "mtu" not in options.values:
        ledger.default(options.place, "mtu", "2040 B", "iproute2, tc_calc_rtable: 2047, in cells")
    if (options.size("mtu") or _FRAME) < _FRAME:
        ledger.approximated(options.place, "frames longer than `mtu` exceed in Linux")
    found: dict[str, Any] = {"rate": format_rate(rate), "burst": format_size(burst)}
    if exceed in _SENDS:
        found["exceed"] = "send"
        if exceed == "continue":
            ledger.approximated(options.place, "what exceeds stays in the class")
    if conform in ("drop", "shot"):
        found["conform"] = "drop"
    peak = options.rate("peakrate")
    if peak:
        mtu = options.size("mtu") or 2047
        found |= {"peak_rate": format_rate(max(peak, rate)), "peak_burst": format_size(mtu)}
        found["exceed"] = found.get("exceed", "drop")
    return found
