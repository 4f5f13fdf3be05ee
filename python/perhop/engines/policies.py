"""The policies of a scenario, as the core takes them: disciplines, policers, shapers, matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from perhop.engines.queues import framing_plan, queue_plan
from perhop.scenario.model.cbq import Cbq
from perhop.scenario.model.classes import CEILING_BURST
from perhop.scenario.model.htb import Htb, default_quantum, slack
from perhop.scenario.model.matching import match_rules
from perhop.scenario.resolve import rates, service_curves

if TYPE_CHECKING:
    from perhop.engines import plans
    from perhop.scenario import (
        Action,
        Class,
        Link,
        LinkShape,
        Match,
        Police,
        Policy,
        Scenario,
    )
    from perhop.scenario.model.cake import Framing
    from perhop.scenario.model.hfsc import Slopes
    from perhop.scenario.model.matching import Matching
    from perhop.scenario.model.names import IpVersion

__all__ = ["discipline_plan", "match_plan", "rule_plans", "shape_plan"]


def discipline_plan(
    scenario: Scenario, link: Link, node: str, policy: str | None, capacity: int
) -> plans.DisciplinePlan:
    """Return the discipline of an end of a link: a policy that divides `capacity`, or its queue."""
    if policy is None:
        return {"queue": queue_plan(link.queue_of(node), capacity, in_class=False)}
    return _classes(scenario, link, scenario.policies[policy], capacity)


def _mark(link: Link, class_: Class, above: plans.MarkPlan | None = None) -> plans.MarkPlan | None:
    """Return the marks of a class before a link, of which those of the class above are part."""
    if class_.mark is None:
        return above
    own: plans.MarkPlan = {"dscp": class_.mark.dscp, "link": class_.mark.on(link.encapsulation)}
    if above is not None:
        own["dscp"] = above["dscp"] if own["dscp"] is None else own["dscp"]
        own["link"] = above["link"] if own["link"] is None else own["link"]
    return None if own["dscp"] is None and own["link"] is None else own


def _classes(
    scenario: Scenario, link: Link, policy: Policy, capacity: int, above: str = ""
) -> plans.DisciplinePlan:
    """Return a policy: its classes, behind its policers if it has any.

    Args:
        scenario: The scenario.
        link: The link.
        policy: The policy.
        capacity: The rate that it divides, in bit/s.
        above: Prefix of the names of nested classes.
    """
    discipline = _shared(scenario, link, policy, capacity, above)
    if not policy.policers:
        return discipline
    policers: list[plans.PolicerPlan] = [
        {
            "name": f"{above}{name}",
            "match": rule_plans(scenario, policer.match),
            "police": _police(policer.police, capacity),
        }
        for name, policer in policy.policers.items()
    ]
    return {"policed": {"policers": policers, "discipline": discipline}}


def _shared(
    scenario: Scenario, link: Link, policy: Policy, capacity: int, above: str
) -> plans.DisciplinePlan:
    """Return the classes of a policy."""
    guaranteed = rates(policy, capacity)
    turns, framing = policy.has_quanta, framing_plan(policy.overhead)

    def one(name: str, class_: Class) -> plans.ClassPlan:
        rate = guaranteed[name]
        nested = scenario.divided(policy, class_)
        discipline: plans.DisciplinePlan
        if nested is not None:
            discipline = _classes(scenario, link, nested, rate or capacity, f"{above}{name}/")
        else:
            queue = queue_plan(class_.effective_queue, rate or capacity, in_class=True)
            discipline = {"queue": queue}
        return {
            "name": f"{above}{name}",
            "match": rule_plans(scenario, class_.match),
            "mark": _mark(link, class_),
            "weight": None if policy.strict(class_) else class_.quantum if turns else rate,
            "priority": class_.priority if isinstance(class_.priority, int) else 0,
            "excess": None if turns else class_.quantum,
            "beside_strict": class_.beside_strict,
            "police": None if class_.police is None else _police(class_.police, capacity),
            "shape": _shaper(_ceiling(class_, rate, capacity), policy.overhead),
            "discipline": discipline,
        }

    def shared(scheduler: plans.Sharing) -> plans.DisciplinePlan:
        classes = [one(name, class_) for name, class_ in policy.classes.items()]
        return {"classes": {"scheduler": scheduler, "framing": framing, "classes": classes}}

    match policy.effective_scheduler:
        case "drr" if policy.has_quanta:
            return shared("drr-quanta")
        case "wfq" | "drr" | "link-sharing" as scheduler:
            return shared(scheduler)
        case "priority":
            return shared("wfq")  # every class is strict
        case "altq-cbq":
            return {"altq-cbq": _cbq(scenario, link, policy, capacity)}
        case "hfsc":
            found = _hfsc(scenario, link, policy, capacity, "", None)
            return {"hfsc": {"framing": framing, "classes": found}}
        case "htb":
            return {"htb": _htb(scenario, link, policy, capacity)}
        case unknown:
            assert_never(unknown)


def _cbq(scenario: Scenario, link: Link, policy: Policy, capacity: int) -> plans.CbqPlan:
    """Return the classes of a policy for ALTQ's class-based queueing."""

    def classes(
        policy: Policy, capacity: int, above: str, mark: plans.MarkPlan | None
    ) -> list[plans.CbqClassPlan]:
        found: list[plans.CbqClassPlan] = []
        for name, rate in rates(policy, capacity).items():
            class_ = policy.classes[name]
            assert rate is not None  # no class is strict
            found.append(
                {
                    "name": f"{above}{name}",
                    "match": rule_plans(scenario, class_.match),
                    "rate": rate,
                    "borrow": class_.borrow,
                    "kind": kind(policy, class_, rate, f"{above}{name}/", mark),
                }
            )
        return found

    def kind(
        policy: Policy, class_: Class, rate: int, above: str, mark: plans.MarkPlan | None
    ) -> plans.CbqClassKindPlan:
        # A leaf is known before anything is marked, and its own mark is the last.
        mark = _mark(link, class_, mark)
        inside = policy.inside(class_)
        if inside is not None:
            return {"interior": classes(inside, rate, above, mark)}
        queue = class_.effective_queue.model_copy(update={"drop": "head"})
        return {
            "leaf": {
                "priority": class_.priority if isinstance(class_.priority, int) else 0,
                "mark": mark,
                "police": None if class_.police is None else _police(class_.police, capacity),
                "queue": queue_plan(queue, rate, in_class=True),
            }
        }

    cbq = policy.cbq or Cbq()
    root = policy.root(capacity)
    return {
        "config": {
            "rate": root,
            "tick": cbq.tick,
            "packet": cbq.packet,
            "maxburst": cbq.maxburst,
            "minburst": cbq.minburst,
            "token_bucket": cbq.token_bucket,
            "efficient": cbq.efficient,
            "kick": cbq.kick,
        },
        "classes": classes(policy, root, "", None),
    }


def _hfsc(
    scenario: Scenario,
    link: Link,
    policy: Policy,
    capacity: int,
    above: str,
    mark: plans.MarkPlan | None,
) -> list[plans.HfscClassPlan]:
    """Return the classes of a policy with service curves; `mark` is that of the class above."""

    def one(name: str, class_: Class, rate: int) -> plans.HfscClassPlan:
        # A leaf is known before anything is marked, and its own mark is the last.
        own = _mark(link, class_, mark)
        inside = policy.inside(class_)
        kind: plans.HfscClassKindPlan
        if inside is not None:
            kind = {"interior": _hfsc(scenario, link, inside, rate, f"{above}{name}/", own)}
        else:
            kind = {
                "leaf": {
                    "mark": own,
                    "police": None if class_.police is None else _police(class_.police, capacity),
                    "queue": queue_plan(class_.effective_queue, rate, in_class=True),
                }
            }
        curves = service_curves(class_, rate, capacity)
        return {
            "name": f"{above}{name}",
            "match": rule_plans(scenario, class_.match),
            "curves": {
                "realtime": None if curves.realtime is None else _slopes(curves.realtime),
                "linkshare": _slopes(curves.linkshare),
                "upperlimit": None if curves.upperlimit is None else _slopes(curves.upperlimit),
            },
            "kind": kind,
        }

    guaranteed = rates(policy, capacity).items()
    return [one(name, policy.classes[name], max(rate or 0, 1)) for name, rate in guaranteed]


def _slopes(curve: Slopes) -> plans.ServiceCurve:
    return {"m1": curve.m1, "d": curve.d, "m2": curve.m2}


def _htb(scenario: Scenario, link: Link, policy: Policy, capacity: int) -> plans.HtbPlan:
    """Return the classes of a policy for hierarchical token buckets."""
    root, settings = policy.root(capacity), policy.htb or Htb()

    def classes(
        policy: Policy, capacity: int, above: str, mark: plans.MarkPlan | None
    ) -> list[plans.HtbClassPlan]:
        found: list[plans.HtbClassPlan] = []
        for name, rate in rates(policy, capacity).items():
            class_ = policy.classes[name]
            path, matching = f"{above}{name}", rule_plans(scenario, class_.match)
            own = None if rate is None else _htb_rates(class_, max(rate, 1), capacity, root)
            # A leaf is known before anything is marked, and its own mark is the last.
            inner, marked = policy.inside(class_), _mark(link, class_, mark)
            if inner is not None and own is not None:
                below = classes(inner, own["rate"], f"{path}/", marked)
                found.append(
                    {
                        "interior": {
                            "rates": own,
                            "name": path,
                            "match": matching,
                            "classes": below,
                        }
                    }
                )
                continue
            nested, queued = scenario.divided(policy, class_), rate or capacity
            if nested is not None:
                discipline = _classes(scenario, link, nested, queued, f"{path}/")
            else:
                discipline = {"queue": queue_plan(class_.effective_queue, queued, in_class=True)}
            content: plans.ClassPlan = {
                "name": path,
                "match": matching,
                "mark": marked,
                "weight": None,
                "priority": 0,
                "excess": None,
                "beside_strict": False,
                "police": None if class_.police is None else _police(class_.police, capacity),
                "shape": None
                if own is not None
                else _shaper(_ceiling(class_, rate, capacity), settings.overhead),
                "discipline": discipline,
            }
            found.append({"leaf": {"rates": own, "content": content}})
        return found

    whole = _bucketed(root, {"rate": root, "burst": settings.burst})
    whole["burst"] = whole["cburst"]
    return {
        "root": whole,
        "framing": framing_plan(settings.overhead),
        "classes": classes(policy, root, "", None),
    }


def _htb_rates(class_: Class, rate: int, capacity: int, root: int) -> plans.HtbRates:
    """Return the buckets of a class with a guaranteed rate."""
    ceiling = _ceiling(class_, rate, capacity) or {"rate": max(rate, root), "burst": 0}
    found = _bucketed(rate, ceiling)
    if isinstance(class_.priority, int):
        found["priority"] = class_.priority
    if class_.quantum is not None:
        found["quantum"] = class_.quantum
    return found


def _bucketed(rate: int, ceiling: plans.Shape) -> plans.HtbRates:
    """Return buckets that hold what arrives between two packets, and the quantum of the rate."""
    return {
        "rate": rate,
        "burst": slack(rate),
        "ceil": ceiling["rate"],
        "cburst": max(ceiling["burst"], slack(ceiling["rate"])),
        "priority": 0,
        "quantum": default_quantum(rate),
    }


def _ceiling(class_: Class, rate: int | None, capacity: int) -> plans.Shape | None:
    """Return the shaper of a class with guaranteed `rate`: its ceiling, or its own shaper."""
    if class_.limit is not None:
        return {"rate": class_.limit.of(capacity), "burst": CEILING_BURST}
    if not class_.borrow and rate is not None:
        return {"rate": rate, "burst": CEILING_BURST}
    shape = class_.shape
    return None if shape is None else {"rate": shape.rate.of(capacity), "burst": shape.burst}


def _shaper(shape: plans.Shape | None, overhead: Framing) -> plans.ShaperPlan | None:
    """Return a shaper that counts the bytes of frames."""
    return None if shape is None else {**shape, "framing": framing_plan(overhead)}


def shape_plan(shape: LinkShape | None, capacity: int) -> plans.ShaperPlan | None:
    """Return a shaper before a link of `capacity`."""
    if shape is None:
        return None
    return _shaper({"rate": shape.rate.of(capacity), "burst": shape.burst}, shape.overhead)


def _police(police: Police, capacity: int) -> plans.PolicePlan:
    def action(action: Action) -> plans.Action:
        if action.remark is not None:
            return {"remark": action.remark}
        return "drop" if action.drops else "send"

    peak: plans.Shape | None = None
    if police.peak_rate is not None:
        assert police.peak_burst is not None
        peak = {"rate": police.peak_rate.of(capacity), "burst": police.peak_burst}
    return {
        "rate": police.rate.of(capacity),
        "burst": police.burst,
        "excess_burst": police.excess_burst,
        "peak": peak,
        "colour_aware": police.colour_aware,
        "framing": framing_plan(police.overhead),
        "conform": action(police.conform),
        "exceed": action(police.effective_exceed),
        "violate": action(police.effective_violate),
    }


def rule_plans(scenario: Scenario, match: Matching) -> list[plans.MatchRulePlan]:
    """Return the rules of a match."""
    return [
        {"permit": rule.permit, "conditions": conditions}
        for rule in match_rules(match)
        for conditions in _conditions(scenario, rule.conditions)
    ]


def _conditions(scenario: Scenario, match: Match) -> list[plans.MatchPlan]:
    """Return a match as conditions, any of which a packet must meet.

    They are apart for IPv4 and IPv6 where their prefixes stand for different nodes. If all traffic
    has one version, conditions are about its addresses.
    """
    versions = scenario.ip_versions
    if not scenario.flows and not scenario.pings:
        versions = (4, 6)  # a lab's programs send
    found = [match_plan(scenario, match, ip) for ip in versions]
    if len(found) == 1:
        (ip,) = versions
        if match.ip is not None and ip not in match.ip:
            return [{**found[0], "ipv6": ip == 4}]
        # The transport protocols of the other version need not be looked for.
        return [{**found[0], "ipv6": ip == 6 if match.protocol else None}]
    alike = found[0] == found[1]
    wanted = [each for each in (4, 6) if match.ip is None or each in match.ip]
    if alike and len(wanted) > 1:
        return found[:1]
    apart: list[plans.MatchPlan] = [
        {**each, "ipv6": ip == 6} for ip, each in zip(versions, found, strict=True) if ip in wanted
    ]
    some = [each for each in apart if each["source"] != [] and each["destination"] != []]
    return some or apart[:1]


def match_plan(scenario: Scenario, match: Match, ip: IpVersion | None = None) -> plans.MatchPlan:
    """Return the conditions of a match, with nodes instead of address prefixes.

    Args:
        scenario: The scenario.
        match: The match.
        ip: The version of the addresses that prefixes are compared with; IPv4 by default.
    """
    own = scenario.addresses_v6 if ip == 6 else scenario.addresses

    def within(ends: tuple[Any, ...] | None) -> list[str] | None:
        if ends is None:
            return None
        return [
            node
            for node, address in own.items()
            if any(node == end if isinstance(end, str) else address in end for end in ends)
        ]

    return {
        "dscp": list(match.dscp or ()),
        "ipv6": match.ip[0] == 6 if match.ip and len(set(match.ip)) == 1 else None,
        "protocol": list(match.protocol or ()),
        "port": list(match.port or ()),
        "source_port": list(match.source_port or ()),
        "destination_port": list(match.destination_port or ()),
        "source": within(match.source),
        "destination": within(match.destination),
        "pcp": list(match.pcp or ()),
        "mpls_tc": list(match.mpls_tc or ()),
    }
