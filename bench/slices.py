"""Measurements in several slices: results are kept as lines of JSON in a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


def measured(
    cases: Iterable[Any], measure: Callable[[Any], dict[str, Any]], file: Path | None
) -> list[dict[str, Any]]:
    """Measure each case, append the results to `file`, and return all results in it.

    Without a file, return the new results.
    """
    results = []
    for case in cases:
        results.append(measure(case))
        if file is not None:
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(results[-1]) + "\n")
    if file is not None:
        results = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return results
