"""Findings in files: configurations of any family, and scenarios."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perhop import gallery
from perhop.errors import UsageError
from perhop.files import read_file
from perhop.routers.lint import lines
from perhop.routers.lint.check import check, ignored
from perhop.routers.lint.exactness import inexact_places
from perhop.routers.lint.findings import RTTS, Finding, Settings
from perhop.routers.lint.marks import matches_interface
from perhop.routers.lint.policies import AttachedPolicy, attached_policies
from perhop.routers.lint.scenarios import read_scenario, round_trip_times
from perhop.routers.reading import MAX_SIZE, Source, source
from perhop.routers.reading.detect import detect, read
from perhop.units import WHOLE, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading import Configuration

_SCENARIO: Final = re.compile(r"^[ {]*[\"']?perhop[\"']? *:", re.M)
_IOS_RELEASE: Final = re.compile(r"^version (\d+)\.(\d+)", re.M)
_IOS_RESERVED: Final = re.compile(r"^ +max-reserved-bandwidth (\d{1,3})\s*$", re.M)
_TOGETHER: Final = frozenset({"linux"})
"""Families whose files belong to one configuration: scripts of tc and of nft."""


def lint(
    files: Sequence[str | os.PathLike[str] | Source],
    *,
    family: str | None = None,
    rtts: Sequence[int] = (),
    untrusted: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> list[Finding]:
    """Return the findings in configurations of routers and scenarios, by file and line.

    Configurations are judged together, as routers of one network; each scenario alone.

    Args:
        files: Paths, texts, or names of scenarios in the gallery.
        family: The family of all configurations; by default each is detected.
        rtts: Round-trip times in ps. By default those of a scenario's flows, and `RTTS` for
            configurations.
        untrusted: Interfaces whose senders may set any DSCP; ``*`` stands for any text.
        ignore: Names of rules.

    Raises:
        UsageError: A file cannot be read, its family is unknown, or it has no policy; an interface
            or rule is unknown.
        ScenarioError: A scenario is not valid.
    """
    texts = [each if isinstance(each, Source) else _source(os.fspath(each)) for each in files]
    off = [(text.file, ignored(text)) for text in texts]
    settings = Settings(tuple(sorted(rtts)) or RTTS, tuple(untrusted), frozenset(ignore))
    found: list[Finding] = []
    policies: list[AttachedPolicy] = []
    others: list[Finding] = []
    for text in filter(_is_scenario, texts):
        scenario, configuration = read_scenario(text)
        judged = attached_policies(configuration, addresses=scenario.all_addresses)
        times = tuple(sorted(rtts)) or round_trip_times(scenario) or RTTS
        found += check(list(judged), replace(settings, rtts=times), off)
    configured = [text for text in texts if not _is_scenario(text)]
    for configuration, parts in _configurations(configured, family):
        inexact = inexact_places(configuration, parts)
        limit = _limit(configuration, parts)
        policies += attached_policies(
            configuration, platform_limit=limit, inexact=inexact, texts=parts
        )
        others += lines.findings(configuration, inexact)
        others += lines.unread(configuration)
        others += lines.implicit(configuration)
    _known_interfaces(untrusted, policies, texts)
    return sorted(found + check(policies, settings, off, others), key=lambda finding: finding.place)


def _source(path: str) -> Source:
    if path in gallery.names() and not os.path.lexists(path):
        return Source(f"{path}.yaml", gallery.text(path))
    try:
        return source(read_file(path, MAX_SIZE), path)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def _is_scenario(text: Source) -> bool:
    return _SCENARIO.search(text.text) is not None


def _configurations(
    texts: Sequence[Source], family: str | None
) -> list[tuple[Configuration, list[Source]]]:
    """Read configurations, each from the files that belong to it."""
    groups: dict[tuple[str, str], list[Source]] = {}
    for text in texts:
        own = family or detect([text])
        groups.setdefault((own, "" if own in _TOGETHER else text.file), []).append(text)
    return [(read(parts, own), parts) for (own, _), parts in groups.items()]


def _limit(configuration: Configuration, texts: Sequence[Source]) -> int | None:
    """Return the share of an interface that can be guaranteed on a router; None for the whole.

    Classic IOS, up to 12.4, has a limit of 75%. Some releases of the 12.4T train have none, which
    their configurations do not tell.
    """
    if configuration.family not in ("ios", "ios-xe"):
        return None
    release = next((found for t in texts if (found := _IOS_RELEASE.search(t.text))), None)
    if release is None or (int(release[1]), int(release[2])) > (12, 4):
        return None
    reserved = [int(found[1]) for t in texts for found in _IOS_RESERVED.finditer(t.text)]
    return min(max([75, *reserved]), 100) * WHOLE // 100


def _known_interfaces(
    untrusted: Sequence[str], policies: Sequence[AttachedPolicy], texts: Sequence[Source]
) -> None:
    """Refuse untrusted interfaces that no file names."""
    for pattern in untrusted:
        if any(matches_interface(each.attachment.interface, pattern) for each in policies):
            continue
        if not any(pattern.lower() in text.text.lower() for text in texts):
            raise UsageError(f"--untrusted {quote(pattern)}: no file names such an interface")
