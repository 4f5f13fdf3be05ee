"""The lines of docs/live.md, from two bare hosts to a report, done in a lab."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from conftest import MEASURES, PERHOP
from perhop.dataset import Dataset
from perhop.errors import UnsupportedError
from perhop.lab import up
from perhop.scenario import parse
from static_agent import static_agent
from test_docs import ROOT, blocks, save_files
from tools import need, unable

PAGE = ROOT / "docs" / "live.md"


def lines() -> list[tuple[str, str]]:
    """The commands of the page, each with its host."""
    [console] = [block for block in blocks(PAGE) if block.language == "console"]
    found = [re.fullmatch(r"(\w+)\$ (.+)", line) for line in console.text.splitlines()]
    assert all(found)
    return [(line[1], line[2]) for line in found if line]


def environment(folder: Path, host: str) -> dict[str, str]:
    """The environment of a bare host: a home of its own, and the one program that it has."""
    programs = folder / host / "bin"
    if not programs.exists():
        programs.mkdir(parents=True)
        if host == "cloud":
            shutil.copy(static_agent(), programs / "perhop-agent")
        else:
            (programs / "perhop").symlink_to(PERHOP)
    own = {each: value for each, value in os.environ.items() if each != "XDG_CONFIG_HOME"}
    # `perhop` finds programs of the system there; an agent needs none.
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}" if host == "lan" else str(programs)
    return {**own, "HOME": str(folder / host), "PATH": path}


@MEASURES
def test_ten_lines_lead_from_two_bare_hosts_to_a_report(lab_folder: Path) -> None:
    assert len(lines()) == 10
    need(os.environ.get("CARGO", "cargo"))
    save_files(PAGE, lab_folder)
    scenario = parse((lab_folder / "deployed.yaml").read_text(), "deployed.yaml")
    try:
        lab = up(scenario)
    except UnsupportedError as error:
        unable(error)
    for host, line in lines():
        with (lab_folder / "errors").open("w+") as errors:
            # What goes on behind `&` keeps its output, so that this is no pipe to wait for.
            process = lab.start(
                host,
                ["/bin/sh", "-c", line],
                cwd=lab_folder,
                env=environment(lab_folder, host),
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
            assert process.wait(timeout=120) == 0, (line, (lab_folder / "errors").read_text())
    assert Dataset.read(lab_folder / "runs" / "live").manifest.complete
    page = (lab_folder / "runs" / "live" / "report.html").read_text("utf-8")
    assert "live" in page
    lab.down()
