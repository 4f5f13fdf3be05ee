"""Parts of a scenario as a file says them, drawn from their models."""

from __future__ import annotations

import re
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from hypothesis import strategies as st

from fuzzing.values import TEXTS, scalars
from perhop.scenario.model.base import Model
from perhop.scenario.model.ends import ByEnd
from perhop.scenario.model.marking import _Forms
from perhop.scenario.model.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pydantic.fields import FieldInfo

Draw = Any
"""Hypothesis' `draw`."""

T = TypeVar("T")

WANTED: Final[set[str]] = set()
"""Keys such as ``Link.mtu`` that half of the parts are to have that may; few do by chance."""

OMIT: Final = object()
"""Returned by a hook for a key that is left out after all."""


class Writer:
    """Draws parts of a scenario, as trees that a file may have.

    Attributes:
        draw: Draws from a strategy.
        hooks: How keys are drawn whose value depends on other parts, such as names, by model and
            field. Whatever is not there is drawn from its annotation.
        ends: The ends of the link that is drawn.
        finish: What makes the keys of a part agree that seldom would, by model.
    """

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.ends: list[str] = []
        self.hooks: dict[tuple[type[Model], str], Callable[[], Any]] = {}
        self.finish: dict[type[Model], Callable[[dict[str, Any]], object]] = {}

    def whole(self, low: int, high: int) -> int:
        """A number from `low` to `high`; shrinks to `low`."""
        return int(self.draw(st.integers(low, high)))

    def chance(self, percent: int) -> bool:
        """Return whether something happens that shrinks to nothing."""
        return self.whole(0, 99) >= 100 - percent

    def pick(self, options: Sequence[T]) -> T:
        """One of some; shrinks to the first."""
        return options[self.whole(0, len(options) - 1)]

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """Some of `options`, few of them mostly."""
        if not options:
            return []
        wanted = self.whole(0, min(most, len(options)))
        return list(dict.fromkeys(self.pick(options) for _ in range(wanted)))

    def model(self, model: type[Model], *, but: Sequence[str] = (), most: int = 6) -> Any:
        """A part of kind `model`: what is required of it, and some of what is not."""
        words = re.findall("`([^`]+)`", model.short_form)
        if words and not but and self.chance(30):
            return self.pick(words)
        written: dict[str, Any] = {}
        fields = {n: f for n, f in model.model_fields.items() if n not in but}
        optional = [name for name, field in fields.items() if not field.is_required()]
        chosen = {*fields} - {*optional} | {*self.some(optional, most)}
        for name in optional if WANTED else ():
            if f"{model.__name__}.{name}" in WANTED and self.chance(50):
                chosen.add(name)
        for name, field in fields.items():
            if name in chosen:
                value = self.field(model, name, field)
                if value is not OMIT:
                    written[field.alias or name] = value
        if model in self.finish:
            self.finish[model](written)
        return written

    def field(self, model: type[Model], name: str, field: FieldInfo) -> Any:
        """The value of a key."""
        for each in model.__mro__:
            if (each, name) in self.hooks:
                return self.hooks[each, name]()
        return self.value(field.annotation, tuple(field.metadata))

    def value(self, kind: Any, metadata: tuple[Any, ...] = ()) -> Any:
        """A value of an annotation."""
        for each in metadata:
            if isinstance(each, Text):
                return self.draw(_scalars(each))
            if isinstance(each, _Forms):
                return self.marking(kind)
            if isinstance(each, ByEnd):
                return self.by_end(get_args(kind)[0])
        origin, args = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self.value(args[0], (*args[1:], *metadata))
        if origin in (Union, UnionType):
            return self.value(self.pick([arg for arg in args if arg is not NoneType]))
        if origin is Literal:
            return self.pick(args)
        if origin is tuple:
            parts = args[:1] * self.whole(1, 3) if args[-1] is ... else args
            return [self.value(part) for part in parts]
        if origin is dict:
            return {self.value(args[0]): self.value(args[1]) for _ in range(self.whole(0, 2))}
        if isinstance(kind, type) and issubclass(kind, Model):
            return self.model(kind)
        if kind is bool:
            return bool(self.whole(0, 1))
        if kind is str:
            return self.draw(TEXTS)
        raise NotImplementedError(f"no way to draw {kind}")

    def by_end(self, kind: Any) -> Any:
        """One value of a link, or one for each of its ends."""
        if not self.ends or not self.chance(25):
            return self.value(kind)
        return {end: self.value(kind) for end in self.ends}

    def marking(self, kind: Any) -> Any:
        """A marking, in one of its forms."""
        form = self.whole(0, 2)
        if form == 0:
            return "clear"
        rule, _ = get_args(kind)
        rules = [self.model(rule) for _ in range(self.whole(1, 3))]
        if form == 1:
            return rules
        return {str(old): each["dscp"] for each in rules for old in [self.pick(["any", "ef", 8])]}


@cache
def _scalars(text: Text) -> st.SearchStrategy[Any]:
    return scalars(text)


def models(kind: Any) -> Iterator[type[Model]]:
    """Every model that an annotation may hold, and what these hold."""
    found: dict[type[Model], None] = {}

    def walk(kind: Any) -> None:
        if isinstance(kind, type) and issubclass(kind, Model) and kind not in found:
            found[kind] = None
            for field in kind.model_fields.values():
                walk(field.annotation)
        for arg in get_args(kind):
            walk(arg)

    walk(kind)
    yield from found


def leading_to(wanted: Collection[str], root: type[Model]) -> set[str]:
    """Return the wanted keys, and those of other models that hold models with wanted keys."""
    names = {key.partition(".")[0] for key in wanted}
    found = {*wanted}
    for model in models(root):
        for name, field in model.model_fields.items():
            if any(kind.__name__ in names for kind in _held(field.annotation)):
                found.add(f"{model.__name__}.{name}")
    return found


def _held(kind: Any) -> Iterator[type[Model]]:
    """Return the models that an annotation names."""
    if isinstance(kind, type) and issubclass(kind, Model):
        yield kind
    for arg in get_args(kind):
        yield from _held(arg)
