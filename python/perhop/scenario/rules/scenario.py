"""The validation of data into a sound scenario."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    ConfigDict,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from perhop.displays import settings, show
from perhop.errors import ScenarioError
from perhop.hints import did_you_mean
from perhop.scenario.resolve.background import expand
from perhop.scenario.resolve.scenario import ResolvedScenario
from perhop.scenario.rules.background import NEEDED, backgrounds, placed
from perhop.scenario.rules.checks import check
from perhop.scenario.rules.findings import Nowhere, problems
from perhop.scenario.rules.wording import explain
from perhop.units import SECOND

if TYPE_CHECKING:
    from perhop.scenario.rules.findings import Finding, Source


class Scenario(ResolvedScenario):
    """An experiment: a network, what is sent across it and when, and what should come of it.

    However it is made, from a file or in Python, a scenario that exists is sound: names refer to
    something, hosts reach each other, classes can be reached, and times lie in the scenario.

    Raises:
        ScenarioError: On construction, with everything that is wrong.
    """

    model_config = ConfigDict(defer_build=False)

    def __repr__(self) -> str:
        """Return ``<Scenario qbss-1-70: 4 nodes, 3 links, 3 flows, 150 s>``."""
        parts = {"node": self.nodes, "link": self.links, "flow": self.flows, "ping": self.pings}
        counts = (
            f"{len(each)} {kind}{'s' * (len(each) != 1)}" for kind, each in parts.items() if each
        )
        return f"<Scenario {self.name}: {', '.join(counts)}, {self.end_ps / SECOND:g} s>"

    def __str__(self) -> str:
        """Return the same as `repr`."""
        return repr(self)

    def _repr_html_(self) -> str:
        """Return its sections as notebooks show them, with values as a file writes them."""
        written = self.model_dump(mode="json", exclude_defaults=True)
        sections = [
            ((kind.removesuffix("s"), "settings"), _rows(written.get(kind, ())))
            for kind in ("nodes", "links", "policies", "flows", "pings", "changes", "expect")
        ]
        return show(self.title or self.name, *sections)

    @model_validator(mode="wrap")
    @classmethod
    def _sound(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        """Refuse data that is wrong in shape or, as far as its shape tells, in sense.

        Shape is kinds, units, unknown and missing keys; sense is names, reachability, sums and
        times. The validation's context is the `Source` of the data; None for Python.
        """
        source: Source | None = info.context
        findings: list[Finding] = []
        judged: ResolvedScenario
        try:
            judged = valid = handler(data)
            sound = set(cls.model_fields)
        except ValidationError as error:
            findings += explain(error, cls)
            judged, sound = _sound_sections(cls, data, source)
        if source is None or not source.broken:
            if not isinstance(data, ResolvedScenario):
                findings += _expanded(judged, sound)
            findings += (placed(judged, finding) for finding in check(judged, sound))
        if findings:
            raise ScenarioError(problems(findings, source or Nowhere(), data))
        return valid


def _rows(section: Any) -> list[tuple[object, str]]:
    """Return the name, or the position, of each part of a section, and what is set there."""
    parts = section.items() if isinstance(section, dict) else enumerate(section)
    return [(name, settings(part)) for name, part in parts]


def _expanded(judged: ResolvedScenario, sound: set[str]) -> list[Finding]:
    """Add the flows of background traffic to a scenario, unless it has findings.

    Without the flows, sections that refer to them are not `sound`.
    """
    findings = list(backgrounds(judged)) if sound >= NEEDED else []
    if findings or not sound >= NEEDED:
        if "background" not in sound or judged.backgrounds:
            sound -= {"flows", "expect", "published"}
    else:
        expand(judged)
    return findings


def _sound_sections(
    cls: type[Scenario], data: Any, source: Source | None
) -> tuple[ResolvedScenario, set[str]]:
    """Return the sections of `data` that are well-formed, and their names."""
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
    return ResolvedScenario.model_construct(**sections), sound


@cache
def _adapter(cls: type[Scenario], name: str) -> TypeAdapter[Any]:
    """The validation of one section, with all that constrains it."""
    section = cls.model_fields[name]
    annotation: Any = section.annotation
    for extra in section.metadata:
        annotation = Annotated[annotation, extra]
    return TypeAdapter(annotation)
