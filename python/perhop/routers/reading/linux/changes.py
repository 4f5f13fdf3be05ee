"""Settings that a change of a discipline or class keeps.

tc sends all settings of some kinds, so that those that a change leaves out get their defaults, and
only the given ones of other kinds. Sources: the parsers of iproute2 (tc/q_*.c), and `*_change` of
net/sched; measured with Linux 6.18 for HTB, TBF and FIFOs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.reading.linux.cake import ALTERNATIVES as CAKE
from perhop.routers.reading.linux.cake import framings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.linux.model import Options, Qdisc

__all__ = ["change_class", "change_qdisc", "latest"]

_WHOLE: Final = frozenset({"prio", "ets", "tbf", "red", "hfsc"})
"""The disciplines that a change gives all settings."""

_KEPT_OF_NETEM: Final = frozenset({"rate", "distribution", "ecn", "slot", "seed", "corrupt"})
"""The settings of netem beside its struct (`netem_change`); `reorder` needs `gap`, which is not."""

_ECN: Final = (frozenset({"ecn", "noecn"}),)
_ALTERNATIVES: Final[Mapping[str, Collection[frozenset[str]]]] = {
    **dict.fromkeys(("codel", "fq_codel", "pie", "fq_pie"), _ECN),
    "cake": CAKE,
}
"""Words of which the last one counts."""

_OF_CURVES: Final = {"sc": ("rt", "ls", "sc"), "rt": ("rt",), "ls": ("ls",), "ul": ("ul",)}


def latest(kind: str, before: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return settings with those given after them, the last ones last."""
    found = dict(before)
    for word, value in given.items():
        for group in _ALTERNATIVES.get(kind, ()):
            if word in group:
                found = {key: each for key, each in found.items() if key not in group}
        found.pop(word, None)
        found[word] = value
    return found


def change_qdisc(
    qdisc: Qdisc, options: Options, lists: Mapping[str, tuple[str, ...]], place: Place
) -> None:
    """Change the settings of a discipline."""
    kind, old = qdisc.kind, qdisc.options
    kept = dict(old.values)
    if kind in _WHOLE:
        kept = {}
        qdisc.lists = {}
    elif kind == "netem":
        kept = {key: value for key, value in kept.items() if key in _KEPT_OF_NETEM}
        qdisc.lists = {key: each for key, each in qdisc.lists.items() if key in _KEPT_OF_NETEM}
    elif kind == "cake":
        framing = framings(kept)
        if framing and framings(options.values):
            kept = {key: value for key, value in kept.items() if key not in framing}
            said = ", ".join(f"`{key}`" for key in framing)
            note = f"the change takes the place of all settings of framing before it ({said})"
            options.ledger.approximated(place, note)
    _change(old, latest(kind, kept, options.values), options, place)
    qdisc.lists = {**qdisc.lists, **lists}


def change_class(kind: str, old: Options, options: Options, place: Place) -> None:
    """Change the settings of a class."""
    kept = dict(old.values)
    if kind == "htb":
        kept = {}
    elif kind == "hfsc":
        if (
            "sc" in kept
            and "sc" not in options.values
            and not {"rt", "ls"}.isdisjoint(options.values)
        ):
            kept["rt"] = kept["ls"] = kept.pop("sc")
        gone = [other for key in options.values for other in _OF_CURVES.get(key, ())]
        kept = {key: value for key, value in kept.items() if key not in gone}
    elif kind not in ("drr", "ets"):
        note = f"perhop does not know which settings a change of {kind[:20]} keeps: it keeps all"
        options.ledger.approximated(place, note)
    _change(old, {**kept, **options.values}, options, place)


def _change(old: Options, values: dict[str, str], given: Options, place: Place) -> None:
    places = {**old.places, **dict.fromkeys(given.values, place)}
    old.values = values
    old.places = {key: each for key, each in places.items() if key in values}
