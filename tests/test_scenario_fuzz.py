"""Whatever a file says, loading it gives a scenario or a ScenarioError, never anything else."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from conftest import SLOW
from perhop.errors import ScenarioError
from perhop.scenario import dump, parse

pytestmark = SLOW

TEXT = (Path(__file__).parent / "valid.yaml").read_bytes()
DATA = yaml.safe_load(TEXT)
PYDANTIC = ("Input should", "Value error", "validation error", "Extra inputs", "pydantic")

fuzz = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=150)


def check(text: str | bytes, overrides: list[str] | None = None) -> None:
    try:
        scenario = parse(text, "fuzz.yaml", overrides=overrides or [])
    except ScenarioError as error:
        for line in str(error).split("\n"):
            assert line.isprintable()
            assert not any(words in line for words in PYDANTIC)
        for problem in error.problems:
            assert problem.line >= 0
    else:
        assert parse(dump(scenario)) == scenario


@fuzz
@given(st.lists(st.tuples(st.integers(0, len(TEXT) - 1), st.integers(0, 255)), max_size=5))
def test_changed_bytes(changes: list[tuple[int, int]]) -> None:
    text = bytearray(TEXT)
    for index, byte in changes:
        text[index] = byte
    check(bytes(text))


@fuzz
@given(st.integers(0, len(TEXT)), st.integers(0, 40))
def test_deleted_bytes(start: int, length: int) -> None:
    check(TEXT[:start] + TEXT[start + length :])


@fuzz
@given(
    st.integers(0, len(TEXT)),
    st.sampled_from(
        ["[", "]", "{", "}", ": ", "- ", "&a ", "*a ", "!!x ", "'", '"', "#", "\n", "?"]
    )
    | st.text(max_size=8),
)
def test_inserted_text(index: int, more: str) -> None:
    check(TEXT[:index] + more.encode("utf-8", "replace") + TEXT[index:])


def places(data: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in `data`."""
    found = [path]
    if isinstance(data, dict):
        for key, value in data.items():
            found += places(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            found += places(value, (*path, index))
    return found


PLACES = places(DATA)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.sampled_from(
        [
            "any",
            "drop",
            "host",
            "a",
            "r1",
            "edge",
            "bulk",
            "total",
            "0 s",
            "0%",
            "100%",
            "1 Mbps",
            "1 B",
            "1 ps",
            "200 ms",
            "cs1",
            "64 packets",
            "1 s..2 s",
            "10.0.0.0/8",
            "::/0",
            "reno",
        ]
    ),
)
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@fuzz
@given(st.lists(st.tuples(st.sampled_from(PLACES), trees), min_size=1, max_size=3))
@example([(("links", 0, "ends"), {"a": 1})])
@example([(("flows", "web", "volume"), None)])
@example([(("expect", 0, "at_least"), [1])])
def test_replaced_parts(changes: list[tuple[tuple[str | int, ...], Any]]) -> None:
    data = yaml.safe_load(TEXT)
    for path, value in changes:
        parent: Any = data
        try:
            for step in path[:-1]:
                parent = parent[step]
            if path:
                parent[path[-1]] = value
            else:
                data = value
        except (KeyError, IndexError, TypeError):
            continue
    check(yaml.safe_dump(data, allow_unicode=True))


@pytest.mark.parametrize("path", [path for path in PLACES if path], ids=str)
@pytest.mark.parametrize("value", [None, True, 0, 1.5, "x", [], {}, [[]], {"x": {}}], ids=repr)
def test_each_part_replaced(path: tuple[str | int, ...], value: object) -> None:
    data = yaml.safe_load(TEXT)
    parent: Any = data
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    check(yaml.safe_dump(data))


@fuzz
@given(st.sampled_from(PLACES), trees, st.text(max_size=10))
def test_overrides(path: tuple[str | int, ...], value: Any, noise: str) -> None:
    written = yaml.safe_dump(value, default_flow_style=True)
    check(TEXT, [".".join(map(str, path)) + "=" + written])
    check(TEXT, [".".join(map(str, path)) + noise])
    check(TEXT, [noise + "=" + written])
