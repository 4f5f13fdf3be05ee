"""Numbers for people: three significant digits and a unit."""

from collections.abc import Callable
from typing import Any, Final

from perhop.analysis import Comparison
from perhop.scenario import Change, PoliceChange
from perhop.scenario.model.background import Background
from perhop.scenario.model.changes import NO_POLICY
from perhop.scenario.model.loss import BurstLoss, mean_loss
from perhop.units import format_share

_RATES: Final = ((1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1, "b/s"))
_SIZES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))
_TIMES: Final = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))

ABSENT: Final = "\N{EN DASH}"
"""Text of a cell without a value."""


def rate(bps: float | None) -> str:
    """`9.41 Mb/s`."""
    return _scaled(bps, _RATES)


def size(octets: float | None) -> str:
    """`1.18 GB`, decimal."""
    return _scaled(octets, _SIZES)


def duration(seconds: float | None) -> str:
    """`116 ms`."""
    return _scaled(seconds, _TIMES)


def share(part: float | None) -> str:
    """`87.1%` of 0.871."""
    return ABSENT if part is None else f"{_digits(100 * part)}%"


def difference(part: float | None) -> str:
    """`+3.2%` or `-12%` of 0.032 or -0.12; beyond tenfold a factor, `20.0 times`."""
    if part is None:
        return ABSENT
    if part >= 9:
        return f"{_digits(part + 1)} times"
    return "0%" if round(abs(part), 3) == 0 else f"{100 * part:+.1f}%"


def ratio(value: float | None) -> str:
    """`0.987` or `-0.42`: a number without a unit."""
    return ABSENT if value is None else _digits(value)


def count(number: float | None) -> str:
    """`1,234,567`."""
    return ABSENT if number is None else f"{round(number):,}"


def quantity(value: float | None, unit: str) -> str:
    """A value in one of the units of `perhop.analysis`: bps, s, share, B, packets or ratio."""
    return _WRITERS[unit](value)


_WRITERS: Final = {
    "bps": rate,
    "s": duration,
    "share": share,
    "B": size,
    "packets": count,
    "ratio": ratio,
}


def stated(value: float, unit: str) -> str:
    """A configured or published value, which is as exact as it looks: `10 Mb/s`, not `10.0`."""
    number, _, name = quantity(value, unit).partition(" ")
    if "." in number:
        percent = "%" * number.endswith("%")
        number = number.removesuffix("%").rstrip("0").rstrip(".") + percent
    return f"{number} {name}".rstrip()


def published(compared: Comparison) -> str:
    """A published value as the document puts it: `about 8.7 Mb/s`; a picture has none."""
    if compared.published is None:
        return ABSENT
    shown = stated(compared.published, compared.unit)
    return shown if compared.qualifier == "exactly" else f"{compared.qualifier} {shown}"


def clock(seconds: float) -> str:
    """An instant of the run without its unit: `30` or `62.5`."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def window(start: float, end: float) -> str:
    """`62-90 s`."""
    return f"{clock(start)}\N{EN DASH}{clock(end)} s"


def listed(items: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(items[:-1])] * (len(items) > 1) + items[-1:])


def rate_unit(bps: float) -> tuple[float, str]:
    """The unit for an axis up to `bps`: how many bits per second it is, and its name."""
    return _unit(bps, _RATES)


def time_unit(seconds: float) -> tuple[float, str]:
    """The unit for an axis up to `seconds`: how many seconds it is, and its name."""
    return _unit(seconds, _TIMES)


def size_unit(octets: float) -> tuple[float, str]:
    """The unit for an axis up to `octets`: how many bytes it is, and its name."""
    return _unit(octets, _SIZES)


def _unit(value: float, units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    # 999.6 rounds to 1000, and belongs to the next unit.
    return next((unit for unit in units if value >= 0.9995 * unit[0]), units[-1])


def _scaled(value: float | None, units: tuple[tuple[float, str], ...]) -> str:
    if value is None:
        return ABSENT
    if value == 0:
        return f"0 {units[0][1] if units is _TIMES else units[-1][1]}"
    factor, name = _unit(value, units)
    return f"{_digits(value / factor)} {name}"


def _digits(value: float) -> str:
    """Three significant digits, without an exponent or trailing zeros after the point."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    decimals = 0
    while abs(value) * 10**decimals < 99.95 and decimals < 2 + 3:
        decimals += 1
    return f"{value:.{decimals}f}"


def background(named: tuple[str, Background]) -> str:
    """Return a sentence about background traffic, which is given by its name and its settings."""
    name, traffic = named
    pattern = "self-similar" if traffic.like == "internet" else "Poisson"
    load = format_share(traffic.load)
    return f"{name} is background traffic: {load} of {traffic.link} on average, {pattern}."


def change(change: Change) -> str:
    """Return the changes in the network in a few words: ``r1>r2: 20 Mb/s, down``."""
    words = [] if change.class_ is None else [change.class_]
    if change.police is not None:
        words.append(f"policed to {_settings(change.police)}")
    words = [" ".join(words)] if words else []
    if change.policy is not None:
        words.append("no policy" if change.policy == NO_POLICY else f"policy {change.policy}")
    words += _by_end(change.rate, "", rate)
    words += _by_end(change.delay, "delay ", lambda delay: duration(delay / 1e12))
    words += _by_end(change.loss, "loss ", _loss)
    if change.state is not None:
        words.append(change.state)
    if change.clear is not None:
        words.append("counters cleared")
    parts = [f"{change.on}: {', '.join(words)}" if change.on else ", ".join(words)]
    if change.node is not None:
        parts.append(f"{change.node}: balance {change.balance}")
    return "; ".join(filter(None, parts))


def _loss(loss: int | BurstLoss) -> str:
    bursts = " in bursts" if isinstance(loss, BurstLoss) else ""
    return share(mean_loss(loss) / 1e9) + bursts


def _by_end(value: Any, label: str, shown: Callable[[Any], str]) -> list[str]:
    """Return the words of a new value of a link, or of its values by sending end."""
    if value is None:
        return []
    if isinstance(value, dict):
        return [f"{label}{shown(own)} from {end}" for end, own in value.items()]
    return [label + shown(value)]


def _settings(police: PoliceChange) -> str:
    words = []
    if police.rate is not None and police.rate.share is not None:
        words.append(share(police.rate.share / 1e9))
    elif police.rate is not None:
        words.append(rate(police.rate.rate))
    if police.burst is not None:
        words.append(f"burst {size(police.burst)}")
    return ", ".join(words)
