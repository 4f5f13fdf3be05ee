"""Messages about data of the wrong shape."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from perhop.hints import did_you_mean
from perhop.scenario.model.ends import BY_END, VALUE, ByEnd
from perhop.scenario.model.metrics import METRICS, metric_hint
from perhop.scenario.model.text import Text, kind_of, refusal
from perhop.scenario.rules.findings import Finding
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import ValidationError
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

    from perhop.scenario.model.base import Loc


MAX_EXPLAINED = 1000
"""Number of errors that get a message of their own; far fewer are ever shown."""


def explain(error: ValidationError, model: type[BaseModel]) -> Iterator[Finding]:
    """Return the message for `error`, found in a value that should have been a `model`."""
    details = error.errors(include_url=False)
    wrong_keys = {detail["loc"][:-1] for detail in details if detail["loc"][-1:] == ("[key]",)}
    for index, detail in enumerate(details):
        # The names of alternatives are no steps; an unknown key may be called like one.
        steps, unknown = detail["loc"], detail["type"] == "extra_forbidden"
        last = steps[-1:] if unknown else ()
        above = steps[:-1] if unknown else steps
        loc = (*(step for step in above if step not in (VALUE, BY_END)), *last)
        at_key = loc[-1:] == ("[key]",)
        if at_key:
            loc = loc[:-1]
        elif any(loc[:length] in wrong_keys for length in range(len(loc))):
            continue  # what stands under a wrong key may be right under another
        message, hint = _message(detail, loc, model) if index < MAX_EXPLAINED else ("is wrong", "")
        yield Finding(loc, message, hint, at_key or detail["type"] == "extra_forbidden")


def _message(detail: ErrorDetails, loc: Loc, model: type[BaseModel]) -> tuple[str, str]:
    """Return the problem with the expected value, and a hint."""
    value, context = detail["input"], detail.get("ctx", {})
    match detail["type"]:
        case "value_error":
            return str(context["error"]), ""
        case "missing" if isinstance(loc[-1], int):
            return f"has too few elements; expected {_expected(loc[:-1], model)}", ""
        case "missing":
            return f"is missing; expected {_expected(loc, model)}", ""
        case "extra_forbidden":
            keys = _keys(_type_at(loc[:-1], model))
            hint = did_you_mean(loc[-1], keys) or _elsewhere(loc, model)
            if not METRICS.keys() <= {*keys}:
                return f"unknown key; expected one of {', '.join(keys)}", hint
            others = [key for key in keys if key not in METRICS]
            if not hint or hint != did_you_mean(loc[-1], others):
                hint = metric_hint(loc[-1])
            return f"unknown key; expected a metric, or one of {', '.join(others)}", hint
        case "literal_error" if isinstance(value, (str, int, float)):
            choices = get_args(_plain(_type_at(loc, model)))
            expected = f"expected {_expected(loc, model)}"
            return f"{kind_of(value)} is unknown; {expected}", did_you_mean(
                value, map(str, choices)
            )
        case "too_short":
            return f"is empty; expected {_expected(loc, model)}", ""
        case "too_long":
            return (
                f"has more than {context['max_length']} entries, the most that are allowed",
                "",
            )
        case "bool_type" | "bool_parsing" if value in ("yes", "no", "on", "off", "y", "n"):
            answer = "true" if value in ("yes", "on", "y") else "false"
            return f"{quote(value)} is text; expected true or false", f"did you mean `{answer}`?"
        case _:
            return f"{refusal(value)}; expected {_expected(loc, model)}", ""


def _elsewhere(loc: Loc, model: type[BaseModel]) -> str:
    """Return the section that has the unknown key at `loc`, for flows among pings and so on."""
    if len(loc) != 3 or loc[0] not in _SENDERS:
        return ""
    section, name, key = loc
    for other in _SENDERS:
        if other != section and key in _keys(_type_at((other, name), model)):
            return f"`{key}` is a key of {other}; write {quote(name)} below `{other}`"
    return ""


_SENDERS = ("flows", "pings")
"""Sections whose entries are easily taken for those of each other."""


# Values that the model expects at a place


def _type_at(loc: Loc, model: type[BaseModel]) -> Any:
    """Return the annotation of the field, entry or element at `loc`."""
    annotation: Any = model
    for step in loc:
        found = (_inside(form, step) for form in _forms(annotation))
        annotation = next((form for form in found if form is not Any), Any)
    return annotation


def _inside(plain: Any, step: str | int) -> Any:
    """Return the annotation of a field, entry or element of a plain annotation; `Any` if none."""
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        field = _field(plain, step)
        if field is None:
            return Any
        return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    if get_origin(plain) is dict:
        return get_args(plain)[1]
    if get_origin(plain) is tuple and isinstance(step, int):
        return get_args(plain)[0]
    return Any


def _forms(annotation: Any) -> list[Any]:
    """Return the alternatives of a union; for anything else, itself."""
    if _is_by_end(annotation):
        return [plain for form in get_args(get_args(annotation)[0]) for plain in _forms(form)]
    plain = _plain(annotation)
    if get_origin(plain) in (Union, UnionType):
        return [_plain(form) for form in get_args(plain) if form is not NoneType]
    return [plain]


def _field(model: type[BaseModel], key: str | int) -> FieldInfo | None:
    for name, field in model.model_fields.items():
        if key == (field.alias or name):
            return field
    return None


def _plain(annotation: Any) -> Any:
    """`annotation` without what says that it is optional or how it is written."""
    while True:
        annotation = _one_value(annotation)
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, UnionType):
            kept = [a for a in get_args(annotation) if a is not NoneType]
            if len(kept) != 1:
                return annotation
            annotation = kept[0]
        else:
            return annotation


def _is_by_end(annotation: Any) -> bool:
    return get_origin(annotation) is Annotated and any(
        isinstance(extra, ByEnd) for extra in get_args(annotation)[1:]
    )


def _one_value(annotation: Any) -> Any:
    """Return the annotation of one value, if values may differ between a link's directions."""
    if not _is_by_end(annotation):
        return annotation
    return next(form for form in get_args(get_args(annotation)[0]) if form is not NoneType)


def _text(annotation: Any) -> Text | None:
    """Return how values of `annotation` are written, if as text."""
    while True:
        annotation = _one_value(annotation)
        if get_origin(annotation) is Annotated:
            for extra in get_args(annotation)[1:]:
                if isinstance(extra, Text):
                    return extra
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, UnionType):
            kept = [a for a in get_args(annotation) if a is not NoneType]
            if len(kept) != 1:
                return None
            annotation = kept[0]
        else:
            return None


def _keys(annotation: Any) -> list[str]:
    """Return the keys of a mapping of `annotation`."""
    return [
        field.alias or name
        for form in _forms(annotation)
        if isinstance(form, type) and issubclass(form, BaseModel)
        for name, field in form.model_fields.items()
    ]


def _expected(loc: Loc, model: type[BaseModel]) -> str:
    """Return the expected value at `loc`, in words."""
    annotation = _type_at(loc, model)
    text = _text(annotation)
    if text is not None:
        return text.expected
    forms = _forms(annotation)
    return " or ".join(_expected_form(form) for form in forms)


def _expected_form(plain: Any) -> str:
    """Return the expected value of a plain annotation, in words."""
    if get_origin(plain) is Literal:
        choices = [str(choice) for choice in get_args(plain)]
        return f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
    if get_origin(plain) is dict:
        return "a mapping whose keys are names"
    if get_origin(plain) is tuple:
        parts = get_args(plain)
        return "a list" if Ellipsis in parts else f"a list of {len(parts)}"
    if plain is bool:
        return "true or false"
    if plain is str:
        return "text (in quotes, if YAML would read it as something else)"
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        mapping = f"a mapping with {', '.join(_keys(plain))}"
        short = getattr(plain, "short_form", "")
        return f"{short} or {mapping}" if short else mapping
    return "a value in the unit of the metric"


def creatable(loc: Loc, model: type[BaseModel]) -> bool:
    """Return whether `loc` is a key that `model` knows, for a mapping that may be left out."""
    plain = _plain(_type_at(loc[:-1], model))
    if not (isinstance(plain, type) and issubclass(plain, BaseModel)):
        return False
    inner = _plain(_type_at(loc, model))
    return _field(plain, loc[-1]) is not None and (
        get_origin(inner) is dict or (isinstance(inner, type) and issubclass(inner, BaseModel))
    )
