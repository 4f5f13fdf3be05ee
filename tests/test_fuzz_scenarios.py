"""Random scenarios are random enough: every key comes up, and nearly every word it may have."""

from collections import Counter
from collections.abc import Iterator
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from conftest import SLOW
from fuzzing.language import models
from fuzzing.scenarios import scenarios
from perhop.scenario import METRICS, Scenario
from perhop.scenario.model.base import Model

pytestmark = SLOW

REPLACED = {"Replay.file"}
"""Keys that a loaded scenario no longer has: a file's packets replace them."""


ROUNDS = 32


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


FEW = sum(":" in key for key in keys()) / 20
"""Of these words may be missing."""


def missing(found: Counter[str]) -> tuple[list[str], list[str]]:
    """The keys that no scenario has said, and the words."""
    unsaid = [key for key in keys() if not found[key] and key not in REPLACED]
    return [key for key in unsaid if ":" not in key], [key for key in unsaid if ":" in key]


@pytest.fixture(scope="module")
def unsaid() -> tuple[list[str], list[str]]:
    """Features that few scenarios have; more are drawn while one is missing.

    Hypothesis draws constants of the modules that are loaded, too, so that a seed alone does not
    decide what comes.
    """
    found: Counter[str] = Counter()
    for number in range(ROUNDS):

        @seed(number)
        @settings(
            max_examples=60,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(scenario=scenarios)
        def draw(scenario: Scenario) -> None:
            found.update(set(said(scenario)))

        draw()
        keys_missing, words_missing = missing(found)
        if not keys_missing and len(words_missing) < FEW:
            break
    return keys_missing, words_missing


def test_every_key_is_generated(unsaid: tuple[list[str], list[str]]) -> None:
    assert not unsaid[0], f"no random scenario has {', '.join(unsaid[0])}; see tests/fuzzing"


def test_nearly_every_word_is_generated(unsaid: tuple[list[str], list[str]]) -> None:
    assert len(unsaid[1]) < FEW, f"no random scenario says {', '.join(unsaid[1])}"
