"""The outcomes of a document's values: the score of a reproduction."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from perhop.experiments import ensemble

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.analysis import Comparison

Outcome = Literal["reproduced", "undecided", "not explained", "assumed", "not stated"]

OUTCOMES: Final[tuple[Outcome, ...]] = (
    "reproduced",
    "undecided",
    "not explained",
    "assumed",
    "not stated",
)
"""Outcomes for a value of a document: the model says it; the model cannot say; the model says
something else; the scenario puts it in; the document does not state it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A value of a document, compared with perhop's results.

    Attributes:
        case: The case that it is a value of; "" if it is across cases.
        compared: The published value beside that of a single run.
        spread: Result of an ensemble; None if there was none.
    """

    case: str
    compared: Comparison
    spread: ensemble.Spread | None = None

    @property
    def verdict(self) -> ensemble.Verdict | None:
        """The published value against the interval; without an ensemble, against a single run.

        None if the document has no number.
        """
        if self.spread is not None:
            return ensemble.judge(self.compared, self.spread.interval)
        agrees = self.compared.agrees
        return None if agrees is None else "within" if agrees else "outside"

    @property
    def outcome(self) -> Outcome:
        """The outcome of the value."""
        if self.compared.basis == "assumed":
            return "assumed"
        if self.compared.basis == "unstated" or self.compared.published is None:
            return "not stated"
        outcomes: dict[str | None, Outcome] = {"within": "reproduced", "outside": "not explained"}
        return outcomes.get(self.verdict, "undecided")


def score(judged: Sequence[Judged]) -> dict[str, int]:
    """Return how many numbers of the documents have each outcome.

    Values of one number count once: as the least favourable of them.
    """
    numbers: dict[object, set[Outcome]] = {}
    for place, each in enumerate(judged):
        numbers.setdefault(each.compared.number or place, set()).add(each.outcome)
    worst = ("not explained", "undecided", "reproduced", "assumed", "not stated")
    found = Counter(next(each for each in worst if each in came) for came in numbers.values())
    return {outcome: found[outcome] for outcome in OUTCOMES}
