"""The tables of radio channels and of tunnels."""

from typing import Any

from perhop import analysis
from perhop.dataset import Dataset
from perhop.report import text
from perhop.report.tables import Column, Table


def sharing_tables(dataset: Dataset) -> list[Table]:
    """Return the tables of radio channels and of tunnels, if the scenario has any."""
    tables = (channel_table(dataset), tunnel_table(dataset))
    return [table for table in tables if table is not None]


def channel_table(dataset: Dataset) -> Table | None:
    """Return what directed links send on their radio channels; None without channels."""
    loads = analysis.station_loads(dataset)
    rows: list[tuple[str, ...]] = []
    for channel in dataset.scenario.channels:
        for row in loads.filter(channel=channel).iter_rows(named=True):
            frames, sent = row["frames"], row["transmissions"]
            shares = (row["retransmissions"], row["failed_frames"])
            rows.append(
                (
                    channel,
                    row["link"],
                    text.size(row["sent_bytes"]),
                    text.count(sent),
                    text.ratio(frames / sent) if sent else text.ABSENT,
                    *(text.share(part / frames) if frames else text.ABSENT for part in shares),
                    text.count(row["abandoned_frames"]),
                    text.count(row["collisions"]),
                    text.duration(row["airtime_s"]),
                    text.count(row["resource_blocks"]),
                    text.share(row["utilisation"]),
                )
            )
        rows += [
            (channel, part, *(text.ABSENT,) * 9, text.share(used))
            for part, used in analysis.channel_directions(dataset, channel).items()
        ]
    if not rows:
        return None
    names = (
        "in the air",
        "transmissions",
        "frames in one",
        "retransmitted",
        "failed",
        "given up",
        "collisions",
        "airtime",
        "resource blocks",
        "busy",
    )
    columns = (*(Column(name, "left") for name in ("channel", "link")), *map(Column, names))
    note = (
        "A frame is one of Wi-Fi, or a transport block of LTE. Shares are of the frames. RLC sends "
        "blocks again that HARQ has given up."
    )
    return Table("Radio channels", columns, tuple(rows), note)


def tunnel_table(dataset: Dataset) -> Table | None:
    """Return the counters of tunnels; None without tunnels."""

    def shown(metric: str, row: dict[str, Any]) -> str:
        value = analysis.tunnel_metric(dataset, metric, row["tunnel"], row["entry"])
        return text.ABSENT if value is None else text.share(value)

    rows = tuple(
        (
            row["tunnel"],
            row["entry"],
            text.count(row["encapsulated_packets"]),
            text.size(row["encapsulated_bytes"]),
            text.size(row["outer_bytes"]),
            shown("tunnel_overhead", row),
            *map(text.count, (row["dropped_too_long"], row["dropped_no_route"])),
            text.count(row["decapsulated_packets"]),
            text.size(row["decapsulated_bytes"]),
            text.count(row["dropped_ecn"]),
            shown("tunnel_loss", row),
        )
        for row in analysis.tunnel_counters(dataset).iter_rows(named=True)
    )
    if not rows:
        return None
    names = (
        "in",
        "bytes",
        "outer bytes",
        "overhead",
        "too long",
        "no route",
        "out",
        "bytes out",
        "ECN error",
        "loss",
    )
    columns = (*(Column(name, "left") for name in ("tunnel", "from")), *map(Column, names))
    note = (
        "Packets and bytes before and behind the tunnel; outer bytes include its headers. Packets "
        "that are too long to enter are answered with ICMP errors."
    )
    return Table("Tunnels", columns, rows, note)
