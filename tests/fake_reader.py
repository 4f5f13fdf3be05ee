"""A reader of configurations in place of a real one."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest

from perhop.routers.reading import (
    Attachment,
    Configuration,
    Default,
    Line,
    Place,
    Source,
    Treatment,
)
from perhop.routers.reading.configuration import AS_STATED

IOS = """\
class-map match-any VOICE
 match ip dscp ef
policy-map WAN
 class VOICE
  priority percent 10
interface GigabitEthernet0/1
 service-policy output WAN
"""
"""A text of the family whose reader is replaced."""

WAN = {"classes": {"voice": {"match": {"dscp": "ef"}}, "rest": {"match": "any"}}}
LAN = {"classes": {"rest": {"match": "any"}}}


def attachment(
    interface: str, name: str = "WAN", direction: Any = "out", policy: Any = None
) -> Attachment:
    return Attachment(
        interface, direction, name, WAN if policy is None else policy, {(): Place("x", 1)}, 10**7
    )


def configuration(*attachments: Attachment) -> Configuration:
    lines = (
        Line(Place("x", 1), "policy-map WAN", Treatment.MODELLED),
        Line(Place("x", 2), "random-detect", Treatment.APPROXIMATED, "in packets"),
        Line(Place("x", 3), "match protocol rtp", Treatment.NOT_MODELLED, "needs NBAR"),
    )
    defaults = (Default(Place("x", 1), "queue-limit", "64 packets", "IOS 12.4"),)
    return Configuration("ios", lines, defaults, attachments)


CAUTION = (
    "a line that is not modelled, or approximated, can change what a class gets by more than 5%: "
    "x:3: `match protocol rtp` (needs NBAR); `perhop import` prints all"
)
"""The warning about lines of `configuration` that can have a large effect."""


class Reader(ModuleType):
    """A reader in place of the real one of IOS, with the texts that it was given."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.given: list[Sequence[Source]] = []
        self.rates = AS_STATED
        self.configuration = configuration(attachment("Gi0/1"))
        self.by_name: dict[str, Configuration] = {}

    def read(self, texts: Sequence[Source], rates: Mapping[str, int] = AS_STATED) -> Configuration:
        self.given.append(texts)
        self.rates = rates
        if "hostname" in texts[0].text:
            return Configuration("ios", ())
        return self.by_name.get(Path(texts[0].file).name, self.configuration)

    @classmethod
    def instead(cls, monkeypatch: pytest.MonkeyPatch) -> Self:
        """Put a reader in place of the real one of IOS."""
        module = cls("perhop.routers.reading.ios")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return module
