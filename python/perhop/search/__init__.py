"""Searches for the value of a key at which a metric crosses a bound.

>>> from perhop import search
>>> condition = "mos_worst(calls) >= 4"
>>> found = search.find("branch.yaml", "flows.calls.streams", "4..20", condition, until=False)
>>> found.last.value, found.first.value
('12', '13')
"""

from perhop.search.condition import Condition, parse_condition
from perhop.search.thresholds import Search, Trial, find
from perhop.search.values import parse_values

__all__ = ["Condition", "Search", "Trial", "find", "parse_condition", "parse_values"]
