"""Random scenarios are random enough: every key comes up, and nearly every word it may have."""

from collections import Counter
from collections.abc import Iterator
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from fuzzing.language import models
from fuzzing.scenarios import scenarios
from perhop.scenario import METRICS, Scenario
from perhop.scenario.base import Model

REPLACED = {"Replay.file"}
"""What a loaded scenario no longer has: a file's packets take its place."""


def keys() -> Iterator[str]:
    """Every key of every model, and every word that it may have but for its default."""
    for model in models(Scenario):
        for name, field in model.model_fields.items():
            if name in METRICS:
                continue  # drawn from the list of them
            yield f"{model.__name__}.{name}"
            told = (word for word in words(field.annotation) if word != field.default)
            yield from (f"{model.__name__}.{name}: {word}" for word in told)


def words(kind: Any) -> Iterator[object]:
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    elif get_origin(kind) is not tuple:
        for arg in get_args(kind):
            if arg is not NoneType:
                yield from words(arg)
    if kind is bool:
        yield from (True, False)


def said(part: Any) -> Iterator[str]:
    """The keys that a scenario gives, and the words that it gives them."""
    if isinstance(part, Model):
        for name in part.model_fields_set:
            value = getattr(part, name)
            yield f"{type(part).__name__}.{name}"
            if isinstance(value, (str, int)):
                yield f"{type(part).__name__}.{name}: {value}"
            yield from said(value)
    elif isinstance(part, dict):
        for value in part.values():
            yield from said(value)
    elif isinstance(part, (tuple, list)):
        for value in part:
            yield from said(value)


@pytest.fixture(scope="module")
def counted() -> Counter[str]:
    """In how many of many scenarios each key and word stands."""
    found: Counter[str] = Counter()

    @settings(
        max_examples=250,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(scenario=scenarios)
    def draw(scenario: Scenario) -> None:
        found.update(set(said(scenario)))

    draw()
    return found


def test_every_key_is_generated(counted: Counter[str]) -> None:
    wanted = [key for key in keys() if ":" not in key and key not in REPLACED]
    missing = [key for key in wanted if not counted[key]]
    assert not missing, f"no random scenario has {', '.join(missing)}; see tests/fuzzing"


def test_nearly_every_word_is_generated(counted: Counter[str]) -> None:
    wanted = [key for key in keys() if ":" in key]
    missing = [key for key in wanted if not counted[key]]
    assert len(missing) < len(wanted) / 20, missing
