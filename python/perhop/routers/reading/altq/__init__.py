"""ALTQ and pf: altq.conf, pf.conf with `altq`, and the `queue` of OpenBSD.

==============  ==================================================================================
`conf`          altq.conf: an `interface` with its `classes`, `filters` and `conditioners`
`pf`            pf.conf: statements of `syntax`, with `queues` at `devices`; `rules` by `assignment`
`refusals`      statements that pfctl refuses
`policy`        the policy of a scenario for the `nodes` of an interface, with `shares`
`values`        rates, ports, code points; `prefixes`: sets of addresses
`ledger`        the treatment of each line, and defaults
==============  ==================================================================================
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import AS_STATED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.routers.reading.configuration import Configuration, Source

__all__ = ["read"]

_ALTQ_CONF: Final = re.compile(
    r"^[ \t]*(interface[ \t]+\S+|class[ \t]+\w+|filter6?[ \t]+\S+|conditioner[ \t]+\S+)", re.M
)
_PF_CONF: Final = re.compile(
    r"^[ \t]*(altq[ \t]+on|queue|pass|block|match|set|scrub|table|anchor|\w+[ \t]*=)\b", re.M
)


def read(texts: Sequence[Source], rates: Mapping[str, int] = AS_STATED) -> Configuration:
    """Return what altq.conf or pf.conf says about quality of service.

    Its family is `altq` or `pf`.

    Args:
        texts: The files.
        rates: Bandwidths of interfaces in bit/s in place of theirs, as for `detect.read`.
    """
    from perhop.routers.reading.altq import conf, pf

    counts = [
        sum(1 for source in texts for _ in pattern.finditer(source.text))
        for pattern in (_ALTQ_CONF, _PF_CONF)
    ]
    if counts[0] > counts[1]:
        return conf.read(texts, rates)
    return pf.read(texts, rates)
