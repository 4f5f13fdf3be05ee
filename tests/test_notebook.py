"""The notebooks of the documentation, executed: they show what they say they show."""

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import SLOW

pytestmark = SLOW

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs").glob("*.ipynb"))

EXECUTE = """
import sys
import nbformat
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient

def said(notebook):
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/svg+xml" in data:
                yield "a picture"
            yield output.get("text", data.get("text/plain", "").split(" object")[0])

shown = nbformat.read(sys.argv[1], as_version=4)
before = list(said(shown))
# Through a socket of the file system: no port, which others could use as well.
kernel = AsyncKernelManager(kernel_name="python3", transport="ipc")
NotebookClient(shown, km=kernel, timeout=300).execute()
after = list(said(shown))
assert before == after, (before, after)
assert "a picture" in after
"""


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_shows_what_it_gives(notebook: Path, tmp_path: Path) -> None:
    """In a process of its own, as kernels leave warnings behind."""
    command = [sys.executable, "-W", "ignore", "-c", EXECUTE, str(notebook)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr


def test_there_is_one() -> None:
    assert NOTEBOOKS
