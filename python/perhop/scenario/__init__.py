"""Scenarios: the model, and how files become scenarios.

================  ============================================================================
`model`           the data of a scenario
`resolve`         what follows from it: rates of classes, paths, the network after each change
`rules`           judgement: findings with their place, and warnings
`reading`         YAML with places, changes to it (``--set``), the JSON Schema
================  ============================================================================

Each imports from those above it only.
"""

from perhop.scenario.model.agents import AGENT_PORT, IPERF3_PORT, STAMP_PORT, Agent, Endpoint
from perhop.scenario.model.changes import Change, PoliceChange
from perhop.scenario.model.classes import (
    Action,
    Class,
    LinkShape,
    Police,
    Policer,
    Policy,
    Shape,
)
from perhop.scenario.model.dscp import DSCP_NAMES, format_dscp, parse_dscp
from perhop.scenario.model.expectations import Basis, Expectation, Measured, Published
from perhop.scenario.model.matching import Match
from perhop.scenario.model.metrics import METRICS, Metric
from perhop.scenario.model.network import Bandwidth, Limit, Overhead
from perhop.scenario.model.quantities import EPHEMERAL_PORTS, format_window
from perhop.scenario.model.queues import Queue
from perhop.scenario.model.quic import AckFrequency, Quic
from perhop.scenario.model.replay import Replay
from perhop.scenario.model.scenario import Report
from perhop.scenario.model.tcp import Tcp
from perhop.scenario.model.topology import Link, Node, Reorder
from perhop.scenario.model.traffic import Bursts, Flow, Ping, Udp
from perhop.scenario.reading.loader import dump, load, parse, to_mapping
from perhop.scenario.reading.overrides import Overrides, override_texts, value_at
from perhop.scenario.reading.schema import json_schema
from perhop.scenario.rules.scenario import Scenario

__all__ = [
    "AGENT_PORT",
    "DSCP_NAMES",
    "EPHEMERAL_PORTS",
    "IPERF3_PORT",
    "METRICS",
    "STAMP_PORT",
    "AckFrequency",
    "Action",
    "Agent",
    "Bandwidth",
    "Basis",
    "Bursts",
    "Change",
    "Class",
    "Endpoint",
    "Expectation",
    "Flow",
    "Limit",
    "Link",
    "LinkShape",
    "Match",
    "Measured",
    "Metric",
    "Node",
    "Overhead",
    "Overrides",
    "Ping",
    "Police",
    "PoliceChange",
    "Policer",
    "Policy",
    "Published",
    "Queue",
    "Quic",
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
    "override_texts",
    "parse",
    "parse_dscp",
    "to_mapping",
    "value_at",
]
