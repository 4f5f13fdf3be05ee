"""Configurations of Junos as policies of scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.routers.reading.configuration import AS_STATED, Configuration, Fault, Refusal
from perhop.routers.reading.junos import accounting
from perhop.routers.reading.junos.attachments import Router
from perhop.routers.reading.junos.groups import expand
from perhop.routers.reading.junos.ranges import expand_ranges
from perhop.routers.reading.junos.refusals import refused
from perhop.routers.reading.junos.syntax import read_tree
from perhop.routers.reading.junos.unread import note_inactive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    from perhop.routers.reading.configuration import Attachment, Source
    from perhop.routers.reading.junos.tree import Node


def read(texts: Sequence[Source], rates: Mapping[str, int] = AS_STATED) -> Configuration:
    """Return what a configuration of Junos says about quality of service.

    Args:
        texts: The configuration, or a part of it, with braces or `set` commands, or both.
        rates: Rates of interfaces in bit/s in place of its own, as for `detect.read`. That of a
            unit is that of its interface.
    """
    tree = read_tree(texts)
    note_inactive(tree.root)
    if any("apply-groups" in text.text for text in texts):
        expand(tree)
    if any("interface-range" in text.text for text in texts):
        expand_ranges(tree)
    router = Router(tree.root, rates)
    faults = refused(tree.root, router.cos)
    for node, reason, undefined in faults:
        if not undefined:
            node.ignored(f"Junos refuses it: {reason}")
        node.faulty(Fault.REFUSED, reason)
    attachments = router.attachments()
    balance = _balance(tree.root)
    router.finish()
    return Configuration(
        family="junos",
        lines=accounting.lines(tree, texts),
        defaults=tuple(router.outputs.defaults),
        attachments=() if faults else tuple(attachments),
        balance=balance,
        refusals=tuple(
            Refusal(name, each.node.place, each.reason)
            for each in faults[:1]
            for name in _names(attachments, router)
        ),
    )


def _names(attachments: Sequence[Attachment], router: Router) -> list[str]:
    """Return the interfaces that would have a policy, or the policies if there are none."""
    names = [each.interface for each in attachments if each.interface]
    names = names or [each.name for each in attachments] or [*router.interfaces.all]
    return list(dict.fromkeys(names)) or ["the router"]


def _balance(root: Node) -> Literal["per-flow"] | None:
    """Return how the router shares load: by flow, if a policy of the forwarding table says so.

    `load-balance per-packet` is per flow, too, on all but the oldest routers.
    """
    found: Literal["per-flow"] | None = None
    for export in root.under("routing-options", "forwarding-table", "export"):
        policy = root.get("policy-options", "policy-statement", export.word)
        if policy is None:
            continue
        for then in [policy.get("then"), *(term.get("then") for term in policy.under("term"))]:
            way = then.value("load-balance") if then is not None else None
            if way is None:
                continue
            if way.word == "per-packet":
                way.approximated("`per-packet` balances by flow on all but the oldest routers")
            elif way.word in ("per-flow", "adaptive", "consistent-hash"):
                way.modelled()
            else:
                way.ignored("unknown statement")
                continue
            export.modelled()
            found = "per-flow"
    return found
