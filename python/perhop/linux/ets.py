"""ETS, Linux's strict bands and deficit round robin: a policy in tc's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.linux.gaps import Gap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario import Policy

__all__ = ["HANDLE", "bands", "gaps", "words"]

HANDLE: Final = 2
"""The number of the discipline, of which bands are classes."""

_MOST_BANDS: Final = 16
_CEILINGS: Final = ("limit", "shape")


def bands(policy: Policy) -> dict[str, int]:
    """Return the band of each class, from 1: strict ones first, then the others, in their order."""
    ordered = sorted(policy.classes, key=lambda name: not policy.strict(policy.classes[name]))
    return {name: number for number, name in enumerate(ordered, 1)}


def words(policy: Policy) -> str:
    """Return the discipline with its settings. Packets without a class go to the last band."""
    quanta = [class_.quantum for class_ in policy.classes.values() if class_.quantum is not None]
    strict = len(policy.classes) - len(quanta)
    given = f" strict {strict}" if strict else ""
    return f"ets bands {len(policy.classes)}{given} quanta {' '.join(map(str, quanta))}"


def gaps(policy: Policy, place: str) -> Iterator[Gap]:
    """Return what ETS lacks of a policy with quanta, whose classes are at `place`."""
    if len(policy.classes) > _MOST_BANDS:
        yield Gap(place, f"its ETS has {_MOST_BANDS} bands at most")
    for name, class_ in policy.classes.items():
        at = f"{place}.{name}"
        for key in _CEILINGS:
            if getattr(class_, key) is not None:
                yield Gap(f"{at}.{key}", "its ETS has no ceilings")
        if not class_.borrow:
            yield Gap(f"{at}.borrow", "its ETS has no ceilings")
        for key in ("policy", "classes"):
            if getattr(class_, key) is not None:
                yield Gap(f"{at}.{key}", "perhop divides no bands of its ETS")
