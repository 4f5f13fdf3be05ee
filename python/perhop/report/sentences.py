"""Sentences about a run."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from perhop import analysis
from perhop.dataset import Dataset
from perhop.report import text
from perhop.report.timeline import stretches

_MOST: Final = 5
"""Flows of a kind that the sentences describe."""


def warning_lines(dataset: Dataset) -> list[str]:
    """Return the warnings about the results, one per line."""
    return [f"warning: {warned}" for warned in dataset.warnings]


def lead(dataset: Dataset) -> str:
    """Describe the run in a sentence or two: which flows yielded, and whether expectations hold."""
    sentences = []
    table = analysis.phases(dataset, stretches(dataset.scenario))
    groups = {
        span: dict(zip(rows["flow"], rows["throughput_bps"], strict=True))
        for span, rows in table.group_by("start_s", "end_s", maintain_order=True)
    }
    if groups:
        senders = _senders(dataset, list(groups))
        busiest = max(groups, key=lambda span: len(senders[span]))
        rates = groups[busiest]
        known = [flow for flow in senders[busiest] if rates[flow] is not None]
        ranked = sorted(known, key=lambda flow: -rates[flow])[:_MOST]
        link, rate = _shared(dataset, busiest)
        shares = [
            f"{flow} {'got ' if flow == ranked[0] else ''}{text.rate(rates[flow])}"
            + (f" ({text.share(rates[flow] / rate)})" if rate else "")
            for flow in ranked
        ]
        if shares:
            of = f" of {link} at {text.stated(rate, 'bps')}" if rate else ""
            when = text.window(*busiest)
            sentences.append(f"When most were sending ({when}), {text.listed(shares)}{of}.")
    for said in (_calls, _pages, _videos, _bufferbloat):
        sentences += islice(said(dataset), _MOST)
    judged = [verdict.ok for verdict in analysis.verdicts(dataset)]
    failed, missed = judged.count(False), judged.count(None)
    if failed:
        sentences.append(f"{failed} of {len(judged)} expectations fail.")
    if missed:
        sentences.append(f"{missed} of {len(judged)} expectations were not reached.")
    if judged and not failed and not missed:
        sentences.append(f"All {len(judged)} expectations hold.")
    if not dataset.manifest.complete:
        sentences.append(f"The run was cut off at {text.clock(dataset.covered_s)} s.")
    return " ".join(sentences)


def _calls(dataset: Dataset) -> Iterator[str]:
    """Describe the calls of each flow that has some."""
    for name, flow in dataset.scenario.flows.items():
        scores = analysis.of_calls(analysis.calls(dataset, name), "mos") if flow.voice else None
        if scores is not None and flow.all_streams == 1:
            yield f"The mean opinion score of {name} is {scores.worst:.2f}."
        elif scores is not None:
            yield (
                f"The mean opinion score of {name} is {scores.mean:.2f}, that of the worst call "
                f"{scores.worst:.2f}."
            )


def _pages(dataset: Dataset) -> Iterator[str]:
    """Describe the pages of each flow that has some."""
    for name, flow in dataset.scenario.flows.items():
        took = analysis.page_loads(dataset, name) if flow.web else None
        if took is not None:
            yield f"The median load time of the pages of {name} is {text.duration(took.median)}."


def _videos(dataset: Dataset) -> Iterator[str]:
    """Describe the videos of each flow that has some."""
    for name, flow in dataset.scenario.flows.items():
        found = analysis.video(dataset, name) if flow.video else None
        if found is None or found.bitrate is None:
            continue
        viewers = "" if flow.all_streams == 1 else f", over {flow.all_streams} viewers"
        stalls = "1 stall" if found.stalls == 1 else f"{text.count(found.stalls)} stalls"
        waited = f", {text.duration(found.stall_time)} in all" if found.stalls else ""
        yield (
            f"The video of {name} has {stalls}{waited}{viewers}, and a mean bit rate of "
            f"{text.rate(found.bitrate)}."
        )


def _bufferbloat(dataset: Dataset) -> Iterator[str]:
    """Describe the grades that the scenario asks for."""
    for item, window in analysis.expected(dataset, "bufferbloat"):
        (ping,) = item.targets
        found = analysis.bufferbloat(dataset, ping, window)
        if found is not None:
            yield f"The bufferbloat grade of {ping} is {found.grade}."


def _shared(dataset: Dataset, span: tuple[object, ...]) -> tuple[str | None, int | None]:
    """Return the common bottleneck of all flows of a phase, and its rate; None if there is none."""
    rows = analysis.bottlenecks(dataset).filter(flow=analysis.TOTAL, start_s=span[0])
    rows = rows.filter(end_s=span[1])
    return rows.select("link", "rate_bps").row(0) if len(rows) else (None, None)


def _senders(
    dataset: Dataset, spans: list[tuple[object, ...]]
) -> dict[tuple[object, ...], list[str]]:
    """Return the flows that are active throughout each phase."""
    windows = {flow: analysis.active(dataset, flow) for flow in dataset.scenario.flows}
    return {
        (start, end): [f for f, w in windows.items() if w and w[0] <= start and end <= w[1]]  # type: ignore[operator]
        for start, end in spans
    }
