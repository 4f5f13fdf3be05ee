"""Expected results of a run, and the published results of a document."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    create_model,
    field_validator,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perhop.scenario.model.base import Model
from perhop.scenario.model.metrics import METRICS, Metric, metric_hint
from perhop.scenario.model.names import ClassPath, Name, Target
from perhop.scenario.model.quantities import Share, Window, format_window
from perhop.scenario.model.text import Text
from perhop.units import WHOLE, format_share, quote

Basis = Literal["stated", "assumed", "unstated"]
"""The basis of a published figure: stated in the document, an input of the scenario (so that
measuring it confirms nothing), or not stated in the document."""


DropCause = Literal["full queue", "policer", "early drop"]
"""The cause of a drop in a queue, as results name it."""


def _metric(name: str) -> str:
    if name not in METRICS:
        raise ValueError(f"{quote(name)} is not a metric; {metric_hint(name)}")
    return name


MetricName = Annotated[str, Text(_metric, str, "the name of a metric", {"enum": list(METRICS)})]
"""The name of a metric."""


def _targets(value: object) -> object:
    """The targets of a metric; one is written without a list."""
    return (value,) if isinstance(value, str) else value


Targets = Annotated[
    tuple[Target, ...],
    BeforeValidator(_targets, json_schema_input_type=Target | list[Target]),
    PlainSerializer(lambda found: found[0] if len(found) == 1 else list(found)),
]
"""The targets of a metric: most have one."""

if TYPE_CHECKING:
    MetricNames = Model
else:
    MetricNames = create_model(
        "MetricNames",
        __base__=Model,
        **{
            metric.name: (Targets | None, Field(default=None, description=metric.description))
            for metric in METRICS.values()
        },
    )


class Measured(MetricNames):
    """A metric of flows, or of one other object, over a stretch of time; exactly one is named."""

    of: MetricName | None = None
    """The metric of which `ratio` is; ``throughput`` by default."""

    class_: ClassPath | None = Field(default=None, alias="class")
    """The class of the directed link; by default all of its classes."""

    cause: DropCause | None = None
    """The cause of the drops; by default all causes."""

    entry: Name | None = None
    """The end of the tunnel at which packets enter; by default both directions together."""

    during: Window | None = None
    """The window; by default the whole scenario."""

    @property
    def named(self) -> list[str]:
        """The metrics that are named; one, in a valid scenario."""
        given = self.__dict__  # attributes of a model take four times as long
        return [name for name in METRICS if given.get(name) is not None]

    @property
    def metric(self) -> Metric:
        """The metric."""
        return METRICS[self.named[0]]

    @property
    def targets(self) -> tuple[str, ...]:
        """Its targets: the names of flows, or of one ping, link, channel or tunnel, or "total"."""
        found: tuple[str, ...] = getattr(self, self.metric.name)
        return found

    @property
    def measured_metric(self) -> Metric:
        """The metric of each target: that of which a ratio is, or the metric itself."""
        return METRICS[self.of or "throughput"] if self.metric.name == "ratio" else self.metric

    @property
    def target(self) -> str:
        """Its targets in words, with the class of a link: ``r1>r2 voice``."""
        return f"{', '.join(self.targets)}{self._part}"

    @property
    def _part(self) -> str:
        """The class of the link, or the entry of the tunnel, behind the name."""
        if self.entry is not None:
            return f" from {self.entry}"
        return "" if self.class_ is None else f" {self.class_}"

    @property
    def subject(self) -> str:
        """The metric, its target and its time: ``throughput of priority during 62 s..90 s``."""
        during = f" during {format_window(self.during)}" if self.during else ""
        label, of = self.metric.label, " and ".join(self.targets)
        if self.metric.name == "ratio":
            label, of = f"{label} of the {self.measured_metric.label}", " to ".join(self.targets)
        if self.cause is not None:
            label = f"{label} ({self.cause})"
        return f"{label} of {of}{self._part}{during}"

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """One metric, and values in its unit."""
        whole = handler.resolve_ref_schema(handler(schema))
        whole["oneOf"] = [{"required": [name]} for name in METRICS]
        whole["allOf"] = [
            {
                "if": {"required": [metric.name]},
                "then": {
                    "properties": {
                        key: metric.schema for key in VALUES if key in whole["properties"]
                    }
                },
            }
            for metric in METRICS.values()
        ]
        return whole


VALUES = ("at_least", "at_most", "about", "value", "precision")
"""The keys of an expectation or published figure whose unit is the metric's."""


def _value_of_metric(value: object, info: ValidationInfo) -> int | None:
    """The value in the unit of the one metric that is named; None where none or several are."""
    named = [name for name in METRICS if info.data.get(name) is not None]
    return METRICS[named[0]].validate(value) if len(named) == 1 else None


class Expectation(Measured):
    """A requirement on a run, for a verdict: bounds, or a value and a tolerance."""

    at_least: int | None = None
    """The lower bound, in the metric's unit."""

    at_most: int | None = None
    """The upper bound, in the metric's unit."""

    about: int | None = None
    """The expected value, within `within`, in the metric's unit."""

    within: Share | None = None
    """The tolerance of `about`, as a share of it."""

    _in_unit = field_validator("at_least", "at_most", "about", mode="plain")(_value_of_metric)

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """The smallest and the largest value that are right; None for no bound."""
        if self.about is None:
            return self.at_least, self.at_most
        slack = self.about * (self.within or 0) // WHOLE
        return self.about - slack, self.about + slack

    @property
    def text(self) -> str:
        """The expectation in words, as verdicts say it."""
        show = self.metric.format
        if self.about is not None:
            near = format_share(self.within or 0)
            return f"{self.subject} is within {near} of {show(self.about)}"
        bounds = [
            f"{words} {show(bound)}"
            for words, bound in (("at least", self.at_least), ("at most", self.at_most))
            if bound is not None
        ]
        return f"{self.subject} is {' and '.join(bounds)}"

    @model_serializer(mode="wrap")
    def _in_words(self, handler: SerializerFunctionWrapHandler) -> Any:
        return _values_in_words(self, handler(self))


class Published(Measured):
    """A figure of the document that a scenario reproduces, shown beside the measured one."""

    label: str
    """The name of the figure in the document."""

    value: int
    """The figure, in the metric's unit."""

    qualifier: Literal["about", "above", "below", "exactly"] = "about"
    """The document's qualifier of the figure."""

    within: Share | None = None
    """The tolerance of a measured value that counts as reproduced, as a share of `value`. Without
    it, the difference is shown without a verdict. Bounds (`above`, `below`) need none."""

    basis: Basis = "stated"
    """`stated` in the document; `assumed`: an input of the scenario; `unstated`: implied by the
    document, which does not have the figure."""

    precision: int | None = None
    """Half the width of the interval that the figure stands for, in the metric's unit; by default
    half a unit of its last digit that is not zero."""

    note: str = ""
    """Conditions that the document leaves open."""

    _in_unit = field_validator("value", "precision", mode="plain")(_value_of_metric)

    @property
    def text(self) -> str:
        """The figure in words: ``about 8.7 Mbps``."""
        shown = self.metric.format(self.value)
        return shown if self.qualifier == "exactly" else f"{self.qualifier} {shown}"

    @model_serializer(mode="wrap")
    def _in_words(self, handler: SerializerFunctionWrapHandler) -> Any:
        return _values_in_words(self, handler(self))


def _values_in_words(measured: Measured, written: dict[str, Any]) -> dict[str, Any]:
    """`written` with its values in the unit of the metric."""
    return {
        key: measured.metric.write(value) if key in VALUES and value is not None else value
        for key, value in written.items()
    }
