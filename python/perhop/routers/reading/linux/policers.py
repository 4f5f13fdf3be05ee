"""Policers of filters and of nftables, as policers of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.linux.model import Options
from perhop.units import format_rate, format_size

if TYPE_CHECKING:
    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.linux.model import Device, Filter

__all__ = ["of_actions", "of_text", "policer"]

_SENDS: Final = frozenset({"ok", "pass", "pipe", "continue"})


def of_actions(filter_: Filter, device: Device, ledger: Ledger) -> dict[str, Any] | None:
    """Return the policer among the actions of a filter; None if it has none."""
    for action in filter_.actions:
        if action.kind == "police":
            values = action.values
            index = values.get("index")
            if "rate" not in values and index is not None:
                values = next(
                    (
                        other.values
                        for each in device.filters
                        for other in each.actions
                        if other.kind == "police"
                        and other.values.get("index") == index
                        and "rate" in other.values
                    ),
                    values,
                )
            return policer(Options(filter_.place, values, ledger), action.verdict)
        if action.kind not in ("gact", "mirred"):
            ledger.approximated(filter_.place, f"the action {action.kind[:20]} is not modelled")
    return None


def policer(options: Options, verdict: str) -> dict[str, Any] | None:
    """Return a policer of tc's `police` action; None if it has no rate."""
    ledger = options.ledger
    rate, burst = options.rate("rate"), options.size("burst", "buffer", "maxburst")
    for key in options.values:
        if key not in (
            *("rate", "burst", "buffer", "maxburst", "mtu", "conform-exceed", "index"),
            *("peakrate", "minburst"),
        ):
            ledger.approximated(options.place, f"`{key[:30]}` of the policer is not modelled")
    if not rate or burst is None:
        ledger.ignored(options.place, "a policer without rate and burst is not modelled")
        return None
    exceed, _, conform = options.values.get("conform-exceed", verdict or "").partition("/")
    if not exceed:
        ledger.default(options.place, "conform-exceed", "reclassify", "tc-police(8): drops")
    if "mtu" not in options.values:
        ledger.default(options.place, "mtu", "2040 B", "iproute2, tc_calc_rtable: 2047, in cells")
    found: dict[str, Any] = {"rate": format_rate(rate), "burst": format_size(burst)}
    if exceed in _SENDS:
        found["exceed"] = "send"
        if exceed == "continue":
            ledger.approximated(options.place, "what exceeds stays in the class")
    if conform in ("drop", "shot"):
        found["conform"] = "drop"
    peak = options.rate("peakrate")
    if peak:
        mtu = options.size("mtu") or 2047
        found |= {"peak_rate": format_rate(max(peak, rate)), "peak_burst": format_size(mtu)}
        found["exceed"] = found.get("exceed", "drop")
    return found


def of_text(police: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return a policer from its settings; what is a mapping in it is pairs, too."""
    return {key: dict(value) if isinstance(value, tuple) else value for key, value in police}
