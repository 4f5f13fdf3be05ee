"""`perhop path`: probe the path to another host."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from perhop.cli import options
from perhop.cli.output import document, echo

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["path"]

_EXAMPLES = """\b
Examples:
  perhop path example.net
  perhop path --dscp ef --dscp be 192.0.2.1 198.51.100.9
  perhop lab exec office -- perhop path cloud
"""


@click.command(epilog=_EXAMPLES)
@click.argument("ends", nargs=-1, metavar="[SOURCE] DESTINATION")
@click.option("-4", "family", flag_value=4, type=int, help="Use IPv4.")
@click.option("-6", "family", flag_value=6, type=int, help="Use IPv6.")
@click.option(
    "--protocol",
    default="udp",
    show_default=True,
    type=click.Choice(["udp", "icmp"]),
    help="The protocol of the probes.",
)
@click.option(
    "--dscp",
    "dscps",
    multiple=True,
    metavar="DSCP",
    help="A DSCP to probe with, such as ef. Repeatable; be, ef, af11 and cs1 unless set.",
)
@click.option(
    "--ecn",
    default="ect0",
    show_default=True,
    type=click.Choice(["not-ect", "ect0", "ect1", "ce"]),
    help="The ECN field of the probes.",
)
@click.option(
    "--port",
    default=33434,
    show_default=True,
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="The destination port of UDP probes.",
)
@click.option(
    "--source-port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="The source port of the first flow; a free one unless set.",
)
@click.option(
    "--flow-label",
    type=click.IntRange(0, 2**20 - 1),
    metavar="N",
    help="The IPv6 flow label of the first flow; a random one unless set.",
)
@click.option(
    "--count",
    default=10,
    show_default=True,
    type=click.IntRange(1, 1000),
    metavar="N",
    help="The probes per hop and DSCP.",
)
@click.option(
    "--max-hops",
    default=30,
    show_default=True,
    type=click.IntRange(1, 255),
    metavar="N",
    help="The greatest time to live.",
)
@click.option(
    "--rate",
    default=100,
    show_default=True,
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="The greatest number of probes per second.",
)
@click.option(
    "--confidence",
    default=0.999,
    show_default=True,
    type=click.FloatRange(0.5, 1 - 1e-9, max_open=False),
    metavar="P",
    help="The probability of finding all next hops of a router that shares load.",
)
@click.option("--no-multipath", is_flag=True, help="Do not search for parallel paths.")
@click.option("--no-mtu", is_flag=True, help="Do not measure the path MTU.")
@click.option(
    "--capacity",
    is_flag=True,
    help="Measure the capacity of each link, by trains of packets at full rate.",
)
@click.option(
    "--buckets",
    is_flag=True,
    help="Find policers and shapers by trains to a responder at the destination.",
)
@click.option(
    "--available",
    is_flag=True,
    help="Measure the available bandwidth by streams to a responder at the destination.",
)
@click.option(
    "--respond",
    is_flag=True,
    help="Run a responder for --buckets and --available on this host instead, until Ctrl-C.",
)
@click.option(
    "--listen",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address of the responder.",
)
@click.option(
    "--responder-port",
    default=4862,
    show_default=True,
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="The UDP port of the responder.",
)
@click.option(
    "--max-rate",
    default="1 Gbps",
    show_default=True,
    metavar="RATE",
    help="The greatest rate of trains to a responder, or that a responder allows.",
)
@click.option("--names", "with_names", is_flag=True, help="Look up the names of routers in DNS.")
@click.option(
    "--limit",
    default="5 min",
    show_default=True,
    metavar="TIME",
    help="The time after which all measurements end; what was measured is printed.",
)
@click.option(
    "--out",
    type=click.Path(),
    callback=options.as_folder,
    metavar="DIR",
    help="Write a page, path.html, into this folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def path(
    ends: tuple[str, ...],
    family: int | None,
    protocol: str,
    dscps: tuple[str, ...],
    ecn: str,
    port: int,
    source_port: int | None,
    flow_label: int | None,
    count: int,
    max_hops: int,
    rate: int,
    confidence: float,
    no_multipath: bool,
    no_mtu: bool,
    capacity: bool,
    buckets: bool,
    available: bool,
    respond: bool,
    listen: str,
    responder_port: int,
    max_rate: str,
    with_names: bool,
    limit: str,
    out: Path | None,
    as_json: bool,
) -> int:
    """Probe the path from this host to another one.

    Prints every hop with its address, round-trip times, loss and path MTU, the hops that change a
    DSCP or an ECN field, and the routers that share load. SOURCE is an address of this host.

    Raw sockets need root or CAP_NET_RAW.
    """
    import perhop.path as paths
    from perhop.errors import UsageError
    from perhop.path import ECN, names, trace
    from perhop.scenario import parse_dscp
    from perhop.units import SECOND, parse_duration, parse_rate

    try:
        most = parse_rate(max_rate)
    except ValueError as error:
        raise UsageError(f"--max-rate: {error}") from None
    try:
        limit_s = -(-parse_duration(limit) // SECOND)
    except ValueError as error:
        raise UsageError(f"--limit: {error}") from None
    if limit_s < 1:
        raise UsageError("--limit: expected more than 0 s")
    if respond:
        if ends:
            raise UsageError("--respond has no destination: it answers others until Ctrl-C")
        paths.respond(listen, responder_port, max_rate=most)
        return 0
    if not 1 <= len(ends) <= 2:
        raise UsageError("expected a destination, or a source and a destination")
    *source, destination = ends
    try:
        codes = [parse_dscp(text) for text in dscps or ("be", "ef", "af11", "cs1")]
    except ValueError as error:
        raise UsageError(f"--dscp: {error}") from None
    end_s = time.monotonic() + limit_s
    report = trace(
        destination,
        source=source[0] if source else None,
        family=family,
        protocol=protocol,
        dscp=codes,
        ecn=ECN[ecn],
        port=port,
        source_port=source_port,
        flow_label=flow_label,
        count=count,
        max_hops=max_hops,
        rate=rate,
        confidence=confidence,
        multipath=not no_multipath,
        mtu=not no_mtu,
        capacity=capacity,
        limit_s=limit_s,
    )
    for wanted, name, measure in (
        (buckets, "buckets", paths.buckets),
        (available, "available", paths.available),
    ):
        if not wanted:
            continue
        report[name] = []
        # The limit is one of all measurements.
        if (left_s := round(end_s - time.monotonic())) > 0:
            with suppress(paths.TimeLimitError):
                report[name] = measure(
                    destination,
                    port=responder_port,
                    family=family,
                    dscp=codes,
                    # Without a path MTU: the least that IPv6 allows (RFC 8200, section 5).
                    mtu=report["path_mtu"] or 1280,
                    max_rate=most,
                    limit_s=left_s,
                )
        if len(report[name]) < len(dict.fromkeys(codes)):
            report["unfinished"].append(name)
    known = names(report) if with_names else {}
    if as_json:
        document(json.dumps({**report, "names": known}, indent=2, allow_nan=False))
    if as_json and out is None:
        return 0
    from perhop.report.path import lead, path_tables, save_path

    if not as_json:
        from perhop.cli.render import print_table

        echo(lead(report))
        for table in path_tables(report, known):
            echo()
            print_table(table)
    if out is not None:
        for file in save_path(report, out, known):
            echo(file, err=as_json)
    return 0
