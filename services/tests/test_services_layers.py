"""Services import the laboratory, never the other way; and the laboratory needs none of theirs."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from perhop.cli import perhop
from perhop.cli.plugins import PLUGINS

ROOT = Path(__file__).parents[2]
LABORATORY = ROOT / "python" / "perhop"
SERVICES = ROOT / "services" / "perhop_services"
STATED = tomllib.loads((ROOT / "services" / "pyproject.toml").read_text("utf-8"))["project"]
OWN = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def project(requirement: str) -> str:
    return re.split("[<>=~]", requirement)[0]


def imported(path: Path) -> set[str]:
    """The modules that a file names in its imports, wherever in it they stand."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import(names=names):
                found |= {name.name for name in names}
            case ast.ImportFrom(module=str(module)):
                found.add(module)
    return found


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def test_the_laboratory_imports_nothing_of_services() -> None:
    modules = {"argon2" if each == "argon2-cffi" else each for each in services_own()}
    for path in files(LABORATORY):
        roots = {each.split(".")[0] for each in imported(path)}
        assert not roots & {"perhop_services", *modules}, path


def services_own() -> set[str]:
    """The projects that services need and the laboratory does not."""
    return {project(each) for each in STATED["dependencies"]} - {
        "perhop",
        *(project(each) for each in OWN["dependencies"]),
    }


def test_services_use_the_laboratory_below_its_engines() -> None:
    for path in files(SERVICES):
        names = {each for each in imported(path) if each.startswith("perhop.")}
        if path.name == "netconf.py":  # a driver sets rules as a push sets policies
            names = {each for each in names if not each.startswith("perhop.routers.pushing.")}
        if path.parent.name == "cli":  # commands print as those of the laboratory do
            names = {each for each in names if not each.startswith("perhop.cli.output")}
        used = {each.split(".")[1] for each in names}
        below = {
            "_core",
            "errors",
            "interruption",
            "lab",
            "linux",
            "printable",
            "scenario",
            "units",
        }
        assert used <= below, path


def test_what_services_share_knows_none_of_them() -> None:
    for path in files(SERVICES / "common"):
        ours = {each for each in imported(path) if each.startswith("perhop_services")}
        assert all(each.startswith("perhop_services.common") for each in ours), path


def test_the_laboratory_does_without_what_services_need() -> None:
    found = [each for lines in OWN["optional-dependencies"].values() for each in lines]
    assert services_own() == {
        *("alembic", "argon2-cffi", "fastapi", "httptools", "httpx", "pg8000"),
        *("sqlalchemy", "uvicorn"),
    }
    assert not {project(each) for each in found} & services_own()


def test_services_are_of_the_same_version_as_the_laboratory_that_they_need() -> None:
    version = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))["workspace"]["package"][
        "version"
    ]
    assert STATED["version"] == version
    assert f"perhop=={version}" in STATED["dependencies"]


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda each: each.name)
def test_the_help_of_a_plugin_is_what_perhop_lists(plugin: Any) -> None:
    line = f"{plugin.name} "
    listed = CliRunner().invoke(perhop, ["--help"]).output
    assert any(each.strip().startswith(line) for each in listed.splitlines())
    assert plugin.load().get_short_help_str() == plugin.get_short_help_str()


def test_perhop_lists_commands_without_importing_services() -> None:
    script = (
        "import sys; from perhop.cli import main\n"
        "try: main(['--help'])\n"
        "finally: print('perhop_services' in sys.modules, 'importlib.metadata' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "reserve" in run.stdout
    assert run.stdout.splitlines()[-1] == "False False"


def test_a_missing_service_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    found = CliRunner().invoke(perhop, ["reserve", "list"])
    assert getattr(found.exception, "exit_code", None) == 3
    assert str(found.exception) == (
        "`perhop reserve` needs perhop-services, which is not installed: in the folder of perhop's "
        "sources, pip install ./services"
    )
