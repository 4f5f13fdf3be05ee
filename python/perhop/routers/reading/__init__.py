"""Configurations of routers as policies of scenarios, a package for each family.

A reader accounts for every line about quality of service: it is modelled, approximated, or not
modelled. Readers do not fail on what they do not know.
"""

from perhop.routers.reading.configuration import (
    MAX_SIZE,
    Attachment,
    Configuration,
    Default,
    Direction,
    Fault,
    Line,
    Loc,
    Place,
    Source,
    Treatment,
    scenario_name,
    source,
)
from perhop.routers.reading.effect import CAUTION, caution, decisive
from perhop.routers.reading.matching import (
    MAX_RULES,
    Conditions,
    Packet,
    Rules,
    TooManyRulesError,
)
from perhop.routers.reading.selection import described, select

__all__ = [
    "CAUTION",
    "MAX_RULES",
    "MAX_SIZE",
    "Attachment",
    "Conditions",
    "Configuration",
    "Default",
    "Direction",
    "Fault",
    "Line",
    "Loc",
    "Packet",
    "Place",
    "Rules",
    "Source",
    "TooManyRulesError",
    "Treatment",
    "caution",
    "decisive",
    "described",
    "scenario_name",
    "select",
    "source",
]
