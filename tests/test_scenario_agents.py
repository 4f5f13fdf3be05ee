"""The section `agents`, in a scenario or in a file of its own."""

from base64 import b64encode
from pathlib import Path

import pytest

import broken
import perhop
from perhop.errors import ScenarioError
from perhop.scenario import Endpoint, dump, parse

KEY = f"perhop-ed25519 {b64encode(bytes(32)).decode()}"
AGENTS = f"""\
a: {{address: "192.0.2.1:4862", key: {KEY} of a}}
b:
  address: "[2001:DB8::b]:4861"
  data: b.example.net
  key: {KEY}
r1: {{ping: 192.0.2.9}}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A scenario without agents, and its agents."""
    scenario, agents = tmp_path / "scenario.yaml", tmp_path / "agents.yaml"
    scenario.write_text(broken.VALID.read_text("utf-8"))
    agents.write_text(AGENTS)
    return scenario, agents


def messages(files: tuple[Path, Path], *overrides: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        perhop.load(files[0], agents=files[1], overrides=overrides)
    return [str(problem).replace(f"{files[0].parent}/", "") for problem in caught.value.found]


def test_agents_are_read_from_a_file_of_their_own(files: tuple[Path, Path]) -> None:
    loaded = perhop.load(files[0], agents=files[1])
    assert loaded.agents["a"].address == Endpoint("192.0.2.1", 4862)
    assert loaded.agents["a"].key == KEY  # without its comment
    assert loaded.agents["b"].address == Endpoint("2001:db8::b", 4861)
    assert loaded.agents["b"].data == "b.example.net"
    assert loaded.agents["r1"].ping == "192.0.2.9"
    assert parse(dump(loaded)) == loaded


def test_the_file_takes_the_place_of_the_section(files: tuple[Path, Path]) -> None:
    scenario, agents = files
    text = scenario.read_text() + "agents: {a: {ping: nothing of this:counts}}\n"
    scenario.write_text(text)
    assert perhop.load(scenario, agents=agents).agents["a"].ping is None


def test_problems_are_at_their_place_in_that_file(files: tuple[Path, Path]) -> None:
    files[1].write_text(AGENTS.replace(f"  key: {KEY}", "  key: secret"))
    [found] = messages(files)
    assert found.startswith("agents.yaml:5:8: agents.b.key: `secret` is not a public key")
    files[1].write_text(AGENTS.replace("r1:", "r3:"))
    [found] = messages(files)
    assert found.startswith("agents.yaml:6:1: agents.r3: `r3` is not a node; there are")


def test_problems_between_both_files_are_at_the_place_to_change(files: tuple[Path, Path]) -> None:
    files[1].write_text(AGENTS.splitlines()[0])
    assert messages(files)[0].startswith(
        "scenario.yaml:20:23: flows.bulk.to: `b` has no agent; expected one below `agents`"
    )


def test_an_override_goes_on_top_and_is_the_place_of_its_problems(
    files: tuple[Path, Path],
) -> None:
    loaded = perhop.load(files[0], agents=files[1], overrides=["agents.a.address=192.0.2.7"])
    assert loaded.agents["a"].address == Endpoint("192.0.2.7")
    [found] = messages(files, "agents.a.address=224.0.0.1")
    assert found.startswith("--set agents.a.address=224.0.0.1: agents.a.address: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n", "agents.yaml:1:1: agents: a list is not allowed here"),
        ("a: {\n", "agents.yaml:"),
        ("a: {ping: b}\na: {ping: c}\n", "agents.yaml:2:1: "),
        ("", "agents.yaml:1:1: "),
        ("a: {address:}\n", "agents.yaml:1:"),
    ],
)
def test_a_file_of_the_wrong_shape_is_refused(
    files: tuple[Path, Path], text: str, message: str
) -> None:
    files[1].write_text(text)
    assert messages(files)[0].startswith(message)


def test_a_missing_file_is_named(files: tuple[Path, Path]) -> None:
    files[1].unlink()
    assert messages(files) == ["agents.yaml: cannot be read: No such file or directory"]
