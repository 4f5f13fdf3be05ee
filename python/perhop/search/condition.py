"""Conditions on a metric, in the words of `expect`: ``rtt_p99(voice) > 30 ms``."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perhop import gallery
from perhop.errors import ScenarioError, UsageError
from perhop.hints import did_you_mean
from perhop.scenario.model.metrics import METRICS, metric_hint
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.analysis import EnsembleVerdict
    from perhop.scenario import Scenario

__all__ = ["Condition", "parse_condition"]

_FORM: Final = re.compile(r" *(\w+) *\((.*)\) *(<=|>=|<|>)(.*)", re.DOTALL)
_EXAMPLE: Final = "`rtt_p99(voice) > 30 ms`"
_BOUNDS: Final = {
    ">=": ("at_least", True),
    "<": ("at_least", False),
    "<=": ("at_most", True),
    ">": ("at_most", False),
}
"""The key of an expectation for each comparison, and whether the condition holds with it."""

_KEYS: Final = ("of", "class", "cause", "entry", "during")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a metric of a run.

    Attributes:
        text: The condition as it was given.
        expectation: An entry of `expect` with the same bound, as JSON.
        same: True if the condition holds where the expectation does, false if where it fails.
    """

    text: str
    expectation: str
    same: bool

    def load(self, source: str | Mapping[str, Any], overrides: Sequence[str]) -> Scenario:
        """Return a scenario that expects only this.

        Raises:
            ScenarioError: The scenario is wrong as changed.
            UsageError: The condition is wrong in this scenario.
        """
        setting = f"expect={self.expectation}"
        try:
            return gallery.load(source, overrides=[*overrides, setting])
        except ScenarioError as error:
            own = [each for each in error.found if each.file.startswith("--set expect=")]
            if len(own) < len(error.found):
                raise ScenarioError(each for each in error.found if each not in own) from None
            said = "; ".join(filter(None, (own[0].message, own[0].hint)))
            raise UsageError(f"{quote(self.text, 80)}: {said}") from None

    def holds(self, verdict: EnsembleVerdict) -> bool | None:
        """Return whether the condition holds by the verdict on its expectation; None: undecided.

        It is undecided if no run measured anything.
        """
        if verdict.missing == verdict.runs or verdict.state not in ("holds", "fails"):
            return None
        return (verdict.state == "holds") == self.same


def parse_condition(text: str) -> Condition:
    """Return the condition ``METRIC(TARGET, KEY: VALUE, …) > BOUND``, or with <, >= or <=.

    Metrics, targets, keys and bounds are those of `expect`.

    Raises:
        UsageError: The text has another form, or names no metric.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{quote(text, 80)} is not a condition; expected METRIC(TARGET) > VALUE, or with <, >= "
            f"or <=, such as {_EXAMPLE}"
        )
    metric, inside, comparison, bound = match.groups()
    if metric not in METRICS:
        said = f"{quote(text, 80)}: {quote(metric)} is not a metric"
        raise UsageError(f"{said}; {metric_hint(metric)}")
    targets: list[str] = []
    wanted: dict[str, object] = {}
    for part in map(str.strip, inside.split(",")):
        key, colon, value = part.partition(":")
        if not colon:
            targets.append(part)
        elif key.strip() in _KEYS:
            wanted[key.strip()] = value.strip()
        else:
            hint = did_you_mean(key, _KEYS) or f"expected one of {', '.join(_KEYS)}"
            raise UsageError(f"{quote(text, 80)}: {quote(key)} is unknown; {hint}")
    if not all(targets) or not targets or not bound.strip():
        missing = "bound" if all(targets) and targets else "target"
        raise UsageError(f"{quote(text, 80)} lacks a {missing}; expected one, as in {_EXAMPLE}")
    key, same = _BOUNDS[comparison]
    wanted |= {metric: targets[0] if len(targets) == 1 else targets, key: _number(bound.strip())}
    return Condition(text.strip(), json.dumps([wanted]), same)


def _number(text: str) -> int | float | str:
    """Return a bound as YAML has it: a number, or text with a unit."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
