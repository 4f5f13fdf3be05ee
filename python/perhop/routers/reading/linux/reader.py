"""Reading scripts of Linux hosts: commands of tc, nft and iptables; and their output."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import (
    AS_STATED,
    Attachment,
    Configuration,
    Direction,
    Fault,
    HostCommand,
    Place,
    Refusal,
    Source,
    Treatment,
)
from perhop.routers.reading.linux import units
from perhop.routers.reading.linux.classify import EVERY, Packets, classify, edited, matches
from perhop.routers.reading.linux.elsewhere import elsewhere
from perhop.routers.reading.linux.ledger import Ledger
from perhop.routers.reading.linux.model import (
    CLSACT_EGRESS,
    CLSACT_INGRESS,
    INGRESS,
    ROOT,
    Device,
)
from perhop.routers.reading.linux.nft import Ruleset
from perhop.routers.reading.linux.output import is_output
from perhop.routers.reading.linux.policers import DROPS, Buckets
from perhop.routers.reading.linux.sharing import CLASSFUL
from perhop.routers.reading.linux.shell import SAYS, Command, commands
from perhop.routers.reading.linux.state import State
from perhop.routers.reading.linux.tc import OBJECTS, VERBS, Tc
from perhop.routers.reading.linux.translation import Translations
from perhop.routers.reading.linux.tree import Tree, fit_shares
from perhop.routers.reading.linux.words import unknown
from perhop.routers.reading.matching import Rules, TooManyRulesError
from perhop.scenario.model.htb import HTB
from perhop.scenario.model.script import MOST_COMMANDS
from perhop.units import format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.routers.reading.configuration import Loc
    from perhop.routers.reading.linux.model import Filter

__all__ = ["attachments", "read"]

_TOOLS: Final = re.compile(
    r"(?:\S*/)?(tc|nft|ip6?tables(?:-restore)?)|\$\{?_?(tc|nft|ip6?tables|ip6?t|ipt6)(?:_?(?:cmd|bin))?\}?",
    re.IGNORECASE,
)
_SHOWS: Final = frozenset({"show", "list", "ls", "lst", "s", "l", "monitor", "get", "help"})
_RULES: Final = re.compile(r"^[ \t]*(?:add )?table (?:ip6?|inet|netdev|bridge) \S+", re.M)
_SCRIPT: Final = re.compile(r"^[ \t]*(?:sudo )?(?:\S*/)?(?:nft|tc) ", re.M)
_SHORT: Final = {
    **{name: name for name in ("tc", "nft", "iptables", "ip6tables")},
    **{f"{name}-restore": f"{name}-restore" for name in ("iptables", "ip6tables")},
    "ipt": "iptables",
    "ip6t": "ip6tables",
    "ipt6": "ip6tables",
}
_RESTORED: Final = re.compile(r'"[^"]*"|[^\s"]+')
"""The words of a rule that `iptables-save` prints."""

_FIRST: Final = 12
_BY_PRIORITY: Final = frozenset({"cake", "fq_codel", "sfq"})
"""Qdiscs whose queues a packet's priority can choose, by the handle (Linux, `cake_select_tin`)."""


def read(texts: Sequence[Source], rates: Mapping[str, int] = AS_STATED) -> Configuration:
    """Return the policies of a host from its scripts, or from the state that its tools print.

    Args:
        texts: The scripts and outputs.
        rates: Speeds of cards in bit/s in place of theirs, as for `detect.read`.
    """
    files = frozenset(PurePath(text.file).name for text in texts)
    ledger = Ledger([text.file for text in texts])
    tc, rules = Tc(ledger, rates), Ruleset(ledger)
    translations = Translations(ledger)
    state = State(tc, rules, ledger, translations)
    for text in texts:
        if is_output(text.text):
            state.read(text)
            continue
        script = ledger.bounded(text)
        if _RULES.search(script.text) and not _SCRIPT.search(script.text):
            lines = enumerate(script.text.split("\n"), 1)
            placed = [(Place(script.file, number), line) for number, line in lines]
            rules.lines(placed)
            translations.nft(placed)
            whole = ("nft", *script.text.split("\n"))
            tc.given(HostCommand(Place(script.file, 1), "", whole))
            continue
        for command in commands(script):
            why = elsewhere(command, files)
            if why:
                ledger.about(command.place, command.text)
                ledger.ignored(command.place, why)
            else:
                _command(command, tc, rules, ledger, translations)
    state.apply()
    translations.note(tc.host.devices, tc.refused)
    found = []
    devices = tc.host.devices
    names = list(devices)
    for name in names:
        device = devices.pop(name)  # its policy takes its place in memory
        if name in tc.refused:
            _without_policy(device, tc.refused[name][0], ledger)
            continue
        found += attachments([device], ledger, rules)
    for name in rules.devices(names):
        found += attachments([Device(name)], ledger, rules)
    for place, added in tc.changes:
        if ledger.treatment(added) is Treatment.NOT_MODELLED:
            ledger.ignored(place, f"it changes {added}, which is not modelled")
    if not any(each.direction == "out" for each in found):
        rules.unused(policed=any(each.direction == "in" for each in found))
    refusals = tuple(Refusal(name, *refused) for name, refused in tc.refused.items())
    given = () if len(tc.commands) > MOST_COMMANDS else tuple(tc.commands)
    return Configuration(
        "tc",
        ledger.lines(),
        ledger.defaults(),
        tuple(found),
        refusals=refusals,
        commands=given,
    )


def _without_policy(device: Device, refused: Place, ledger: Ledger) -> None:
    """Note the lines of an interface that has no policy, because one of them is refused."""
    note = f"{device.name} has no policy, as tc refuses {refused}"
    places = [each.place for each in device.qdiscs.values()]
    places += [each.place for each in device.classes.values()]
    for place in places + [each.place for each in device.filters]:
        ledger.ignored(place, note)


def _command(
    command: Command, tc: Tc, rules: Ruleset, ledger: Ledger, translations: Translations
) -> None:
    words = list(command.words)
    if words[0] in SAYS:
        return
    if words[0] in OBJECTS and len(words) > 2 and words[1] in VERBS and len(words[0]) > 2:
        _tc(words, command, tc, ledger)
        return
    if command.ended and not any(map(_TOOLS.fullmatch, words[:_FIRST])):
        return
    if "txqueuelen" in words and words[-1] != "txqueuelen":
        _length(words, command, tc, ledger)
        return
    if words[:2] == ["ethtool", "-s"] and "speed" in words[3:-1]:
        speed = words[words.index("speed", 3) + 1]
        if re.fullmatch("[0-9]{1,7}", speed) and int(speed):
            ledger.about(command.place, command.text)
            if words[2] in tc.host.speeds:
                ledger.ignored(command.place, "another rate is given in its place")
            else:
                card = tc.host.device(words[2])
                card.speed, card.speed_place = int(speed) * 10**6, command.place
        return
    space = ""
    for index, word in enumerate(words[:_FIRST]):
        if word == "exec" and index >= 2 and words[index - 1] == "netns":
            space = f"{words[index + 1]}/" if index + 1 < len(words) else ""
        match = _TOOLS.fullmatch(word)
        if match is None:
            continue
        tool = _SHORT[(match[1] or match[2]).lower()]
        if tool == "tc":
            _tc_options(words[index + 1 :], command, tc, ledger, space)
        elif tool.endswith("-restore"):
            _restore(tool.removesuffix("-restore"), command, tc, rules, ledger, translations)
        else:
            _other(tool, words[index + 1 :], command, tc, rules, ledger, translations)
        return


def _restore(
    tool: str,
    command: Command,
    tc: Tc,
    rules: Ruleset,
    ledger: Ledger,
    translations: Translations,
) -> None:
    """Read what `iptables-save` prints, as the commands that it stands for."""
    table = ""
    for place, line in command.body:
        words = [word.strip('"') for word in _RESTORED.findall(line)]
        if line.startswith("*"):
            table = words[0][1:]
            words = [] if "--noflush" in command.words or "-n" in command.words else ["-F"]
        elif line.startswith(":"):
            words = ["-P", words[0][1:], words[1]] if words[1:2] not in ([], ["-"]) else []
        elif not line.startswith("-"):
            continue
        if words:
            one = replace(command, place=place, text=line, body=())
            _other(tool, ["-t", table, *words], one, tc, rules, ledger, translations)


def _length(words: list[str], command: Command, tc: Tc, ledger: Ledger) -> None:
    at = words.index("txqueuelen")
    name = words[words.index("dev") + 1] if "dev" in words[:-1] else ""
    if not name and "set" in words[: at - 1]:
        name = words[words.index("set") + 1]
    elif not name:
        name = words[1] if len(words) > 1 else ""
    if re.fullmatch("[0-9]{1,9}", words[at + 1]) and name:
        ledger.about(command.place, command.text)
        try:
            tc.host.device(name).length = int(words[at + 1])
            set_ = ("ip", "link", "set", "dev", name, "txqueuelen", words[at + 1])
            tc.given(HostCommand(command.place, name, set_))
        except ValueError as error:
            ledger.ignored(command.place, str(error))


def _tc_options(words: list[str], command: Command, tc: Tc, ledger: Ledger, space: str) -> None:
    """Skip the options of tc, and read a batch of commands."""
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("-n", "-netns", "-net") and words:
            space = f"{words.pop(0)}/"
        elif option in ("-b", "-batch"):
            if (words[:1] == ["-"] or not words) and command.body:
                for place, line in command.body:
                    parts = line.split()
                    if parts and not parts[0].startswith("#"):
                        inner = replace(
                            command, place=place, text=line, words=tuple(parts), body=()
                        )
                        if parts[0] in OBJECTS and len(parts) > 1 and parts[1] in VERBS:
                            _tc(parts, inner, tc, ledger, space)
                        else:
                            ledger.about(place, line)
                            ledger.ignored(place, "unknown command of tc")
            return
    if len(words) < 2 or words[0] not in OBJECTS or words[1] in _SHOWS:
        return
    if words[1] not in VERBS:
        ledger.about(command.place, command.text)
        ledger.ignored(command.place, "unknown command of tc")
        return
    _tc(words, command, tc, ledger, space)


def _tc(words: list[str], command: Command, tc: Tc, ledger: Ledger, space: str = "") -> None:
    ledger.about(command.place, command.text)
    if command.lost:
        ledger.ignored(command.place, command.lost)
        tc.unread = tc.unread or not command.ended
        return
    said = "".join(words)
    for index, word in enumerate(words) if "$" in said or "`" in said else ():
        if "$" in word or "`" in word:
            part = unknown(word)
            if part and (index == 0 or words[index - 1] != "dev"):
                ledger.ignored(command.place, f"the value of {part} is not in the script")
                tc.unread = True
                return
    tc.run(words, command.place, branch=command.branch, space=space)


def _other(
    tool: str,
    words: list[str],
    command: Command,
    tc: Tc,
    rules: Ruleset,
    ledger: Ledger,
    translations: Translations,
) -> None:
    """Read rules of nft, and account for those of iptables about quality of service."""
    said = " ".join(words)
    if command.ended:
        pass
    elif tool == "nft":
        translations.nft(command.body or [(command.place, said)])
    else:
        translations.iptables(words, command.place, ipv6=tool == "ip6tables", branch=command.branch)
    if not command.lost and "$" not in said and not (_SHOWS & {*words[:2]}):
        body = tuple(line for _, line in command.body) or (said,)
        given = (tool, *body) if tool == "nft" else (tool, *words)
        tc.given(HostCommand(command.place, "", given))
    part = next(filter(None, map(unknown, words)), "") if "$" in said else ""
    unread = command.lost or (f"the value of {part} is not in the script" if part else "")
    if tool == "nft":
        if command.body and not command.lost:
            rules.lines(command.body, branch=command.branch)
        elif not _SHOWS & {*words[:2]}:
            place, text = command.place, command.text
            rules.command(words, place, text, branch=command.branch, unread=unread)
    else:
        rules.iptables(
            words,
            command.place,
            command.text,
            ipv6=tool == "ip6tables",
            branch=command.branch,
            unread=unread,
        )
    if (
        tool == "nft"
        and unread
        and re.search(r"MARK|CLASSIFY|DSCP|\bTOS\b|hashlimit|priority set|mark set|dscp set", said)
    ):
        ledger.about(command.place, command.text)
        ledger.ignored(command.place, unread)


def attachments(
    devices: Sequence[Device], ledger: Ledger, rules: Ruleset | None
) -> list[Attachment]:
    """Return the policies of interfaces.

    Args:
        devices: The interfaces.
        ledger: Where differences are noted.
        rules: The rules of the host, if there are any.
    """
    found = []
    for device in devices:
        found += _egress(device, ledger, rules)
        one = _ingress(device, ledger, rules)
        if one is not None:
            found.append(one)
    return found


def _sent(device: Device, arriving: Sequence[Packets], buckets: Buckets) -> list[Packets]:
    """Return the packets after the filters of `clsact` for what an interface sends."""
    own = [replace(each) for each in device.filters if each.parent == CLSACT_EGRESS and each.tests]
    own.sort(key=lambda each: (each.prio, each.order))
    for each in own:
        each.target = 0
    found = []
    for verdict in classify(arriving, own, buckets.of_actions):
        packets, filter_ = verdict.packets, verdict.filter
        if verdict.target == -1 and filter_ is not None:
            key = buckets.add("drop", filter_.place, "dropped", DROPS, "")
            packets = replace(packets, policers=(*packets.policers, key))
        edits = buckets.of_actions(filter_).edits if filter_ is not None else ()
        if filter_ is not None and any("inheritdsfield" in each.values for each in edits):
            note = "`inheritdsfield`: the priority by DSCP is not modelled"
            buckets.ledger.ignored(filter_.place, note)
        found.append(edited(packets, edits))
    buckets.reached(arriving, found, Rules.any())
    return found


def _egress(device: Device, ledger: Ledger, rules: Ruleset | None) -> list[Attachment]:
    """Return the policy for what an interface sends; none without a qdisc or a policer."""
    root = device.qdiscs.get(ROOT)
    above = [each for each in device.filters if each.parent == CLSACT_EGRESS]
    buckets = Buckets(device, ledger, device.framing or "")
    # What arrives has no priority yet: `ip_forward` gives it one behind an `ifb`.
    ifb = device.name.rpartition("/")[2].startswith("ifb")
    every = replace(EVERY, priority=0) if ifb else EVERY
    arriving: Sequence[Packets] = [every]
    try:
        if rules:
            arriving = rules.packets(device.name, buckets)
        if above:
            arriving = _sent(device, arriving, buckets)
    except (TooManyRulesError, ValueError) as error:
        without = "rules of nft and filters of clsact" if above else "rules of nft"
        for line in [root.place] if root is not None else [each.place for each in above]:
            ledger.approximated(line, f"without {without}: {error}")
        buckets, arriving = Buckets(device, ledger, device.framing or ""), [every]
    if root is None and not buckets:
        for each in above:
            ledger.ignored(each.place, "it polices nothing, and its interface has no qdisc")
        return []
    _chosen(device, arriving, ledger)
    top = root.place if root is not None else buckets.place
    tree = Tree(device, ledger, buckets)
    part = tree.part(root, arriving, top)
    places: dict[Loc, Place] = {(): top, **part.places}
    policy = part.policy()
    if "classes" not in policy:
        policy = {"classes": {"all": {"match": "any", **part.keys}}}
        moved = {("classes", "all", *loc): place for loc, place in part.places.items()}
        places = {(): top, **moved}
        shaped = root is not None and root.kind in ("htb", "tbf")
        if part.shape is not None and shaped and device.framing:
            policy = tree.buckets(part, policy)
    policy, more = _before(policy, buckets)
    places |= more
    counted = {"overhead": device.framing} if device.framing else {}
    several = part.shape is not None and len(policy["classes"]) > 1
    if (tree.counts or several) and policy.get("scheduler") != HTB:
        policy |= counted
    shape = None
    if part.shape is not None:
        rate, burst = part.shape
        shape = {"rate": format_rate(rate)} | ({"burst": format_size(burst)} if burst else {})
        shape |= counted
    if part.shape_place is not None:
        places["shape",] = part.shape_place
    known = [each for each in (part.shape and part.shape[0], device.speed) if each]
    if known:
        fit_shares(policy["classes"], min(known))
    _unreached(device, tree, ledger)
    for each in device.filters:
        if root is not None and each.parent not in tree.asked and each.parent < INGRESS:
            ledger.ignored(each.place, "perhop models no classes of the qdisc of this filter")
    name = device.name.rpartition("/")[2] or "nft"
    told = device.speed_place or part.shape_place
    return [
        Attachment(device.name, "out", name, policy, places, device.speed, told, shape, tree.medium)
    ]


def _chosen(device: Device, arriving: Sequence[Packets], ledger: Ledger) -> None:
    """Note queues that priorities choose, and what filters set for qdiscs in classes."""
    given = {each.priority >> 16 for each in arriving if each.priority}
    for qdisc in device.qdiscs.values():
        if qdisc.kind in _BY_PRIORITY and qdisc.handle and qdisc.handle in given:
            note = "rules give packets a priority that chooses their tin or queue: not modelled"
            ledger.approximated(qdisc.place, note)
    inside = [each for parent, each in device.qdiscs.items() if parent not in (ROOT, INGRESS)]
    nested = any(each.kind in CLASSFUL for each in inside)
    chosen = {each.handle for each in inside if each.kind in _BY_PRIORITY}
    for filter_ in device.filters:
        for action in filter_.actions if filter_.parent < INGRESS else ():
            sets = action.values if action.kind == "skbedit" else {}
            by_priority = "priority" in sets and units.classid(sets["priority"]) >> 16 in chosen
            if by_priority or (nested and sets.keys() & {"priority", "mark"}):
                note = "what `skbedit` sets here does not count for qdiscs in classes"
                ledger.approximated(filter_.place, note)


def _unreached(device: Device, tree: Tree, ledger: Ledger) -> None:
    """Note classes and qdiscs that get no packets."""
    parents = {each.parent for each in device.classes.values()}
    for each in device.classes.values():
        if each.classid not in tree.reached and each.classid not in parents:
            marks = [
                filter_.handle
                for filter_ in device.filters
                if filter_.target == each.classid and filter_.kind == "fw"
            ]
            if marks:
                note = f"no rule that perhop can read sets the mark {marks[0][:20]} that leads here"
            else:
                note = "no filter leads packets to this class"
            ledger.ignored(each.place, note, Fault.UNUSED)
            below = device.qdiscs.get(each.classid)
            if below is not None:
                ledger.ignored(below.place, "no filter leads packets to its class")


def _before(policy: dict[str, Any], buckets: Buckets) -> tuple[dict[str, Any], dict[Loc, Place]]:
    """Return a policy with the policers that no class has, before its classes."""
    policers: dict[str, Any] = {}
    places: dict[Loc, Place] = {}
    for name, police, place in buckets.rest(policy["classes"]):
        policers[name] = police
        places["policers", name] = place
    return ({"policers": policers, **policy} if policers else policy), places


def _ingress(device: Device, ledger: Ledger, hooked: Ruleset | None) -> Attachment | None:
    """Return the policers of received packets, a class for each filter."""
    own = [each for each in device.filters if each.parent == CLSACT_INGRESS]
    own.sort(key=lambda each: (each.prio, each.order))
    direction: Direction = "in"
    buckets = Buckets(device, ledger)
    classes: dict[str, Any] = {}
    places: dict[Loc, Place] = {}
    try:
        arriving = [EVERY] if hooked is None else hooked.received(device.name, buckets)
        if INGRESS not in device.qdiscs and not buckets:
            return None
        used = [replace(each, target=index + 1) for index, each in enumerate(own) if each.tests]
        verdicts = [
            replace(each, target=used.index(each.filter) + 1) if each.filter is not None else each
            for each in classify(arriving, used, buckets.of_actions)
        ]
        level = [verdict.packets for verdict in verdicts]
        buckets.reached(arriving, level, Rules.any())
        keys = list(dict.fromkeys(verdict.target for verdict in verdicts))
        rules = matches([(v.packets.header, v.target) for v in verdicts], keys)
    except TooManyRulesError as error:
        if INGRESS in device.qdiscs:
            ledger.ignored(device.qdiscs[INGRESS].place, f"its filters: {error}")
        return None
    place = device.qdiscs[INGRESS].place if INGRESS in device.qdiscs else buckets.place
    places[()] = place
    for number, key in enumerate(keys):
        if rules[key].is_never:
            continue
        name = "rest" if key == 0 else f"filter{number + 1}"
        classes[name] = {"match": rules[key].written()}
        if key:
            filter_ = used[key - 1]
            places["classes", name] = filter_.place
            _received(filter_, ledger)
            if buckets.of_actions(filter_).then == "drop":
                classes[name] |= {"police": dict(DROPS)}
                continue
        police = buckets.claim([v.packets for v in verdicts if v.target == key], level, Rules.any())
        if police is not None:
            classes[name] |= {"police": police}
    policy, more = _before({"classes": classes}, buckets)
    places |= more
    if "policers" not in policy and not any("police" in each for each in classes.values()):
        return None
    return Attachment(device.name, direction, f"{device.name}-in", policy, places)


def _received(filter_: Filter, ledger: Ledger) -> None:
    """Note what becomes of packets at another interface."""
    for action in filter_.actions:
        if action.kind == "mirred":
            to = action.values.get("dev", "another interface")
            ledger.approximated(filter_.place, f"the policy of {to} is that of packets sent by it")
