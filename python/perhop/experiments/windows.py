"""The rule by which Linux 2.4 sets a window from a requested one, for all experiments with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.experiments.model import Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping


def granted(flows: Mapping[str, float]) -> Unknown:
    """Return the windows of flows as unknowns, from the rules of Linux 2.4.

    setsockopt(SO_RCVBUF) doubles what is asked, for what the system keeps beside the data, and
    tcp_adv_win_scale says how much of the whole is offered: three quarters (2, the default of
    2.4) or a half (1). A send buffer is doubled, too; a segment of 1448 bytes takes some 2200 of
    it, so that it holds 1.3 times what was asked. The window is between 1 and 1.5 times what was
    asked, as long as the system's limits are above that. Scenarios have 1.5.

    Args:
        flows: The bytes that each flow asked for.
    """
    return Unknown(
        "window granted, of that asked",
        "Linux 2.4 doubles what is asked and has a half to three quarters of that for data",
        1.0,
        1.5,
        sets={f"flows.{flow}.tcp.window={{:.0f}} B": asked for flow, asked in flows.items()},
    )
