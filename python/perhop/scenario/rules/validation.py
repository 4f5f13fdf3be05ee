"""From what a file says to a sound scenario, or to everything that is wrong with it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from perhop.errors import ScenarioError
from perhop.hints import did_you_mean
from perhop.scenario.rules.checks import check
from perhop.scenario.rules.findings import Nowhere, problems
from perhop.scenario.rules.wording import explain

if TYPE_CHECKING:
    from pydantic import ModelWrapValidatorHandler

    from perhop.scenario.model.scenario import Scenario
    from perhop.scenario.rules.findings import Finding, Source

S = TypeVar("S", bound="Scenario")


def validate(
    cls: type[S], data: Any, handler: ModelWrapValidatorHandler[S], source: Source | None
) -> S:
    """The scenario that `data` describes.

    Args:
        cls: The class of scenarios.
        data: What a file says, or keyword arguments.
        handler: Pydantic's own validation, of the shape alone.
        source: Where `data` comes from; None for Python.

    Raises:
        ScenarioError: With what is wrong in shape (kinds, units, unknown and missing keys) and, as
            far as the shape allows to tell, in sense (names, reachability, sums, times).
    """
    findings: list[Finding] = []
    scenario: Scenario
    try:
        scenario = valid = handler(data)
        sound = set(cls.model_fields)
    except ValidationError as error:
        findings += explain(error, cls)
        scenario, sound = _sound_part(cls, data, source)
    if source is None or not source.broken:
        findings += check(scenario, sound)
    if findings:
        raise ScenarioError(problems(findings, source or Nowhere(), data))
    return valid


def _sound_part(cls: type[S], data: Any, source: Source | None) -> tuple[Scenario, set[str]]:
    """The sections of `data` that are well-formed, as a scenario, and their names."""
    sections: dict[str, Any] = {}
    sound: set[str] = set()
    given = data if isinstance(data, dict) else {}
    unknown = [str(key) for key in given if key not in cls.model_fields]
    for name, section in cls.model_fields.items():
        if name in given:
            try:
                sections[name] = _adapter(cls, name).validate_python(given[name], context=source)
            except ValidationError:
                continue
        elif section.is_required() or any(did_you_mean(key, [name]) for key in unknown):
            continue  # it may be there under another name
        sound.add(name)
    return cls.model_construct(**sections), sound


@cache
def _adapter(cls: type[Scenario], name: str) -> TypeAdapter[Any]:
    """The validation of one section, with all that constrains it."""
    section = cls.model_fields[name]
    annotation: Any = section.annotation
    for extra in section.metadata:
        annotation = Annotated[annotation, extra]
    return TypeAdapter(annotation)
