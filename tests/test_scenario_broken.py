"""Every case of the tables in `broken` gives the messages that stand there, and no others."""

import shutil
from pathlib import Path

import pytest

import broken
from perhop.errors import ScenarioError
from perhop.scenario import load

CASES = broken.cases()


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that some scenarios name."""
    folder = tmp_path_factory.mktemp("broken")
    shutil.copytree(broken.REPLAYS, folder / broken.REPLAYS.name)
    return folder


def test_the_unbroken_file_is_valid() -> None:
    assert load(broken.VALID).name == "base"
    assert len(CASES) >= 304


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_message(case: broken.Case, beside: Path) -> None:
    path = beside / f"{case.name}.yaml"
    path.write_text(case.text, "utf-8")
    with pytest.raises(ScenarioError) as caught:
        load(path)
    messages = str(caught.value).split("\n")
    assert len(messages) == len(case.messages), messages
    for message, wanted in zip(messages, case.messages, strict=True):
        place, *parts = (part.strip() for part in wanted.split("…"))
        assert message.startswith(f"{path}:{place}")
        assert all(part in message for part in parts)
        assert "Input should" not in message


@pytest.mark.parametrize("lines", ["- b", "- c\n+ d", "- a\n+ d", "a", "- b\n= c"])
def test_a_table_with_a_slip_is_refused(lines: str) -> None:
    with pytest.raises(ValueError, match="`"):
        list(broken.read(f"# name\n{lines}\n", "a a b"))
