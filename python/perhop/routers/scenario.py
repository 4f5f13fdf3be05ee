"""The scenario that a configuration amounts to: its policy in a minimal network, with traffic.

The policy stands at one link. Fast links lead to it and away from it, so that packets wait at the
policy and nowhere else. Each class has one flow, whose packets this class matches and no earlier
one, and which offers more than the link can carry. Strict classes start one after another, after
the others: each phase shows what they leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perhop.errors import UsageError
from perhop.linux.given import fingerprint
from perhop.routers.headers import headers, ipv6_prefixes, unreachable
from perhop.routers.network import network, rates
from perhop.routers.reading import described, detect, scenario_name, select
from perhop.routers.reading.selection import policy as policy_of
from perhop.routers.traffic import Traffic, groups, is_strict, phase_ps
from perhop.scenario import LinkShape, Policy
from perhop.scenario.model.scenario import MAX_FLOWS
from perhop.scenario.model.script import Script
from perhop.scenario.reading.document import Document, Mark
from perhop.scenario.reading.loader import places, validated
from perhop.units import format_duration, quote

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from perhop.routers.headers import ClassPath
    from perhop.routers.reading import Attachment, Configuration, Direction
    from perhop.routers.reading.configuration import HostCommand, Place
    from perhop.scenario import Overrides, Scenario

__all__ = ["Imported", "around", "build", "marks"]


@dataclass(frozen=True, slots=True)
class Imported:
    """A configuration as a scenario.

    Attributes:
        configuration: All that the configuration says about quality of service.
        attachment: The policy that the scenario has.
        document: The scenario; values of the policy have the places of their lines.
        remarks: Assumptions, and classes without traffic, with the reasons.
        flows: The flow or ping of each class, and the class.
    """

    configuration: Configuration
    attachment: Attachment
    document: Document
    remarks: tuple[str, ...]
    flows: dict[str, ClassPath]

    def scenario(self, overrides: Overrides = ()) -> Scenario:
        """Return the scenario.

        Args:
            overrides: Changes to make first.

        Raises:
            ScenarioError: The policy is not one that perhop can run, with the line of each problem.
        """
        return self._with_script(validated(self.document, overrides))

    def _with_script(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the commands of Linux that its policy was read from."""
        interface, name = self.attachment.interface, scenario_name(self.attachment.name)
        if self.attachment.direction != "out" or name not in scenario.policies:
            return scenario
        own = [each for each in self.configuration.commands if each.interface in ("", interface)]
        if not any(each.words[0] in ("tc", "nft") for each in own):
            return scenario
        read = Policy.model_validate(self.attachment.policy)
        given = self.attachment.shape
        shape = None if given is None else LinkShape.model_validate(given)
        script = Script(
            interface=interface,
            commands=tuple(each.words for each in own),
            classes=self._counting(own),
            policy=fingerprint(read, shape),
        )
        policies = {
            **scenario.policies,
            name: scenario.policies[name].model_copy(update={"script": script}),
        }
        return scenario.model_copy(update={"policies": policies})

    def _counting(self, own: Sequence[HostCommand]) -> dict[str, str]:
        """Return the class of Linux of each class whose line adds one only."""
        at: dict[Place, set[str]] = {}
        for each in own:
            words = each.words
            if words[:2] == ("tc", "class") and "classid" in words[:-1]:
                at.setdefault(each.place, set()).add(words[words.index("classid") + 1])
        found = {}
        for loc, place in self.attachment.places.items():
            if loc and loc[-2:-1] == ("classes",) and len(at.get(place, ())) == 1:
                found["/".join(map(str, loc[1::2]))] = next(iter(at[place]))
        return found

    def places(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the line of the configuration that each value of the scenario is from.

        Args:
            paths: Dotted paths of values.
        """
        return places(self.document, paths)


def build(
    files: Sequence[str | os.PathLike[str]],
    *,
    family: str | None = None,
    interface: str | None = None,
    direction: Direction | None = None,
    rate: int | None = None,
) -> Imported:
    """Return the scenario that a configuration amounts to.

    Args:
        files: The files of the configuration.
        family: Its family; detected by default.
        interface: The interface; by default the first with a policy.
        direction: The direction; by default ``out`` if the interface has a policy there.
        rate: The rate of the interface in bit/s; by default that in the configuration.

    Raises:
        UsageError: A file cannot be read, the configuration has no such policy, or the rate is
            unknown.
    """
    configuration = detect.read_at(rate, files, family, interface=interface, direction=direction)
    return around(configuration, str(files[0]), interface, direction, rate)


def around(
    configuration: Configuration,
    file: str,
    interface: str | None = None,
    direction: Direction | None = None,
    rate: int | None = None,
) -> Imported:
    """Return a policy of a configuration with a network around it, as `build` does.

    Args:
        configuration: The configuration.
        file: Its name in messages.
        interface: As for `build`.
        direction: As for `build`.
        rate: As for `build`, if the configuration was not read for this rate.
    """
    attachment = select(
        configuration, file, interface=interface, direction=direction, any_of_several=True
    )
    remarks: list[str] = []
    policies = {(each.interface, each.direction, each.name) for each in configuration.attachments}
    if interface is None and direction is None and len(policies) > 1:
        remarks.append(
            f"{file} has {len(policies)} policies; `perhop import` lists them, and its options "
            "--interface and --direction choose one"
        )
    link, capacity = rates(attachment, file, rate, remarks)
    if attachment.direction == "in":
        remarks.append(
            f"{attachment.place(())}: the policy for received packets stands at the sending end of "
            "the link, so that packets wait for the link behind it, not before it"
        )
    policy = policy_of(configuration, attachment, unused=False)
    _few_enough(policy, attachment)
    traffic, classes, duration_ps = _traffic(policy, capacity, remarks)
    policy["notes"] += remarks
    mapping = {
        "perhop": 1,
        "name": scenario_name(Path(file).stem),
        "title": f"{described(attachment)} of {Path(file).name}",
        "description": _about(attachment, file),
        **network(configuration, attachment, traffic, link),
        "policies": {scenario_name(attachment.name): policy},
        **traffic.sections(),
        "duration": format_duration(duration_ps),
        "report": {"interval": format_duration(duration_ps // 20)},
    }
    document = Document(file, mapping, marks(attachment, len(traffic.hosts[0])))
    return Imported(configuration, attachment, document, tuple(remarks), classes)


def _few_enough(policy: dict[str, Any], attachment: Attachment) -> None:
    """Refuse a policy with more classes than a scenario can have flows.

    Raises:
        UsageError: It has too many.
    """
    count, todo = 0, [policy]
    while todo:
        for class_ in todo.pop()["classes"].values():
            todo += [class_] if "classes" in class_ else []
            count += "classes" not in class_
    if count > MAX_FLOWS:
        raise UsageError(
            f"{attachment.place(())}: {quote(attachment.name)} has {count:,} classes, and the "
            f"scenario that perhop makes has a flow for each, {MAX_FLOWS:,} at most; write a "
            "scenario with `policies: {wan: {from: FILE}}` and the flows that matter"
        )


def _about(attachment: Attachment, file: str) -> str:
    where = f"at {attachment.interface}" if attachment.interface else "at no interface"
    return (
        f"The policy {attachment.name} {where} in {file}, in a network made for it. Each class has "
        "a flow that offers more than the link carries; strict classes start later, one after "
        "another."
    )


def _traffic(
    policy: dict[str, Any], capacity: int, remarks: list[str]
) -> tuple[Traffic, dict[str, ClassPath], int]:
    """Return a flow for each class, these classes, and the duration in picoseconds.

    Classes without a flow become `unused`.
    """
    found = headers(policy)
    phases = groups(policy, found)
    length_ps = phase_ps(capacity)
    traffic = Traffic()
    traffic.reserve(found.values())
    classes: dict[str, ClassPath] = {}
    for path, chosen in found.items():
        name = scenario_name("-".join(path), {*classes, "total"})
        strict = is_strict(policy, path)
        if chosen is None:
            why = unreachable(policy, path)
        else:
            why = traffic.add(name, chosen, strict=strict, capacity=capacity)
        if why:
            found[path] = None
            _class(policy, path)["unused"] = True
            for depth in range(1, len(path)):
                inside = [other for other in found if other[:depth] == path[:depth]]
                if not any(found[other] for other in inside):
                    _class(policy, path[:depth])["unused"] = True
            remarks.append(f"class {'/'.join(path)} has no flow: {why}")
            continue
        classes[name] = path
        phase = next(number for number, group in enumerate(phases) if path in group)
        if phase:
            (traffic.flows | traffic.pings)[name]["start"] = format_duration(phase * length_ps)
    both = [
        path
        for name, path in classes.items()
        if "ip" not in (traffic.flows | traffic.pings)[name] and ipv6_prefixes(_class(policy, path))
    ]
    if both:
        listed = ", ".join("/".join(path) for path in both)
        remarks.append(f"flows have IPv4 addresses; IPv6 addresses have none in {listed}")
    return traffic, classes, len(phases) * length_ps


def _class(policy: dict[str, Any], path: ClassPath) -> dict[str, Any]:
    found = policy
    for name in path:
        found = found["classes"][name]
    return found


def marks(attachment: Attachment, link: int | None = None) -> dict[tuple[str | int, ...], Mark]:
    """Return the places of the values of a scenario that come from a configuration.

    Args:
        attachment: The policy.
        link: The number of its link, whose rate and shaper come from the configuration, too.
    """
    name = scenario_name(attachment.name)
    top = attachment.place(())
    found: dict[tuple[str | int, ...], Mark] = {(): _mark(top.file, 1)}
    for loc, place in {(): top, **attachment.places}.items():
        found["policies", name, *loc] = _mark(place.file, place.line)
    if link is not None:
        rate, shape = attachment.rate_place or top, attachment.place(("shape",))
        found["links", link, "rate"] = _mark(rate.file, rate.line)
        found["links", link, "shape"] = _mark(shape.file, shape.line)
    return found


def _mark(file: str, line: int) -> Mark:
    return Mark(max(line, 1), 1, max(line, 1), 1, file)
