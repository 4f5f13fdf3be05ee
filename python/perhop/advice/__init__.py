"""Advice: settings of a network from many runs of the simulator."""

from perhop.advice.model import (
    PolicerAdvice,
    PolicerPoint,
    PolicerQuestion,
    Rule,
    SmallestBurst,
    congestion_controls,
    usual_interface,
)
from perhop.advice.policer import advise_policer
from perhop.advice.rules import rules_of_thumb, sawtooth_burst

__all__ = [
    "PolicerAdvice",
    "PolicerPoint",
    "PolicerQuestion",
    "Rule",
    "SmallestBurst",
    "advise_policer",
    "congestion_controls",
    "rules_of_thumb",
    "sawtooth_burst",
    "usual_interface",
]
