"""Limiters of VyOS: policers of what an interface receives."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.writing.draft import Draft
    from perhop.routers.writing.plan import Division, End, Part

__all__ = ["limiter"]


def limiter(
    end: End,
    division: Division,
    matches: Sequence[Sequence[str]],
    draft: Draft,
) -> Iterator[str]:
    """Yield the settings of a limiter, whose classes are compared in their order.

    Args:
        end: The receiving end.
        division: Its policy.
        matches: The lines of the matches of each class but the last one.
        draft: The gaps.
    """
    reason = "VyOS polices what an interface receives, behind the queue of the link"
    draft.near(division.place, reason, f"a limiter at {end.node}")
    for index, part in enumerate(division.parts):
        last = part is division.parts[-1]
        head = "default" if last else f"class {index + 1}"
        if not last:
            yield f"{head} description {part.name}"
            yield from (f"{head} {line}" for line in matches[index])
            names = {line.split()[1] for line in matches[index]}
            if len(names) > 1:
                # vyos.qos.base gives the policer to the last filter of a class only.
                reason = "a limiter of VyOS polices the last match of a class only"
                draft.gap(f"{part.place}.match", reason)
        if part.class_.police is not None:
            yield from (f"{head} {line}" for line in _policer(part, draft))
        elif not last:
            draft.gap(
                part.place, "each class of a limiter of VyOS has a bandwidth; expected a policer"
            )


def _policer(part: Part, draft: Draft) -> Iterator[str]:
    police, place = part.class_.police, f"{part.place}.police"
    assert police is not None
    if police.three_colours or police.colour_aware:
        draft.gap(place, "limiters of VyOS have one rate and two colours")
    yield f"bandwidth {police.rate.of(part.capacity)}bit"
    yield f"burst {police.burst}"
    for key, name, action in (
        ("not-exceed", "conform", police.conform),
        ("exceed", "exceed", police.effective_exceed),
    ):
        if action.remark is not None:
            draft.gap(f"{place}.{name}", "limiters of VyOS send or drop packets, and mark none")
        yield f"{key} {'drop' if action.drops else 'ok'}"
