"""Expected results of a run, and the published results of a document."""

from typing import Any, Literal

from pydantic import (
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perhop.scenario.model.base import Model
from perhop.scenario.model.metrics import METRICS, Metric
from perhop.scenario.model.names import Target
from perhop.scenario.model.quantities import Share, Window, format_window
from perhop.units import WHOLE, format_share

Basis = Literal["stated", "assumed", "unstated"]
"""The basis of a published figure: stated in the document, an input of the scenario (so that
measuring it confirms nothing), or not stated in the document."""


class Measured(Model):
    """A metric of a flow or ping over a stretch of time; exactly one metric is named."""

    throughput: Target | None = None
    """The goodput of this flow, or of ``total``."""

    rtt_min: Target | None = None
    """The minimum round-trip time of this ping."""

    rtt_mean: Target | None = None
    """The mean round-trip time of this ping."""

    rtt_median: Target | None = None
    """The median round-trip time of this ping."""

    rtt_p95: Target | None = None
    """The 95th percentile of the round-trip time of this ping."""

    rtt_p99: Target | None = None
    """The 99th percentile of the round-trip time of this ping."""

    rtt_max: Target | None = None
    """The maximum round-trip time of this ping."""

    owd_min: Target | None = None
    """The minimum one-way delay of this flow's data."""

    owd_mean: Target | None = None
    """The mean one-way delay of this flow's data."""

    owd_median: Target | None = None
    """The median one-way delay of this flow's data."""

    owd_p95: Target | None = None
    """The 95th percentile of the one-way delay of this flow's data."""

    owd_p99: Target | None = None
    """The 99th percentile of the one-way delay of this flow's data."""

    owd_max: Target | None = None
    """The maximum one-way delay of this flow's data."""

    jitter: Target | None = None
    """The interarrival jitter of this UDP flow (RFC 3550)."""

    loss: Target | None = None
    """The share of lost packets of this flow or ping."""

    reordered: Target | None = None
    """The share of this flow's packets that arrived after a later one (RFC 4737)."""

    duplicates: Target | None = None
    """The number of duplicates of this UDP flow."""

    retransmits: Target | None = None
    """The number of retransmitted segments of this TCP flow."""

    sack_share: Target | None = None
    """The share of this TCP flow's acknowledgements that are selective."""

    settling: Target | None = None
    """The time from the start of `during` until this flow's throughput stays near its level."""

    dscp_kept: Target | None = None
    """The share of packets of this flow, or requests of this ping, that arrived with the DSCP with
    which they were sent."""

    during: Window | None = None
    """The window; by default the whole scenario."""

    @property
    def named(self) -> list[str]:
        """The metrics that are named; one, in a valid scenario."""
        return [name for name in METRICS if getattr(self, name) is not None]

    @property
    def metric(self) -> Metric:
        """The metric."""
        return METRICS[self.named[0]]

    @property
    def target(self) -> str:
        """Its target: the name of a flow or ping, or "total"."""
        return str(getattr(self, self.metric.name))

    @property
    def subject(self) -> str:
        """The metric, its target and its time: ``throughput of priority during 62 s..90 s``."""
        during = f" during {format_window(self.during)}" if self.during else ""
        return f"{self.metric.label} of {self.target}{during}"

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
