"""Findings as text, SARIF, commands of GitHub's runners, and JSON; the reference of rules."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from perhop.printable import printable
from perhop.routers.lint.check import RULES
from perhop.routers.lint.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.lint.findings import Finding

_COMMANDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def as_text(findings: Sequence[Finding]) -> str:
    """Return findings as ``FILE:LINE: severity: message [rule]`` and remedies, and counts."""
    lines: list[str] = []
    for finding in findings:
        rule = finding.rule
        lines.append(
            f"{printable(str(finding.place))}: {rule.severity}: {printable(finding.message)} "
            f"[{rule.name}]"
        )
        lines.append(f"    fix: {printable(finding.fix)}")
    counts = Counter(finding.rule.severity for finding in findings)
    told = [
        f"{counts[severity]} {severity}{'s' if counts[severity] > 1 else ''}"
        for severity in Severity
        if counts[severity]
    ]
    lines.append(", ".join(told) or "no findings")
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> str:
    """Return findings as a JSON object with a list `findings` and the counts by severity."""
    counts = Counter(finding.rule.severity for finding in findings)
    return json.dumps(
        {
            "findings": [
                {
                    "rule": finding.rule.name,
                    "severity": finding.rule.severity,
                    "file": finding.place.file,
                    "line": finding.place.line,
                    "message": finding.message,
                    "fix": finding.fix,
                }
                for finding in findings
            ],
            "counts": {severity: counts[severity] for severity in Severity},
        },
        indent=2,
    )


def as_github(findings: Sequence[Finding]) -> str:
    """Return findings as workflow commands, which GitHub shows as annotations of lines.

    Source: GitHub Docs, Workflow commands for GitHub Actions; actions/toolkit, `command.ts`, for
    the escapes.
    """
    lines = []
    for finding in findings:
        place, rule = finding.place, finding.rule
        properties = {"file": place.file, "line": str(max(place.line, 1)), "title": rule.name}
        written = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
        message = _data(f"{printable(finding.message)}\nfix: {printable(finding.fix)}")
        lines.append(f"::{_COMMANDS[rule.severity]} {written}::{message}")
    return "\n".join(lines)


def as_sarif(findings: Sequence[Finding], version: str) -> str:
    """Return findings as a log in the Static Analysis Results Interchange Format, 2.1.0.

    Args:
        findings: The findings.
        version: The version of perhop.
    """
    names = sorted(RULES)
    rules = [_sarif_rule(name) for name in names]
    results = []
    for finding in findings:
        region = {"region": {"startLine": finding.place.line}} if finding.place.line else {}
        results.append(
            {
                "ruleId": finding.rule.name,
                "ruleIndex": names.index(finding.rule.name),
                "level": str(finding.rule.severity),
                "message": {"text": f"{finding.message}. Fix: {finding.fix}."},
                "locations": [
                    {
                        "physicalLocation": {
                            "artifactLocation": {"uri": _uri(finding.place.file)},
                            **region,
                        }
                    }
                ],
            }
        )
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "perhop lint", "version": version, "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }
    return json.dumps(log, indent=2)


def reference() -> str:
    """Return the reference of all rules in Markdown."""
    parts = []
    for rule in RULES.values():
        parts.append(
            f"### {rule.name}\n\n{rule.what} ({rule.severity})\n\n"
            f"* **Why:** {rule.why}\n* **Fix:** {rule.fix}\n"
            + (f"* **Source:** {rule.source}\n" if rule.source else "")
        )
    return "\n".join(parts)


def _sarif_rule(name: str) -> dict[str, Any]:
    rule = RULES[name]
    source = f"\n\nSource: {rule.source}" if rule.source else ""
    return {
        "id": name,
        "shortDescription": {"text": rule.what},
        "fullDescription": {"text": rule.why},
        "help": {
            "text": f"{rule.why}\n\nFix: {rule.fix}{source}",
            "markdown": f"{rule.why}\n\n**Fix:** {rule.fix}{source}",
        },
        "defaultConfiguration": {"level": str(rule.severity)},
    }


def _uri(file: str) -> str:
    """Return a path as the URI of an artifact: relative as it was given, or of the scheme file."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(f"./{path.as_posix()}")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
