"""`python -m validation [NAME…] [--write]`: measure tables and print them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from validation.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path(__file__).parent / "RESULTS.md"

HEADING = """\
# How right

Made by `make validate`. What is expected is theory's, computed by code of its own; nothing is tuned
to it. A row is ok where measured and expected differ by no more than the tolerance, or, after ≤,
where measured is not above. Runs are seeded: the same version prints the same figures.
"""


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """The tables of a file, by title."""
    for part in text.split("\n## ")[1:]:
        yield part.partition("\n")[0], f"## {part.rstrip()}\n"


def main() -> int:
    """Print the tables that are asked for; exit with 1 if a row is not ok."""
    parser = argparse.ArgumentParser(prog="validation", description=__doc__)
    names = [table.name for table in TABLES]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--write", action="store_true", help="keep them in RESULTS.md")
    options = parser.parse_args()
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: unknown; expected {', '.join(names)}")
    wrong = 0
    kept = dict(_sections(RESULTS.read_text("utf-8"))) if RESULTS.exists() else {}
    for table in TABLES:
        if options.names and table.name not in options.names:
            continue
        rows = list(table.rows())
        wrong += sum(not row.ok for row in rows)
        kept[table.title] = table.markdown(rows)
        print(kept[table.title], flush=True)
    if options.write:
        tables = [kept[table.title] for table in TABLES if table.title in kept]
        RESULTS.write_text("\n".join([HEADING, *tables]), encoding="utf-8")
    print(f"rows outside their tolerance: {wrong}", file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
