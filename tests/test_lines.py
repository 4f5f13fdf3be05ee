"""Lines of code: their length in Rust, and functions whose digits depend on the platform."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
CRATES = ROOT / "crates"
PYTHON = ROOT / "python/perhop"
COLUMNS = 100


def test_no_line_of_rust_is_longer_than_the_others() -> None:
    long = [
        f"{path.relative_to(CRATES)}:{number}"
        for path in sorted(CRATES.rglob("*.rs"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > COLUMNS
    ]
    assert long == [], f"longer than {COLUMNS} columns"


def test_simulations_have_the_same_digits_on_every_platform() -> None:
    # Versions of the C library differ in the last digit of these; `elementary.rs` has its own.
    inexact = re.compile(
        r"\.(?:cbrt|exp(?:2|_m1)?|hypot|ln(?:_1p)?|log(?:2|10)?|mul_add|pow[fi]|a?tan[h2]?|a?sinh?|a?cosh?)\("
    )
    found = []
    for crate in ("app", "core", "net", "plan", "queue", "quic", "sim", "tcp", "workload"):
        for path in sorted((CRATES / f"perhop-{crate}" / "src").rglob("*.rs")):
            code = path.read_text("utf-8").split("#[cfg(test)]")[0]
            if path.stem != "tests" and "tests" not in path.parts:
                found += [f"{path.relative_to(CRATES)}: {each}" for each in inexact.findall(code)]
    # Plans, too: of `math` only what is exact.
    inexact = re.compile(r"^from math import (?!inf$).*|\bmath\.(?!inf\b|is|lcm\b|gcd\b)\w+", re.M)
    for part in ("scenario", "engines"):
        for path in sorted((PYTHON / part).rglob("*.py")):
            code = path.read_text("utf-8")
            found += [f"{path.relative_to(PYTHON)}: {each}" for each in inexact.findall(code)]
    assert found == []
