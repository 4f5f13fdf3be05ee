"""Places that cannot be written: a clear message, and earlier results untouched."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import PERHOP, SLOW, Outcome, Start, ended, tree
from perhop.dataset import Dataset
from perhop.engines import ENGINES, check
from perhop.errors import OutputError, UnsupportedError
from perhop.scenario import load
from test_cli import SMALL
from tools import need, unable

pytestmark = SLOW

Perhop = Callable[..., Outcome]

ROOT = os.geteuid() == 0


@pytest.fixture(autouse=True)
def small(place: Path) -> None:
    (place / "small.yaml").write_text(SMALL)


def test_a_limit_on_file_sizes(start: Start, perhop: Perhop, place: Path) -> None:
    assert perhop("run", "small.yaml", "--out", "run").code == 0
    before = tree(place)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
    # Bytecode must not be cached: the limit would cut it, too.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    for folder in ("run", "new"):
        process = start("run", "small.yaml", "--out", folder, prelude=limit, env=environment)
        message = f"perhop: cannot write {place / folder}: File too large; give another folder\n"
        assert ended(process) == (2, "", message)
        assert tree(place) == before


def mounting() -> None:
    """Skip the test where no file system can be mounted that no other process sees."""
    need("unshare", "mount")
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    outcome = subprocess.run(command, capture_output=True, text=True)
    if outcome.returncode:
        unable(f"mounting a file system: {outcome.stderr}")


def interfaces() -> str:
    command = ["ip", "-o", "link"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("engine", [each for each in ENGINES if each != "live"])
def test_a_full_disk(engine: str, perhop: Perhop, place: Path) -> None:
    mounting()
    try:
        check(load(place / "small.yaml"), engine)
    except UnsupportedError as error:
        unable(error)
    if engine != "sim":
        need("ip")
    before = "" if engine == "sim" else interfaces()
    # As large as a run and a half, in pages.
    assert perhop("run", "small.yaml", "--engine", engine, "--out", "kept").code in (0, 1)
    pages = [-(-len(content or b"") // 4096) for content in tree(place / "kept").values()]
    script = """
        mkdir disk && mount -t tmpfs -o size="$1" none disk &&
        cp -r kept disk/run || exit 99
        "$0" run small.yaml --engine "$2" --out disk/run --seed 2
        echo $? > code
        diff -r disk/run kept && ls -A disk
    """
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, PERHOP, f"{6 * sum(pages)}k", engine],
        cwd=place,
        capture_output=True,
        text=True,
    )
    assert done.stderr == (
        f"perhop: cannot write {place}/disk/run: No space left on device; give another folder\n"
    )
    assert (place / "code").read_text() == "2\n"
    assert (done.returncode, done.stdout) == (0, "run\n")
    assert before == ("" if engine == "sim" else interfaces())


def test_a_read_only_folder(place: Path) -> None:
    (place / "shelf").mkdir(mode=0o555)
    # Root may write everywhere unless it lacks the capability to.
    bounds = ["setpriv", "--inh-caps=-dac_override", "--bounding-set=-dac_override"]
    if ROOT:
        need("setpriv")
    for folder in ("shelf/run", "shelf/deep/run"):
        command = [*(bounds if ROOT else []), PERHOP, "run", "small.yaml", "--out", folder]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"perhop: cannot write {place}/{folder}: Permission denied; give another folder\n"
        )
    assert tree(place) == {"shelf": None, "small.yaml": SMALL.encode()}


def test_finding_out_leaves_nothing_behind(place: Path) -> None:
    (place / "there").mkdir()
    before = tree(place)
    for folder in ("there", "there/run", "not/yet/there"):
        Dataset.check_writable(place / folder)
        assert tree(place) == before
    for folder in ("small.yaml", "small.yaml/run", "new/" + 300 * "x", "new/" + 250 * "x"):
        with pytest.raises(OutputError, match="give another folder"):
            Dataset.check_writable(place / folder)
        assert tree(place) == before


def test_a_folder_that_fills_up_during_the_run(perhop: Perhop, place: Path) -> None:
    """Files put into an empty folder while perhop runs are not replaced."""
    (place / "run").mkdir()
    done = perhop("run", "small.yaml", "--out", "run", "--set", "expect.0.about=1 kbps")
    assert done.code == 1
    (place / "run" / "notes.txt").write_text("mine")
    before = tree(place)
    code, _, err = perhop("run", "small.yaml", "--out", "run")
    assert code == 2
    assert "run also holds notes.txt, which is not perhop's; give another folder" in err
    assert tree(place) == before
