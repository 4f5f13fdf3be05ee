"""Applications over connections: clients at a flow's destination, which its source serves."""

from decimal import Context, Decimal
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perhop.scenario.model.base import Model, with_short_form
from perhop.scenario.model.names import Name
from perhop.scenario.model.quantities import (
    Duration,
    ExchangeSize,
    ObjectCount,
    ParetoShape,
    PositiveDuration,
    Rate,
    Share,
    Sigma,
)
from perhop.units import SECOND, WHOLE

MOST_CONNECTIONS: Final = 1000
"""The most simultaneous connections of a client of transfers or calls; further requests wait."""

TABLES: Final = MappingProxyType(
    {
        # Alizadeh et al., pFabric: Minimal Near-Optimal Datacenter Transport (SIGCOMM 2013), figure
        # 4a, which has the web search workload of Alizadeh et al., Data Center TCP (DCTCP)
        # (SIGCOMM 2010): the points that ETH Zurich's simulator netbench has of it, in parts per
        # billion.
        "web-search": (
            (10_000, 150_000_000),
            (20_000, 200_000_000),
            (30_000, 300_000_000),
            (50_000, 400_000_000),
            (80_000, 530_000_000),
            (200_000, 600_000_000),
            (1_000_000, 700_000_000),
            (2_000_000, 800_000_000),
            (5_000_000, 900_000_000),
            (10_000_000, 970_000_000),
            (30_000_000, 1_000_000_000),
        ),
        # The same, figure 4b: the data mining workload of Greenberg et al., VL2: A Scalable and
        # Flexible Data Center Network (SIGCOMM 2009).
        "data-mining": (
            (180, 100_000_000),
            (216, 200_000_000),
            (560, 300_000_000),
            (900, 400_000_000),
            (1_100, 500_000_000),
            (1_870, 600_000_000),
            (3_160, 700_000_000),
            (10_000, 800_000_000),
            (400_000, 900_000_000),
            (3_160_000, 950_000_000),
            (100_000_000, 980_000_000),
            (1_000_000_000, 1_000_000_000),
        ),
    }
)
"""Published distributions of sizes: sizes in bytes, and the share of sizes up to there. Sizes
between two points are distributed uniformly, also below the first, from 0 bytes."""

_Sizes = Literal["equal", "exponential", "pareto", "lognormal", "web-search", "data-mining"]


class _Exchanges(Model):
    """Requests and responses that do not depend on each other."""

    every: PositiveDuration | None = None
    """The mean time between two requests of a client, whatever becomes of earlier ones."""

    load: Share | None = None
    """The mean rate of the data that all clients ask for, as a share of the bottleneck's rate,
    instead of `every`."""

    think: Duration | None = None
    """The mean time between the end of a response and the next request, instead of `every`."""

    pattern: Literal["constant", "poisson"] | None = None
    """The times: all equal, or exponentially distributed, which is a Poisson process with `every`
    and `load`. By default `poisson` with `load`, otherwise `constant`."""

    server_time: Duration = 0
    """The time that the server takes before it answers."""

    @property
    def pace(self) -> list[str]:
        """The keys that are given of those that say when requests are sent; one is."""
        return [key for key in ("every", "load", "think") if getattr(self, key) is not None]

    @property
    def effective_pattern(self) -> str:
        """The pattern that is used."""
        return self.pattern or ("poisson" if self.load is not None else "constant")


class Transfers(_Exchanges):
    """Requests for data, whose completion times count."""

    size: ExchangeSize | None = None
    """The mean size of a transfer; published distributions have one of their own."""

    sizes: _Sizes = "equal"
    """The distribution of sizes: all equal, exponential, Pareto, log-normal, or a published one
    (see `TABLES`)."""

    shape: ParetoShape | None = None
    """The shape of a Pareto distribution; 1.5, with infinite variance."""

    sigma: Sigma | None = None
    """The standard deviation of the logarithm of log-normal sizes; 1."""

    request: ExchangeSize = 200
    """The size of a request."""

    connections: Literal["new", "reused"] = "new"
    """A new connection for each transfer, or connections that stay open."""

    @property
    def mean_size(self) -> float:
        """The mean size of a transfer in bytes."""
        if self.sizes not in TABLES:
            return float(self.size or 0)
        mean, below, from_share = 0.0, 0, 0
        for size, share in TABLES[self.sizes]:
            mean += (share - from_share) / WHOLE * (below + size) / 2
            below, from_share = size, share
        return mean

    @property
    def effective_shape(self) -> int:
        """The shape of a Pareto distribution in thousandths."""
        return 1500 if self.shape is None else self.shape

    @property
    def effective_sigma(self) -> int:
        """The standard deviation of the logarithm of sizes in thousandths."""
        return 1000 if self.sigma is None else self.sigma

    @property
    def median_size(self) -> int:
        """The median of log-normal sizes in bytes."""
        # Decimals have the same digits on every platform, unlike the C library's functions.
        ratio = (Decimal(self.effective_sigma) ** 2 / 2_000_000).exp(Context(prec=28))
        return max(1, round((self.size or 0) / ratio))


class Rpc(_Exchanges):
    """Remote procedure calls: requests and responses of a constant size."""

    request: ExchangeSize = 200
    """The size of a request."""

    response: ExchangeSize = 1000
    """The size of a response."""

    connections: Literal["new", "reused"] = "reused"
    """A new connection for each call, or connections that stay open."""

    @property
    def mean_size(self) -> float:
        """The size of a response in bytes."""
        return float(self.response)


Exchanges = Transfers | Rpc
"""Applications whose requests do not depend on each other."""

VIDEOS: Final = MappingProxyType(
    {
        # HLS Authoring Specification for Apple Devices: H.264 bit rates for 30 fps, and segments of
        # 6 s. A buffer of 30 s is the default of hls.js (maxBufferLength).
        "hls": {
            "bitrates": [
                *("145 kbps", "365 kbps", "730 kbps", "1100 kbps", "2000 kbps"),
                *("3000 kbps", "4500 kbps", "6000 kbps", "7800 kbps"),
            ],
            "segment": "6 s",
            "buffer": "30 s",
            "algorithm": "throughput",
        },
        # Netflix, Per-Title Encode Optimization (2015): the fixed bit rates before that. Huang et
        # al., A Buffer-Based Approach to Rate Adaptation (SIGCOMM 2014): segments of 4 s, 240 s.
        "netflix": {
            "bitrates": [
                *("235 kbps", "375 kbps", "560 kbps", "750 kbps", "1050 kbps"),
                *("1750 kbps", "2350 kbps", "3000 kbps", "4300 kbps", "5800 kbps"),
            ],
            "segment": "4 s",
            "buffer": "240 s",
            "algorithm": "buffer",
        },
    }
)
"""Published settings of video services, as files have them."""


class Video(Model):
    """Adaptive video: segments, each at one of several bit rates, and a buffer that plays them."""

    short_form: ClassVar[str] = "the name of a preset"

    preset: Literal["hls", "netflix"] | None = None
    """Published settings that are the defaults of the others: `hls`, unless bit rates are given."""

    bitrates: Annotated[tuple[Rate, ...], Field(min_length=1, max_length=100)]
    """The bit rates, rising."""

    segment: PositiveDuration = 6 * SECOND
    """The playing time of a segment."""

    buffer: PositiveDuration = 30 * SECOND
    """The playing time that the client buffers."""

    startup: PositiveDuration | None = None
    """The playing time in the buffer with which playback begins, and continues after a stall; one
    segment unless set."""

    length: PositiveDuration | None = None
    """The playing time of the video; by default it has no end."""

    algorithm: Literal["throughput", "buffer"] = "throughput"
    """The choice of the next segment's bit rate. `throughput`: the highest below the harmonic mean
    of the throughput of the last five segments. `buffer`: BBA-0 (Huang et al., 2014), which goes by
    the buffered playing time only."""

    @property
    def effective_startup(self) -> int:
        """The playing time with which playback begins, in picoseconds."""
        return self.segment if self.startup is None else self.startup

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, value: object) -> object:
        if isinstance(value, str):
            value = {"preset": value}
        if isinstance(value, dict):
            if value.get("preset") is None and "bitrates" not in value:
                value = {**value, "preset": "hls"}
            if isinstance(name := value.get("preset"), str):
                return VIDEOS.get(name, VIDEOS["hls"]) | value
        return value

    @model_serializer(mode="wrap")
    def _beside_preset(self, handler: SerializerFunctionWrapHandler) -> Any:
        """Write the defaults, which are those of `hls`, where the preset has other values."""
        written = handler(self)
        if isinstance(written, dict) and self.preset is not None:
            preset = VIDEOS[self.preset]
            return {
                **{key: value for key, value in VIDEOS["hls"].items() if preset[key] != value},
                **written,
            }
        return written

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A preset's name, or a mapping."""
        whole = with_short_form(schema, handler, {"enum": [*VIDEOS]})
        whole["anyOf"][1].pop("required", None)
        return whole


PAGES: Final = MappingProxyType(
    {
        # HTTP Archive, Web Almanac 2024, chapter Page Weight: medians of desktop pages in October
        # 2024. Requests: 2 HTML, 8 CSS, 24 JavaScript, 18 images, 4 fonts; bytes of home pages:
        # 18 KB, 78 KB, 613 KB, 1054 KB and 131 KB. It does not say what reveals what: style sheets
        # name fonts, and the page everything else.
        "desktop": {
            "page": {"count": 1, "size": "9 kB"},
            "frames": {"count": 1, "size": "9 kB", "after": "page"},
            "styles": {"count": 8, "size": "9750 B", "after": "page"},
            "scripts": {"count": 24, "size": "25542 B", "after": "page"},
            "images": {"count": 18, "size": "58556 B", "after": "page"},
            "fonts": {"count": 4, "size": "32750 B", "after": "styles"},
        },
    }
)
"""Published pages, as files have their objects."""

MOST_OBJECTS: Final = 10_000
"""The most objects of a page."""


class Objects(Model):
    """Equal objects of a page."""

    count: ObjectCount = 1
    """Their number."""

    size: ExchangeSize
    """The size of each."""

    after: Name | None = None
    """The objects that reveal them, by their key above: of several, each reveals its part."""

    server_time: Duration = 0
    """The time that the server takes before it answers."""


class Web(Model):
    """Pages of objects, one page after the other, each over new connections."""

    short_form: ClassVar[str] = "the name of a page"

    page: Literal["desktop"] | None = None
    """A published page: its objects; `desktop`, unless there are `objects`."""

    objects: Annotated[dict[Name, Objects], Field(min_length=1, max_length=100)]
    """The objects of a page."""

    connections: Literal["multiplexed", "http1"] = "multiplexed"
    """One connection that interleaves the objects, as HTTP/2 does, and HTTP/3 with `quic`; or up to
    six, each with one object at a time, as browsers have with HTTP/1.1."""

    think: Duration = 5 * SECOND
    """The mean time between the end of a page and the next one."""

    pattern: Literal["constant", "poisson"] = "constant"
    """The times between pages: all equal, or exponentially distributed."""

    request: ExchangeSize = 500
    """The size of a request."""

    @property
    def number(self) -> int:
        """The number of objects of a page."""
        return sum(group.count for group in self.objects.values())

    @model_validator(mode="before")
    @classmethod
    def _from_page(cls, value: object) -> object:
        if isinstance(value, str):
            value = {"page": value}
        if isinstance(value, dict):
            if value.get("page") is None and "objects" not in value:
                value = {**value, "page": "desktop"}
            if isinstance(name := value.get("page"), str):
                return {"objects": PAGES.get(name, PAGES["desktop"])} | value
        return value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A page's name, or a mapping."""
        whole = with_short_form(schema, handler, {"enum": [*PAGES]})
        whole["anyOf"][1].pop("required", None)
        return whole


APPLICATIONS: Final = ("transfers", "rpc", "web", "video")
"""The keys of a flow that name its application."""
