"""The examples of the documentation work.

In each page the `perhop` commands of ``sh`` blocks run, in order and in one folder, beside the
page's whole scenarios as NAME.yaml and blocks after ``<!-- file: NAME -->`` as files of this name;
``python`` blocks are executed beside them; ``yaml`` blocks that begin a scenario are loaded. A
block after ``<!-- not run: REASON -->`` is left alone. What this machine cannot do (exit code 3)
ends a page's commands.
"""

import os
import re
import shlex
import subprocess
import warnings
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

import perhop
from conftest import PERHOP, REAL_HOSTS, SLOW
from perhop.cli import main
from perhop.errors import UnsupportedError
from tools import PACKAGES, need, unable

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])


class Block(NamedTuple):
    """A fenced block: the page, the line of its fence, its language and what it says."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def begins_a_scenario(self) -> bool:
        return self.language == "yaml" and self.text.startswith("perhop: 1\n")


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page that do not opt out."""
    text = page.read_text("utf-8")
    fences = re.finditer(r"^( *)```(\w+)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    found = []
    for fence in fences:
        before = text[: fence.start()].rstrip()
        if not re.search(r"<!-- not run: \S[^>]* -->$", before):
            line = text.count("\n", 0, fence.start()) + 1
            found.append(Block(page, line, fence[2], re.sub(f"(?m)^{fence[1]}", "", fence[3])))
    return found


def name(each: object) -> str:
    if isinstance(each, Block):
        return f"{each.page.name}:{each.line}"
    assert isinstance(each, Path)
    return str(each.relative_to(ROOT))


def commands(block: Block) -> list[str]:
    """The commands of a block that begin with `perhop`, continued lines joined."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line for line in lines if block.language == "sh" and line.startswith("perhop ")]


def save_files(page: Path, folder: Path) -> None:
    """Write the whole scenarios and the other files of a page into a folder."""
    text = page.read_text("utf-8")
    for file in re.finditer(
        r"^<!-- file: ([\w.-]+) -->\n+```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    ):
        (folder / file[1]).write_text(file[2], "utf-8")
    for block in blocks(page):
        if block.begins_a_scenario:
            scenario = perhop.parse(block.text)
            (folder / f"{scenario.name}.yaml").write_text(block.text, "utf-8")


ALL = [block for page in PAGES for block in blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_have_names_before_commands_use_them(page: Path) -> None:
    text = page.read_text("utf-8")
    for block in blocks(page):
        found = re.search(r"^name: (\S+)$", block.text, re.MULTILINE)
        if found and block.begins_a_scenario:
            file = f"{found[1]}.yaml"
            used = re.search(rf"^perhop .*\b{re.escape(file)}", text, re.MULTILINE)
            assert not used or f"`{file}`" in text[: used.start()], f"{name(block)}: {file}"


@SLOW
@REAL_HOSTS
@pytest.mark.parametrize("page", [p for p in PAGES if any(map(commands, blocks(p)))], ids=name)
def test_commands_run(page: Path, lab_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{PERHOP.parent}{os.pathsep}{os.environ.get('PATH', '')}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(lab_folder))
    monkeypatch.chdir(lab_folder)
    save_files(page, lab_folder)
    words = {word for block in blocks(page) for line in commands(block) for word in line.split()}
    need(*sorted(words & PACKAGES.keys()))
    for block in blocks(page):
        for command in commands(block):
            code, said = executed(command)
            if code == UnsupportedError.exit_code:
                unable(said)
            assert code == 0, f"{name(block)}: {command}: {said}"


HERE = {"check", "compare", "counters", "diff", "export", "import", "lint", "run", "tc", "test"}
"""Commands that start no process which stays; a process for each takes as long as most runs."""


def executed(command: str) -> tuple[int, str]:
    """The exit code and the output of a command: in this process, if it needs no shell or host."""
    words = shlex.split(command)
    if re.search(r"[|<>&$`;*]", command) or words[1] not in HERE or "--engine" in words:
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr
    said = StringIO()
    with (
        redirect_stdout(said),
        redirect_stderr(said),
        warnings.catch_warnings(),
        pytest.raises(SystemExit) as ended,
    ):
        warnings.simplefilter("default")
        main(words[1:])
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.getvalue()


@SLOW
@pytest.mark.parametrize("block", [b for b in ALL if b.language == "python"], ids=name)
def test_python_runs(block: Block, lab_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lab_folder)
    save_files(block.page, lab_folder)
    code = "\n" * block.line + block.text
    try:
        exec(compile(code, block.page, "exec"), {"__name__": "__main__"})
    except UnsupportedError as error:
        unable(error)


@pytest.mark.parametrize("block", [b for b in ALL if b.begins_a_scenario], ids=name)
def test_scenarios_are_sound(block: Block) -> None:
    perhop.parse(block.text, name(block))


def glossary() -> list[str]:
    """The terms of the glossary, in its order."""
    rows = re.findall(
        r"^\| ([^|]*) \|", (ROOT / "docs/glossary.md").read_text("utf-8"), re.MULTILINE
    )
    assert rows[0] == "term"
    return rows[1:]


def test_the_glossary_is_alphabetical() -> None:
    assert glossary() == sorted(glossary(), key=str.casefold)


@pytest.mark.parametrize("entry", glossary())
def test_terms_of_the_glossary_are_used(entry: str) -> None:
    pages = [page for page in PAGES if page.name not in ("glossary.md", "CHANGELOG.md")]
    text = " ".join(" ".join(page.read_text("utf-8") for page in pages).split())
    for term in re.split(r" \(|, ", entry.rstrip(")")):
        assert re.search(rf"\b{re.escape(term)}", text, re.IGNORECASE), term


def test_a_block_can_opt_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    shown = "```sh\nmake demo\nperhop run a \\\n  --json\n```\n"
    nested = "- item\n\n  ```sh\n  x\n  ```\n"
    page.write_text(f"{shown}\n<!-- not run: it takes a day -->\n{shown}\n{nested}")
    first, second = blocks(page)
    assert commands(first) == ["perhop run a    --json"]
    assert (first.line, second.text) == (1, "x\n")
