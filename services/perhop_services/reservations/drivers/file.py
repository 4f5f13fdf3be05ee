"""A file instead of a router, for rehearsals."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from perhop_services.reservations.drivers.protocol import (
    DriverError,
    PolicerCounters,
    Rule,
    Setting,
)


class FileDriver:
    """A driver that keeps rules in a JSON file, which other programs may read, and count in."""

    needs_people = False

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def configuration(self, rule: Rule, old: Rule | None = None, *, remove: bool = False) -> str:
        """Return the rule's entry in the file."""
        del old
        return "" if remove else json.dumps({rule.name: asdict(self.expected(rule))}, indent=2)

    def expected(self, rule: Rule) -> Setting:
        """Return the exact setting of a rule."""
        return Setting(rule.rate, rule.burst, rule.packets)

    def set(self, rule: Rule) -> None:
        """Write a rule to the file; counters stay."""
        rules = self._read()
        counters = rules.get(rule.name, {}).get("counters") or asdict(PolicerCounters())
        rules[rule.name] = {**asdict(self.expected(rule)), "counters": counters}
        self._write(rules)

    def remove(self, name: str) -> None:
        """Remove a rule from the file."""
        rules = self._read()
        if rules.pop(name, None) is not None:
            self._write(rules)

    def installed(self) -> dict[str, Setting]:
        """Return the rules in the file."""
        return {
            name: Setting(rule["rate"], rule["burst"], rule["packets"])
            for name, rule in self._read().items()
        }

    def counters(self) -> dict[str, PolicerCounters]:
        """Return the counters in the file."""
        return {name: PolicerCounters(**rule["counters"]) for name, rule in self._read().items()}

    def clear(self, name: str) -> None:
        """Clear a rule's counters."""
        rules = self._read()
        if name not in rules:
            raise DriverError(f"{self._path} has no rule {name}")
        rules[name]["counters"] = asdict(PolicerCounters())
        self._write(rules)

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise DriverError(f"{self._path}: {error}") from None
        return found

    def _write(self, rules: dict[str, Any]) -> None:
        """Write the file, completely or not at all."""
        beside = self._path.with_name(f".{self._path.name}.new")
        try:
            with beside.open("w", encoding="utf-8") as file:
                json.dump(rules, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            raise DriverError(f"{self._path}: {error.strerror}") from None
