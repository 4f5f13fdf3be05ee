"""The status of a lab as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perhop.cli.output import echo

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["show"]


def show(stands: dict[str, Any]) -> None:
    """Print the status of a lab as a table."""
    from perhop.cli.render import print_table
    from perhop.report.tables import Column, Table
    from perhop.units import format_rate

    columns = ("sent_packets", "sent_bytes", "dropped_packets")
    rows = []
    for link, found in stands["links"].items():
        reserved = {f"{name} (reserved)": each for name, each in found.get("reserved", {}).items()}
        lost = found["link"]["lost_packets"]
        for class_name, counters in {**found["classes"], **reserved}.items():
            police = [counters[key] for key in ("conformed_packets", "exceeded_packets")]
            rows.append(
                (
                    link,
                    class_name,
                    format_rate(round(counters["rate_bps"])),
                    *(f"{counters[key]:,}" for key in columns),
                    f"{lost:,}" if lost else "",
                    f"{counters['backlog_packets']:,}",
                    *(f"{count:,}" if any(police) else "" for count in police),
                )
            )
            lost = 0  # the wire's, whatever the class
    names = ("rate", "packets", "bytes", "dropped", "lost", "waiting", "conformed", "exceeded")
    heads = [Column("link", "left"), Column("class", "left")]
    title = f"{stands['name']}, up for {stands['up_s']:.0f} s"
    print_table(Table(title, (*heads, *(Column(each, "right") for each in names)), tuple(rows)))
    for line in _remarks(stands):
        echo(line)


_NOT_CARRIED = {
    "foreign": "to everybody or a group, or not from their host's address: not carried",
    "malformed": "no IP packets, or longer than their host may send",
    "overruns": "dropped by hosts, as perhop was late to read them",
    "overflow": "lost, as too many are under way",
    "refused": "not taken by their host",
}
"""Causes of losses of packets that are on no link."""


def _remarks(stands: dict[str, Any]) -> Iterator[str]:
    """Return remarks about a lab that no column of its table has."""
    for key, meaning in _NOT_CARRIED.items():
        if stands["network"].get(key):
            yield f"{key}: {stands['network'][key]:,} (packets {meaning})"
    for host in stands["hosts_without_device"]:
        yield f"{host}: its device perhop0 was taken away; nothing reaches it until the lab is new"
    for each in stands["captures"]:
        state = "goes on" if each["ended"] is None else f"ended: {each['reason']}"
        left_out = each["left_out_bytes"]
        slow = f", {left_out:,} B left out as the file is too slow" if left_out else ""
        what = f"{', '.join(each['links'])} to {each['file']}"
        yield f"capture of {what}: {each['bytes']:,} B{slow}, {state}"
