"""Damaged configurations of routers: a reader accounts for their lines, and never fails.

Each family has its texts here; the reader of a family is the package of its name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzzing.mutation import damaged
from fuzzing.running import fuzzed
from ios import GROUPS, LISTS, TEXT, TRANSATLANTIC
from junos import AS_COMMANDS, EDGE, OSCARS, SWITCH
from junos import GROUPS as GROUPS_OF_JUNOS
from perhop.errors import UsageError
from perhop.routers.reading import Configuration, Treatment, source
from test_routers_altq import ALTQ_CONF, OPENBSD, PF_CONF
from test_routers_linux import SCRIPT
from test_routers_linux_output import CLASSES, FILTERS, QDISCS
from test_routers_vyos import BRACES

if TYPE_CHECKING:
    from collections.abc import Sequence

TEXTS: dict[str, Sequence[str]] = {
    "altq": [ALTQ_CONF, PF_CONF, OPENBSD],
    "ios": [GROUPS + LISTS + TEXT, TRANSATLANTIC],
    "junos": [EDGE + OSCARS, AS_COMMANDS, GROUPS_OF_JUNOS, SWITCH],
    "linux": [SCRIPT, QDISCS + CLASSES + FILTERS],
    "vyos": [BRACES],
}
"""Texts of each family."""


@pytest.mark.parametrize("family", TEXTS)
@fuzzed(20)
@given(st.data())
def test_damaged_configurations(family: str, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS[family]).map(str.encode).flatmap(damaged))
    try:
        file = source(text, "fuzz.cfg")
    except UsageError:
        return
    sound(import_module(f"perhop.routers.reading.{family}").read([file]), file.text)


def sound(found: Configuration, text: str) -> None:
    """Check what holds for every configuration."""
    told = text.split("\n")
    places = [line.place for line in found.lines]
    assert places == sorted(set(places))
    for line in found.lines:
        whole = told[line.place.line - 1]
        if whole.isprintable() and "More" not in whole:  # not from a terminal
            assert line.text in whole or line.text.startswith("{")  # JSON of several lines
        assert bool(line.note) == (line.treatment is not Treatment.MODELLED)
    assert all(each.setting and each.value and each.source for each in found.defaults)
    for attachment in found.attachments:
        classes = attachment.policy["classes"]
        assert list(classes.values())[-1]["match"] == "any"
        assert all(attachment.place(("classes", name)).file == "fuzz.cfg" for name in classes)
