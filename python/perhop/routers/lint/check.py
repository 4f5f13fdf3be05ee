"""All rules, and their application to configurations."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

from perhop.errors import UsageError
from perhop.hints import did_you_mean
from perhop.routers.lint import (
    classes,
    directions,
    guarantees,
    lines,
    marks,
    policers,
    priority,
    queues,
)
from perhop.routers.lint.findings import RANKS, Finding, Rule, Settings
from perhop.routers.lint.invalid import INVALID_VALUE
from perhop.routers.lint.packets import Budget
from perhop.routers.lint.tcp import Simulations
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perhop.routers.lint.policies import AttachedPolicy
    from perhop.routers.reading import Source

RULES: Final = {
    rule.name: rule
    for rule in (
        *classes.RULES,
        *guarantees.RULES,
        *priority.RULES,
        *policers.RULES,
        *queues.RULES,
        *marks.RULES,
        *directions.RULES,
        *lines.RULES,
        INVALID_VALUE,
    )
}
"""All rules by name."""

_IGNORE: Final = re.compile(r"perhop-lint: *ignore((?:[ ,]+[a-z][a-z-]*)+)")
"""A comment that switches rules off: ``perhop-lint: ignore RULE, RULE``."""


def rule(name: str) -> Rule:
    """Return a rule.

    Raises:
        UsageError: There is no such rule.
    """
    if name not in RULES:
        hint = did_you_mean(name, RULES) or f"expected one of {', '.join(RULES)}"
        raise UsageError(f"{quote(name)} is not a rule; {hint}")
    return RULES[name]


def ignored(text: Source) -> frozenset[str]:
    """Return the rules that comments of a file switch off.

    Raises:
        UsageError: A comment names an unknown rule.
    """
    names: set[str] = set()
    for found in _IGNORE.finditer(text.text):
        for name in re.findall(r"[a-z-]+", found[1]):
            try:
                names.add(rule(name).name)
            except UsageError as error:
                line = text.text.count("\n", 0, found.start()) + 1
                raise UsageError(f"{text.file}:{line}: {error}") from None
    return frozenset(names)


def check(
    policies: Sequence[AttachedPolicy],
    settings: Settings,
    ignored_in: Iterable[tuple[str, frozenset[str]]] = (),
    others: Iterable[Finding] = (),
) -> list[Finding]:
    """Return the findings in the policies of one network, by file and line.

    A policy at several interfaces is judged at each of them; what is the same there is told once.

    Args:
        policies: The policies of all files.
        settings: Facts that configurations do not tell.
        ignored_in: Files, with the rules that their comments switch off.
        others: Findings about lines that are in no policy.
    """
    off = dict(ignored_in)
    found: dict[tuple[object, ...], Finding] = {}
    for finding in chain(others, _all(policies, settings)):
        name = finding.rule.name
        if name in settings.ignored or name in off.get(finding.place.file, ()):
            continue
        found.setdefault((name, finding.place, _key(finding)), finding)
    return sorted(
        found.values(),
        key=lambda finding: (finding.place, -RANKS[finding.rule.severity], finding.rule.name),
    )


def _key(finding: Finding) -> str:
    """Return what distinguishes findings of one rule in one line.

    It is the text without numbers, the policy, which may be in another one, and other classes that
    have the same. A policer that several classes share is one.
    """
    text = re.sub(r" of policy `[^`]*`|; the same for .*", "", finding.message)
    if finding.rule in policers.RULES:
        text = re.sub(r" of class `[^`]*`", "", text)
    return re.sub(r"[0-9][0-9.,]*", "0", text)


def _all(policies: Sequence[AttachedPolicy], settings: Settings) -> Iterator[Finding]:
    simulations, budget = Simulations(), Budget()
    for policy in policies:
        yield from policy.invalid
        yield from classes.findings(policy, budget)
        yield from guarantees.findings(policy)
        yield from priority.findings(policy)
        yield from policers.findings(policy, settings, simulations)
        yield from queues.findings(policy, settings)
    yield from marks.findings(policies, settings)
    yield from directions.findings(policies)
