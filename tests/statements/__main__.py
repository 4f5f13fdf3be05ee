"""`python -m statements` in the folder `tests`: how many statements of each family are checked."""

from __future__ import annotations

from importlib import import_module

FAMILIES = ("altq", "ios", "junos", "linux", "vyos")


def main() -> None:
    """Print a line for each family."""
    print(f"{'family':8}{'checked':>10}{'told':>8}")
    for name in FAMILIES:
        table = import_module(f"statements.{name}")
        print(f"{name:8}{len(table.STATEMENTS):>10}{len(table.APPROXIMATED):>8}")


if __name__ == "__main__":
    main()
