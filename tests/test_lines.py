"""Lines of Rust, whose formatter leaves comments, strings and macros as long as they are."""

from pathlib import Path

CRATES = Path(__file__).parent.parent / "crates"
COLUMNS = 100


def test_no_line_of_rust_is_longer_than_the_others() -> None:
    long = [
        f"{path.relative_to(CRATES)}:{number}"
        for path in sorted(CRATES.rglob("*.rs"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > COLUMNS
    ]
    assert long == [], f"longer than {COLUMNS} columns"
