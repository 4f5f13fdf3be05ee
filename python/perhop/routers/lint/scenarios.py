"""Policies of scenarios in the form of configurations."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from perhop.routers.reading import Attachment, Configuration, Place
from perhop.scenario.reading.document import read_yaml
from perhop.scenario.reading.loader import validated
from perhop.scenario.resolve.nesting import with_nested
from perhop.scenario.resolve.paths import next_hops, only_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.routers.reading import Loc, Source
    from perhop.scenario import Scenario
    from perhop.scenario.reading.document import Document


def read_scenario(text: Source) -> tuple[Scenario, Configuration]:
    """Return a scenario, and its policies at the ends of links.

    Policies that divide classes of others stand in these classes. Policies at no link have the
    interface "".

    Raises:
        ScenarioError: The text is not a scenario.
    """
    document = read_yaml(text.text, text.file)
    scenario = validated(document)
    return scenario, Configuration("scenario", (), (), tuple(_attachments(scenario, document)))


def round_trip_times(scenario: Scenario) -> tuple[int, ...]:
    """Return the shortest and the longest round-trip time of flows in ps, without queues.

    Flows without a single path do not count.
    """
    found = next_hops(scenario)
    directions = scenario.directions
    times: set[int] = set()
    for flow in scenario.flows.values():
        there = only_path(scenario, found, flow.source, flow.destination)
        back = only_path(scenario, found, flow.destination, flow.source)
        if there is not None and back is not None:
            ways = (directions[name] for name in (*there, *back))
            times.add(sum(link.medium(node).delay for link, node in ways))
    times.discard(0)
    return tuple(sorted({min(times), max(times)})) if times else ()


def _attachments(scenario: Scenario, document: Document) -> Iterator[Attachment]:
    used: set[str] = set()
    for name, (link, node) in scenario.directions.items():
        policy = link.egress.get(node)
        if policy is None:
            continue
        used.add(policy)
        index = next(i for i, other in enumerate(scenario.links) if other is link)
        shape = document.data["links"][index].get("shape", {}).get(node)
        rate_place = _place(document, ("links", index, "rate"))
        yield _attachment(document, policy, name, link.medium(node).rate, rate_place, shape)
    for name, (device, node) in scenario.devices.items():
        if node in device.egress:
            used.add(device.egress[node])
            shape = document.data["tunnels"][device.name].get("shape", {}).get(node)
            yield _attachment(document, device.egress[node], name, None, None, shape)
    reached = with_nested(scenario, used)
    for policy in scenario.policies:
        if policy not in reached:
            yield _attachment(document, policy, "", None, None, None)


def _attachment(
    document: Document,
    name: str,
    interface: str,
    rate: int | None,
    rate_place: Place | None,
    shape: dict[str, str] | None,
) -> Attachment:
    policies = document.data["policies"]
    policy = deepcopy(policies[name])
    places: dict[Loc, Place] = {}
    _keep_places(document, ("policies", name), (), policy, places)
    _put_inside(document, policy, (), places)
    return Attachment(interface, "out", name, policy, places, rate, rate_place, shape)


def _put_inside(
    document: Document, policy: dict[str, Any], loc: Loc, places: dict[Loc, Place]
) -> None:
    """Replace the names of policies that divide classes by their classes."""
    for name, class_ in policy["classes"].items():
        here = (*loc, "classes", name)
        divided = class_.pop("policy", None)
        if divided is not None:
            inner = deepcopy(document.data["policies"][divided])
            class_["classes"] = inner["classes"]
            at = ("policies", divided, "classes")
            _keep_places(document, at, (*here, "classes"), inner["classes"], places)
        if "classes" in class_:
            _put_inside(document, class_, here, places)


def _keep_places(
    document: Document, loc: Loc, target: Loc, data: Any, places: dict[Loc, Place]
) -> None:
    """Keep the lines of a value and all values in it."""
    places[target] = _place(document, loc)
    if not isinstance(data, (dict, list)):
        return
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        _keep_places(document, (*loc, key), (*target, key), value, places)


def _place(document: Document, loc: Loc) -> Place:
    """Return the line of a value, or of its key if that is a line of its own."""
    file, line, _ = document.place(loc, at_key=True)
    return Place(file, line)
