"""Every file in `broken` says in its first lines which messages it must cause, and no others.

``# expect: LINE:COL: text`` stands for one message; `` … `` in the text leaves something out.
"""

from pathlib import Path

import pytest

from perhop.errors import ScenarioError
from perhop.scenario import load

HERE = Path(__file__).parent
VALID = HERE / "valid.yaml"
BROKEN = sorted((HERE / "broken").glob("*.yaml"))
EXPECT = "# expect: "


def test_the_unbroken_file_is_valid() -> None:
    assert load(VALID).name == "base"
    assert len(BROKEN) >= 70


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_message(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines(keepends=True)
    expected = [line.removeprefix(EXPECT).strip() for line in lines if line.startswith(EXPECT)]
    body = "".join(line for line in lines if not line.startswith(EXPECT))
    assert body != VALID.read_text("utf-8")
    with pytest.raises(ScenarioError) as caught:
        load(path)
    messages = str(caught.value).split("\n")
    assert len(messages) == len(expected), messages
    for message, wanted in zip(messages, expected, strict=True):
        place, *parts = (part.strip() for part in wanted.split("…"))
        assert message.startswith(f"{path}:{place}")
        assert all(part in message for part in parts)
        assert "Input should" not in message
