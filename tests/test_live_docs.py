"""The lines of docs/live.md, from two bare hosts to a report, done in a lab."""

import os
import re
import subprocess
from pathlib import Path

from conftest import MEASURES, PERHOP
from perhop.dataset import Dataset
from perhop.errors import UnsupportedError
from perhop.lab import up
from perhop.scenario import parse
from test_docs import ROOT, blocks, save_scenarios
from tools import unable

PAGE = ROOT / "docs" / "live.md"


def lines() -> list[tuple[str, str]]:
    """The commands of the page, each with its host."""
    [console] = [block for block in blocks(PAGE) if block.language == "console"]
    found = [re.fullmatch(r"(\w+)\$ (.+)", line) for line in console.text.splitlines()]
    assert all(found)
    return [(line[1], line[2]) for line in found if line]


def home(folder: Path, host: str) -> dict[str, str]:
    """The environment of a bare host: a home of its own, and the programs."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    alone = programs / "perhop-agent"
    if not alone.exists():
        alone.write_text(f'#!/bin/sh\nexec {PERHOP} agent "$@"\n')
        alone.chmod(0o755)
        (programs / "perhop").symlink_to(PERHOP)
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
    own = {each: value for each, value in os.environ.items() if each != "XDG_CONFIG_HOME"}
    return {**own, "HOME": str(folder / host), "PATH": path}


@MEASURES
def test_ten_lines_lead_from_two_bare_hosts_to_a_report(lab_folder: Path) -> None:
    assert len(lines()) == 10
    save_scenarios(PAGE, lab_folder)
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
                ["sh", "-c", line],
                cwd=lab_folder,
                env=home(lab_folder, host),
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
            assert process.wait(timeout=120) == 0, (line, (lab_folder / "errors").read_text())
    assert Dataset.read(lab_folder / "runs" / "live").manifest.complete
    page = (lab_folder / "runs" / "live" / "report.html").read_text("utf-8")
    assert "live" in page
    lab.down()
