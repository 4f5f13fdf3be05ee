"""Scenarios: the model, and how files become scenarios.

================  ============================================================================
`model`           what a scenario consists of; start here
`topology`        … its nodes and links, …
`classes`         … policies of classes, with `queues` and the settings of `cbq`, …
`traffic`         … flows, perhaps a `replay` of packets, and pings, …
`changes`         … and what changes while it runs
`expectations`    what should come of it, by `metrics`
`quantities`      fields with units, …
`names`           … names and addresses, …
`dscp`            … code points, …
`network`         … bandwidth, limits, overhead and ports; each field is a `text.Text`
`loader`          from a file, read by `files`, to a scenario, and back
`document`        YAML as data whose every part knows its line and column
`overrides`       changes to that data before it is validated
`validation`      from data to a scenario, or to `findings`, …
`wording`         … that say what is wrong in shape, …
`checks`          … or between parts, …
`marking`         … or of what nodes make of code points, …
`probes`          … or of probes, …
`policies`        … or in policies, by the `packets` that classes match, …
`datagrams`       … or in UDP flows, …
`timeline`        … or in the changes
`schema`          the JSON Schema of files
================  ============================================================================
"""

from perhop.scenario.changes import Change, PoliceChange
from perhop.scenario.classes import Action, Class, Match, Police, Policy, Shape
from perhop.scenario.dscp import DSCP_NAMES, format_dscp, parse_dscp
from perhop.scenario.expectations import Basis, Expectation, Measured, Published
from perhop.scenario.loader import dump, load, parse, to_mapping
from perhop.scenario.metrics import METRICS, Metric
from perhop.scenario.model import Report, Scenario
from perhop.scenario.network import Bandwidth, Limit, Overhead
from perhop.scenario.overrides import Overrides
from perhop.scenario.quantities import EPHEMERAL_PORTS, format_window
from perhop.scenario.queues import Queue
from perhop.scenario.replay import Replay
from perhop.scenario.schema import json_schema
from perhop.scenario.tcp import Tcp
from perhop.scenario.topology import Link, Node, Reorder
from perhop.scenario.traffic import Bursts, Flow, Ping, Udp

__all__ = [
    "DSCP_NAMES",
    "EPHEMERAL_PORTS",
    "METRICS",
    "Action",
    "Bandwidth",
    "Basis",
    "Bursts",
    "Change",
    "Class",
    "Expectation",
    "Flow",
    "Limit",
    "Link",
    "Match",
    "Measured",
    "Metric",
    "Node",
    "Overhead",
    "Overrides",
    "Ping",
    "Police",
    "PoliceChange",
    "Policy",
    "Published",
    "Queue",
    "Reorder",
    "Replay",
    "Report",
    "Scenario",
    "Shape",
    "Tcp",
    "Udp",
    "dump",
    "format_dscp",
    "format_window",
    "json_schema",
    "load",
    "parse",
    "parse_dscp",
    "to_mapping",
]
