"""Faults in configurations and scenarios that engineers make: `perhop lint`.

================  ============================================================================
`findings`        rules, their severity, and findings
`packets`         sets of packets, and whether some contain another
`policies`        policies of configurations, with the rates of their classes
`invalid`         values of policies that have no meaning
`scenarios`       policies of scenarios in the form of configurations
`exactness`       classes whose packets a reader does not know exactly
`wording`         code points and shares in messages
`tcp`             throughput of TCP through a policer
`classes`         rules: classes that get no packets
`guarantees`      rules: bandwidth that is promised twice, or to no one
`priority`        rules: strict priority and telephony
`policers`        rules: policers and shapers
`queues`          rules: queue limits, RED and WRED
`marks`           rules: code points that are set, matched and trusted
`directions`      rules: the two directions of an interface
`lines`           rules: lines that a reader could not use
`check`           all rules, and their application
`files`           files of any kind to findings
`formats`         findings as text, SARIF, GitHub's commands and JSON; the reference of rules
================  ============================================================================
"""

from perhop.routers.lint.check import RULES, check, rule
from perhop.routers.lint.files import lint
from perhop.routers.lint.findings import RANKS, RTTS, Finding, Rule, Settings, Severity
from perhop.routers.lint.formats import as_github, as_json, as_sarif, as_text, reference
from perhop.routers.lint.policies import AttachedPolicy, attached_policies

__all__ = [
    "RANKS",
    "RTTS",
    "RULES",
    "AttachedPolicy",
    "Finding",
    "Rule",
    "Settings",
    "Severity",
    "as_github",
    "as_json",
    "as_sarif",
    "as_text",
    "attached_policies",
    "check",
    "lint",
    "reference",
    "rule",
]
