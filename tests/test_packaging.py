"""Installation of an agent: the unit of systemd."""

import re
import subprocess
from pathlib import Path

from tools import need

UNIT = Path(__file__).parent.parent / "packaging" / "perhop-agent.service"


def analyze(*arguments: str) -> str:
    """What `systemd-analyze` says of a unit that it takes."""
    need("systemd-analyze")
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    # The program need not be installed where this test runs.
    unit.write_text(UNIT.read_text("utf-8").replace("/usr/local/bin/perhop-agent", "/bin/sh"))
    assert analyze("verify", "--man=no", str(unit)) == ""


def test_the_service_has_few_rights() -> None:
    said = analyze("security", "--offline=yes", "--no-pager", str(UNIT))
    exposure = re.search(r"exposure level for perhop-agent.service: ([0-9.]+) ", said)
    assert exposure, said
    assert float(exposure[1]) < 3  # of 10
