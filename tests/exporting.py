"""Scenarios for tests of writers of configurations: a router and its policy."""

from hypothesis import reject
from hypothesis import strategies as st

from perhop import Scenario, ScenarioError, parse
from perhop.routers.writing import write

NETWORK = """
perhop: 1
name: written
title: {title}
nodes: {{a: host, r: {router}, s: router, b: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps}}
  - {{ends: [r, s], rate: 10 Mbps, egress: {{r: p}}{link}}}
  - {{ends: [s, b], rate: 1 Gbps}}
policies:
  p: {{{policy}}}
  {more}
duration: 1 s
{rest}
"""


def network(
    policy: str,
    *,
    link: str = "",
    title: str = "A title",
    router: str = "router",
    more: str = "",
    rest: str = "",
) -> str:
    """Return a scenario whose router r sends into r>s by a policy."""
    return NETWORK.format(
        title=title, router=router, link=link, policy=policy, more=more, rest=rest
    )


def classes(*lines: str, scheduler: str = "") -> str:
    """Return a policy with classes, none of which has traffic."""
    found = []
    for line in lines:
        name, settings = line.split(": ", 1)
        found.append(f"{name}: {{{settings}, unused: true}}")
    head = f"scheduler: {scheduler}, " if scheduler else ""
    return f"{head}classes: {{{', '.join(found)}}}"


def scenario(*lines: str, scheduler: str = "", **settings: str) -> Scenario:
    """Return a scenario with these classes at r>s."""
    return parse(network(classes(*lines, scheduler=scheduler), **settings))


def written(found: Scenario, family: str, *, approximate: bool = False) -> list[str]:
    """Return the lines of a configuration that are no comments."""
    text, gaps = write(found, family, links=["r>s"], approximate=approximate)  # type: ignore[arg-type]
    assert gaps == ()
    return [line for line in text.splitlines() if not line.startswith(("!", "#", "/*"))]


def refused(found: Scenario, family: str) -> dict[str, str]:
    """Return the gaps of a configuration, by their places."""
    _, gaps = write(found, family, links=["r>s"])  # type: ignore[arg-type]
    return {gap.path: gap.reason for gap in gaps}


TWO_COLOURS = "{rate: 1 Mbps, burst: 8 kB}"
REMARKED = "{rate: 10%, burst: 8 kB, exceed: {remark: be}}"
SINGLE_RATE = "{rate: 1 Mbps, burst: 8 kB, excess_burst: 4 kB, exceed: {remark: af12}}"
TWO_RATES = "{rate: 1 Mbps, burst: 8 kB, peak_rate: 20%, peak_burst: 9 kB, violate: send}"
SENT = "{rate: 1 Mbps, burst: 8 kB, exceed: send}"


MATCHES = (
    "{{dscp: [{0}, {1}]}}",
    "{{dscp: {0}, protocol: [tcp, udp]}}",
    "{{dscp: {0}, protocol: udp, port: 22}}",
    "{{dscp: {0}, protocol: tcp, destination_port: 80-83}}",
    "{{dscp: {1}, source: 10.2.0.0/16}}",
)
POLICERS = (TWO_COLOURS, SENT, "{rate: 10%, burst: 20 kB}", REMARKED)
CEILINGS = ("limit: 70%", "limit: 8 Mbps", "shape: {rate: 9 Mbps, burst: 20 kB}", "borrow: false")
QUEUES = {
    "tc": (
        *("10 packets", "20 kB", "30 ms", "1000 packets, drop: head", "100 packets, fq-codel: {}"),
        *("99 packets, codel: {}", "200 packets, pie: {}", "64 packets, sfq: {}"),
        "99 packets, fq-codel: {flows: 64, target: 10 ms, interval: 200 ms, ecn: false}",
        "60 kB, red: {min: 10 kB, max: 30 kB, gentle: false, weight: 0.1953125%}",
    ),
    "ios": ("10 packets", "20 kB", "30 ms"),
    "junos": ("10 kB", "30 ms", "100 kB, red: {min: 20 kB, max: 50 kB, weight: 100%, ecn: false}"),
    "vyos": ("10 packets", "99 packets"),
    "altq": ("10 packets", "99 packets"),
    "pf": ("10 packets", "99 packets"),
}
"""Limits of queues, and what is beside them, that each family can express."""

POLICING = ("tc", "ios", "junos")
"""The families whose classes have policers and marks."""


@st.composite
def any_policies(
    draw: st.DrawFn, family: str, queues: tuple[str, ...] = (), *, policers: bool | None = None
) -> Scenario:
    """Return a scenario with a policy of kinds of classes that a family may be able to express.

    Args:
        draw: Of Hypothesis.
        family: The family.
        queues: The limits of queues; by default those of the family.
        policers: True for policers and marks; by default if the family has them.
    """
    polices = family in POLICING if policers is None else policers

    def some(key: str, values: tuple[str, ...], odds: int) -> list[str]:
        chosen = draw(st.integers(1, 100)) <= odds
        return [f"{key}{draw(st.sampled_from(values))}"] if chosen else []

    def class_(number: int, match: str, *, strict: bool = False, deep: bool = True) -> str:
        found = [f"match: {match}"]
        if strict:
            found += ["priority: strict", *some("police: ", POLICERS[:3:2], 100)]
        else:
            shares = (f"{draw(st.integers(1, 20))}%", f"{draw(st.integers(1, 2000))} kbps")
            found += some("bandwidth: ", shares, 70 if deep else 0)
            found += some("police: ", POLICERS, 20) if deep and polices else []
            # IOS has the ceiling of an only class as a shaper, as which it is read.
            found += some("", CEILINGS, 20) if deep and (count or family != "ios") else []
        found += some("mark: ", ("af11", "be"), 10) if polices else []
        if deep and not strict and draw(st.integers(1, 8)) == 8 and family != "vyos":
            matches = ("{destination: 10.9.0.0/16}", "any")
            inner = [class_(number, each, deep=False) for each in matches]
            found.append(f"classes: {{i{number}: {{{inner[0]}}}, j{number}: {{{inner[1]}}}}}")
        else:
            limits, odds = queues or QUEUES[family], 100 if family == "junos" else 75
            found += [f"queue: {{limit: {each}}}" for each in some("", limits, odds)]
        return f"{', '.join(found)}{'' if deep else ', unused: true'}"

    count = draw(st.integers(0, 3))
    strict = draw(st.booleans()) and polices
    lines = []
    for number in range(count):
        own = st.integers(16 * number, 16 * number + 15)
        points = draw(st.lists(own, min_size=2, max_size=2, unique=True))
        match = draw(st.sampled_from(MATCHES)).format(*points)
        lines.append(f"c{number}: {class_(number, match, strict=strict and not number)}")
    shaped = family != "vyos" and draw(st.booleans())
    link = ", shape: {r: {rate: 9500 kbps, burst: 15 kB}}" if shaped else ""
    try:
        return scenario(*lines, f"rest: {class_(count, 'any')}", link=link)
    except ScenarioError:  # a ceiling below a guarantee, or two
        return reject()
