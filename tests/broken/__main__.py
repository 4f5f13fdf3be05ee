"""Print scenarios of the tables, with numbers of lines, and what is said of them now."""

import shutil
import sys
import tempfile
from pathlib import Path

from broken import REPLAYS, cases
from perhop.errors import ScenarioError
from perhop.scenario import load

for case in (cases()[name] for name in sys.argv[1:]):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{case.name}.yaml")
        path.write_text(case.text, "utf-8")
        shutil.copytree(REPLAYS, path.with_name(REPLAYS.name))
        print(f"# {case.name}")
        for number, line in enumerate(case.text.splitlines(), 1):
            print(f"{number:3} {line}")
        try:
            load(path)
        except ScenarioError as error:
            print(
                "\n".join(f"! {line.removeprefix(f'{path}:')}" for line in str(error).split("\n"))
            )
