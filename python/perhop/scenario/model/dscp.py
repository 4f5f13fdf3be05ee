"""Differentiated-services code points (RFC 2474) by name."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from perhop.hints import did_you_mean
from perhop.scenario.model.text import Text
from perhop.units import quote

DSCP_NAMES: dict[str, int] = {
    "be": 0,
    "default": 0,
    "le": 1,
    **{f"cs{c}": 8 * c for c in range(8)},
    **{f"af{c}{d}": 8 * c + 2 * d for c in range(1, 5) for d in range(1, 4)},
    "voice-admit": 44,
    "ef": 46,
}
"""Code points by name: RFC 2474 (cs), 2597 (af), 3246 (ef), 5865 (voice-admit), 8622 (le)."""

_DSCP_BY_VALUE = {value: name for name, value in reversed(DSCP_NAMES.items())} | {0: "be"}


def parse_dscp(text: str) -> int:
    """The code point, 0-63, that `text` names: ``cs1``, ``af11``, ``le`` or a number.

    Raises:
        ValueError: `text` names none.
    """
    if text.lower() in DSCP_NAMES:
        return DSCP_NAMES[text.lower()]
    if re.fullmatch("[0-9]{1,3}", text, re.ASCII) and int(text) < 64:
        return int(text)
    message = f"{quote(text)} is not a DSCP; expected a name such as `cs1` or a number from 0 to 63"
    hint = did_you_mean(text, DSCP_NAMES)
    raise ValueError(f"{message}; {hint}" if hint else message)


def format_dscp(dscp: int) -> str | int:
    """The name of a code point, or its number where it has none."""
    return _DSCP_BY_VALUE.get(dscp, dscp)


DSCP_SCHEMA: Final[dict[str, list[dict[str, Any]]]] = {
    "anyOf": [{"enum": list(DSCP_NAMES)}, {"type": "integer", "minimum": 0, "maximum": 63}]
}
"""The JSON Schema of a code point."""

Dscp = Annotated[
    int,
    Text(parse_dscp, format_dscp, "a DSCP such as `cs1`", DSCP_SCHEMA, accepts=(str, int)),
]
"""A differentiated-services code point, 0-63."""
