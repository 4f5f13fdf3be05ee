"""`make mutants`: the faults that it makes, and its list of those that change nothing."""

from pathlib import Path

import pytest

from mutants import python, rust, trial
from mutants.__main__ import interval
from mutants.areas import AREAS, Area
from mutants.mutation import Mutation
from mutants.reasons import EQUIVALENTS, SURVIVORS, UNKNOWN, keep_survivors, reasons
from mutants.trial import ROOT, Outcome, Trials

RUST = """//! Text with 1 < 2.
#[cfg(test)]
mod lab;

const DROPS: u32 = 16;
fn f(a: &[u32], b: u32) -> bool {
    self.start = end.max(self.now);
    assert!(b < 3);
    a.is_empty() && b <= 4 // or 5 > 6
}

#[cfg(test)]
mod tests {
    const DROPS: u32 = 8;
}
"""


def test_faults_in_rust() -> None:
    faults = [fault.key[1:] for fault in rust.mutations("a.rs", RUST)]
    assert sorted(set(faults)) == [
        ("a.is_empty() && b <= 4 // or 5 > 6", "a.is_empty() && b < 4 // or 5 > 6"),
        ("a.is_empty() && b <= 4 // or 5 > 6", "a.is_empty() && b <= 2 // or 5 > 6"),
        ("a.is_empty() && b <= 4 // or 5 > 6", "a.is_empty() && b <= 5 // or 5 > 6"),
        ("a.is_empty() && b <= 4 // or 5 > 6", "a.is_empty() || b <= 4 // or 5 > 6"),
        ("const DROPS: u32 = 16;", "const DROPS: u32 = 17;"),
        ("const DROPS: u32 = 16;", "const DROPS: u32 = 8;"),
        ("self.start = end.max(self.now);", ""),
        ("self.start = end.max(self.now);", "self.start = end.min(self.now);"),
        ("self.start = end.max(self.now);", "self.start = end;"),
    ]


PYTHON = '''"""A text."""
if TYPE_CHECKING:
    from a import B
def f(é: int = 2) -> "B":
    """Return 1."""
    assert é < 3
    c.state = é
    return None if "é" in d or not é >= 0.5 else max(é)
'''


def test_faults_in_python() -> None:
    faults = [fault.key[1:] for fault in python.mutations("a.py", PYTHON)]
    line = 'return None if "é" in d or not é >= 0.5 else max(é)'
    assert sorted(fault[1] for fault in faults if fault[0] == line) == [
        'return None if "é" in d and not é >= 0.5 else max(é)',
        'return None if "é" in d or not é > 0.5 else max(é)',
        'return None if "é" in d or not é >= 0.25 else max(é)',
        'return None if "é" in d or not é >= 0.5 else min(é)',
        'return None if "é" in d or not é >= 1.0 else max(é)',
        'return None if "é" in d or é >= 0.5 else max(é)',
        'return None if "é" not in d or not é >= 0.5 else max(é)',
        "return None if False else max(é)",
        "return None if True else max(é)",
    ]
    assert sorted(fault[1] for fault in faults if fault[0] != line) == [
        'def f(é: int = 1) -> "B":',
        'def f(é: int = 3) -> "B":',
        "pass",
    ]


def test_the_interval_is_that_of_a_textbook() -> None:
    # Wilson's interval of 9 of 10: 0.596 to 0.982.
    assert interval(9, 10) == pytest.approx((0.5958, 0.9821), abs=1e-4)


@pytest.mark.parametrize("name", AREAS)
def test_every_area_has_its_code_and_tests(name: str) -> None:
    area = AREAS[name]
    assert next(area.mutations(ROOT))
    tests = {test for mutation in area.mutations(ROOT) for test in area.tests_of(mutation.path)}
    if area.crate is not None:
        folder = ROOT / area.folder / "../tests"
        targets = {path.stem for path in folder.iterdir()}
        assert tests <= targets
    else:
        assert [test for test in tests if not Path(ROOT, test).exists()] == []


@pytest.mark.parametrize("path", [EQUIVALENTS, SURVIVORS], ids=lambda path: path.stem)
def test_every_fault_with_a_reason_is_one_that_the_tool_makes(path: Path) -> None:
    keys = {fault.key for area in AREAS.values() for fault in area.mutations(ROOT)}
    assert [key for key in reasons(path) if key not in keys] == []


def test_survivors_are_kept_until_a_test_sees_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "survivors.txt"
    path.write_text(
        "# Head.\n# Two lines.\n\na.py\n- 1\n+ 2\nWhy.\n\nb.py\n- 1\n+ 2\nOf two\nlines.\n"
    )
    monkeypatch.setattr("mutants.reasons.SURVIVORS", path)
    keep_survivors({("b.py", "1", "2"), ("c.py", "3", "")}, {("a.py", "1", "2")})
    assert reasons(path) == {("b.py", "1", "2"): "Of two lines.", ("c.py", "3", ""): UNKNOWN}
    assert path.read_text().startswith("# Head.\n# Two lines.\n\nb.py\n")


def test_a_fault_is_compiled_in_the_tree_of_its_area(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "pub fn one() -> u32 {\n    1\n}\n"
    files = {
        "Cargo.toml": '[workspace]\nmembers = ["crates/*"]\nresolver = "3"\n',
        "crates/user/Cargo.toml": '[dependencies]\nsmall = {path = "../small"}\n',
    }
    for crate in ("small", "user"):
        manifest = f"crates/{crate}/Cargo.toml"
        package = f'[package]\nname = "{crate}"\nedition = "2024"\n'
        files[manifest] = package + files.get(manifest, "")
        files[f"crates/{crate}/src/lib.rs"] = source
        test = f"#[test]\nfn one() {{ assert_eq!({crate}::one(), 1) }}\n"
        files[f"crates/{crate}/tests/outside.rs"] = test
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, value in {
        "ROOT": tmp_path / "root",
        "TREES": tmp_path / "root/target/mutants/trees",
        "COPIED": ("crates",),
        "FILES": ("Cargo.toml",),
    }.items():
        monkeypatch.setattr(trial, name, value)
    at = source.index("1\n")
    for crate in ("small", "user", "small"):
        area = Area(f"crates/{crate}/src", crate, {"": ("outside",)})
        fault = Mutation(f"crates/{crate}/src/lib.rs", at, at + 1, "2", source)
        assert Trials(area, trial.TREES / crate).of(fault) is Outcome.KILLED
