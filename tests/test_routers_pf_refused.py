"""Statements that pfctl refuses: an error with its reason, and interfaces without a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from altq import config
from perhop.errors import UsageError
from perhop.routers import lint
from perhop.routers.reading import Fault
from perhop.routers.scenario import build

if TYPE_CHECKING:
    from pathlib import Path

CBQ = """\
altq on em0 cbq bandwidth 10Mb queue { std, web }
queue std bandwidth 40% cbq(default)
queue web bandwidth 60% cbq(borrow) { a, b }
queue a bandwidth 50% priority 2
queue b bandwidth 50%
pass out on em0 proto tcp queue a
"""

PRIQ = """\
altq on em0 priq bandwidth 10Mb queue { std, web }
queue std priority 3 priq(default)
queue web priority 5
pass out on em0 proto tcp queue web
"""

HFSC = """\
altq on em0 hfsc bandwidth 10Mb queue { std, web }
queue std bandwidth 40% hfsc(default)
queue web bandwidth 60% { a, b }
queue a bandwidth 50% hfsc(realtime 2Mb upperlimit 5Mb)
queue b bandwidth 50% hfsc(linkshare (2Mb 10 1Mb))
pass out on em0 proto tcp queue a
"""

OPENBSD = """\
queue main on em0 bandwidth 10M max 10M
queue std parent main bandwidth 4M default
queue web parent main bandwidth 6M min 1M burst 2M for 10ms
queue a parent web bandwidth 3M flows 100 quantum 300
queue b parent web bandwidth 3M qlimit 100
match out on em0 proto tcp set queue a
"""

ACCEPTED = {"cbq": CBQ, "priq": PRIQ, "hfsc": HFSC, "openbsd": OPENBSD}

REFUSED = [
    # parse.y of FreeBSD
    ("cbq", " cbq bandwidth", " bandwidth", 1, "no scheduler specified!"),
    ("cbq", " queue { std, web }", "", 1, "no child queues specified"),
    ("cbq", "on em0 cbq", "on ! em0 cbq", 1, "altq on ! <interface> is not supported"),
    ("cbq", "10Mb", "10Mb bandwidth 5Mb", 1, "bandwidth cannot be respecified"),
    ("cbq", "10Mb", "10m", 1, "unknown unit m"),
    ("cbq", "10Mb", "1.5", 1, "unknown unit "),
    ("cbq", "40%", "140%", 2, "bandwidth spec out of range"),
    ("cbq", "priority 2", "priority 2 priority 3", 4, "priority cannot be respecified"),
    ("cbq", "priority 2", "priority 256", 4, "priority out of range: max 255"),
    ("cbq", "priority 2", "qlimit 65536", 4, "qlimit out of range: max 65535"),
    ("cbq", "10Mb", "10Mb tbrsize 65536", 1, "tbrsize too big: max 65535"),
    ("cbq", "priority 2", "tbrsize 9000", 4, "cannot specify tbrsize for queue"),
    ("cbq", "cbq(default)", "cbq(default realtime 1Mb)", 2, 'unknown cbq flag "realtime"'),
    ("cbq", "cbq(default)", "cbq(default) cbq", 2, "scheduler cannot be respecified"),
    ("priq", "priq(default)", "priq(default borrow)", 2, 'unknown priq flag "borrow"'),
    ("hfsc", "hfsc(default)", "hfsc(default borrow)", 2, 'unknown hfsc flag "borrow"'),
    ("hfsc", "upperlimit 5Mb", "realtime 1Mb", 4, "realtime already specified"),
    # expand_queue
    ("cbq", "{ std, web }", "{ web }", 2, "queue std has no parent"),
    ("cbq", "cbq(default)", "hfsc(default)", 2, "exactly one scheduler type per interface"),
    ("cbq", "queue b", "queue a", 5, "queue a already exists on interface em0"),
    ("cbq", "{ a, b }", "{ a, b, web }", 3, "queue cannot have itself as child"),
    ("priq", "priority 5", "priority 5 { a }", 3, "priq queues cannot have child queues"),
    ("priq", "priority 5", "priority 5 bandwidth 50%", 3, "priq doesn't take bandwidth"),
    # eval_pfqueue and check_commit_altq
    ("cbq", "cbq(default)", "cbq", 1, "should have one default queue on em0"),
    ("cbq", "queue b bandwidth 50%", "queue b bandwidth 50% cbq(default)", 1, "one default queue"),
    ("cbq", "priority 2", "priority 8", 4, "priority out of range: max 7"),
    ("priq", "priority 5", "priority 16", 3, "priority out of range: max 15"),
    ("priq", "priority 5", "priority 3", 3, "web does not have a unique priority on interface em0"),
    ("priq", "priq(default)", "priq", 1, "should have one default queue on em0"),
    ("hfsc", "hfsc(default)", "", 1, "should have one default queue on em0"),
    ("hfsc", "60% {", "60% hfsc(default) {", 4, "adding a would make default queue web not a leaf"),
    ("hfsc", "(2Mb 10 1Mb)", "(2Mb 10 0b)", 5, "m2 is zero for b"),
    ("hfsc", "(2Mb 10 1Mb)", "(1Mb 10 2Mb)", 5, "m1 must be zero for convex curve: b"),
    (
        "hfsc",
        "(default",
        "(default realtime 8001Kb",
        2,
        "real-time sc exceeds 80% of the interface",
    ),
    ("hfsc", "40%", "41%", 3, "linkshare sc exceeds parent's sc"),
    ("hfsc", "bandwidth 40% ", "", 3, "linkshare sc exceeds parent's sc"),
    ("hfsc", "(2Mb 10 1Mb)", "(4Mb 10 1Mb)", 5, "linkshare sc exceeds parent's sc"),
    ("hfsc", "upperlimit 5Mb", "upperlimit 1Mb", 4, "upper-limit sc smaller than real-time sc"),
    # parse.y of OpenBSD
    ("openbsd", "bandwidth 4M", "bandwidth 40%", 2, "no bandwidth in % yet"),
    ("openbsd", "bandwidth 4M", "bandwidth 4m", 2, 'unknown unit "m"'),
    ("openbsd", "bandwidth 4M", "bandwidth 4M bandwidth 4M", 2, "bandwidth cannot be respecified"),
    ("openbsd", "default", "default default", 2, "default cannot be respecified"),
    ("openbsd", "for 10ms", "for 10s", 3, "time in scspec must be in ms"),
    ("openbsd", "flows 100", "flows 32768", 4, "number of flows out of range: max 32767"),
    ("openbsd", "quantum 300", "quantum 65536", 4, "quantum out of range: max 65535"),
    ("openbsd", " on em0 b", " b", 1, "root queue without interface"),
    ("openbsd", " bandwidth 3M qlimit", " qlimit", 5, "no bandwidth or flow specification"),
    # pfctl.c of OpenBSD, and pf_rule_copyin
    ("openbsd", "b parent web", "b on em0", 5, "A root queue is already defined on em0"),
    ("openbsd", "b parent web", "b parent wob", 5, "queue b: parent wob not found"),
    ("openbsd", "queue b", "queue a", 5, "queue a respecified"),
    ("openbsd", "6M min", "6M default min", 3, "default queue web is not a leaf queue"),
    ("openbsd", "10ms", "10ms flows 9", 3, "flow queue web is not a leaf queue"),
    ("openbsd", "4M default", "4M", 1, "no default queue specified"),
    ("openbsd", "bandwidth 3M flows", "flows", 4, "queue a: no bandwidth was specified"),
    ("openbsd", "set queue a", "set queue web", 6, "packets must be assigned to leaf queues only"),
    ("openbsd", "set queue a", "set queue (a, c)", 6, "DIOCADDRULE: Device busy, as no queue is c"),
]


@pytest.mark.parametrize(("base", "old", "new", "line", "reason"), REFUSED)
def test_what_pfctl_refuses_is_an_error_with_its_reason(
    base: str, old: str, new: str, line: int, reason: str
) -> None:
    text = ACCEPTED[base].replace(old, new, 1)
    assert text != ACCEPTED[base]
    found = config(text)
    assert found.attachments == ()
    told = {each.place.line: each.note for each in found.lines if each.fault is Fault.REFUSED}
    assert min(told) == line and reason in told[line]
    assert all(each.startswith("pfctl refuses it: ") for each in told[line].split("; "))
    [refusal] = found.refusals
    assert refusal.interface in ("em0", "the host") and refusal.place.line == line


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_what_pfctl_accepts_is_not_refused(text: str) -> None:
    found = config(text)
    assert found.refusals == ()
    assert [each.interface for each in found.attachments] == ["em0"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # FreeBSD's pfctl warns of it: "the sum of the child bandwidth (…) higher than parent".
        ("bandwidth 40%", "bandwidth 50%"),
        # Its kernel makes an identifier for the name, which is of no queue.
        ("tcp queue a", "tcp queue nowhere"),
        # A list may name queues that are not defined.
        ("{ std, web }", "{ std, web, more }"),
        # They may be in a file that is not read.
        ("queue std bandwidth 40% cbq(default)", 'include "/etc/pf.queues"'),
        ("bandwidth 40% cbq", "bandwidth 40%\\\n cbq"),
    ],
)
def test_what_freebsd_accepts_is_not_refused(old: str, new: str) -> None:
    text = CBQ.replace(old, new)
    assert text != CBQ
    assert config(text).refusals == ()


def test_nothing_of_a_refused_file_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "pf.conf"
    other = PRIQ.replace("em0", "em1").replace("std", "low").replace("web", "high")
    file.write_text(PRIQ.replace("priority 5", "priority 3") + other)
    found = config(file.read_text())
    assert {each.interface: each.place.line for each in found.refusals} == {"em0": 3, "em1": 3}
    notes = {each.place.line: each.note for each in found.lines}
    assert notes[5] == "pfctl loads nothing of the file, as it refuses q.conf:3"
    errors = [
        (each.rule.name, each.place.line)
        for each in lint.lint([file])
        if each.rule.severity == "error"
    ]
    assert errors == [("refused-line", 3)]
    for interface in (None, "em0", "em1"):
        with pytest.raises(UsageError, match=r"em[01] has no policy: web does not have a unique"):
            build([file], interface=interface)
