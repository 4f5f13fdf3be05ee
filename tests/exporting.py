"""Scenarios for tests of writers of configurations: a router and its policy."""

from perhop import Scenario, parse
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
