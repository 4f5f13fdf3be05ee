"""The script that draws charts: made once, and kept for later processes where that is possible."""

from pathlib import Path

import pytest
import vl_convert

from perhop.report.script import drawing_script


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Snippets that were bundled; no process of this test has a script yet."""
    snippets: list[str] = []

    def bundle(snippet: str, _: str) -> str:
        snippets.append(snippet)
        return "draw('é');"

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    return snippets


def script() -> str:
    """The script as a new process gets it."""
    return drawing_script.__wrapped__()


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "not" / "there"))
    return tmp_path / "not" / "there" / "perhop"


def test_it_is_made_once(made: list[str], kept: Path) -> None:
    assert {script() for _ in range(3)} == {"(() => {draw('é');})();"}
    assert len(made) == len(list(kept.iterdir())) == 1


def test_a_damaged_one_is_made_again(made: list[str], kept: Path) -> None:
    whole = script()
    (file,) = kept.iterdir()
    content = file.read_bytes()
    damaged = (b"", b"\xff", b"alert(1)", b"alert(1)\n" + content, content[:-1], content + b" ")
    for wrong in damaged:
        file.write_bytes(wrong)
        assert script() == whole
        assert file.read_bytes() == content
    assert len(made) == 1 + len(damaged)


def test_another_version_has_another(
    made: list[str], kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script()
    monkeypatch.setattr("perhop.report.script.version", lambda _: "99")
    script()
    assert len(made) == len(list(kept.iterdir())) == 2


def test_it_is_made_where_nothing_can_be_kept(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    script()
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "file")
    script()

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    script()
    assert len(made) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
