"""Statements of Junos that configurations in use contain, and what perhop says of each."""

from typing import Any, Final

import pytest

from junos import notes, policy, reading
from perhop.routers.reading import Source
from perhop.routers.reading.detect import detect
from perhop.routers.reading.junos.filters import Filter, Filters
from perhop.routers.reading.junos.syntax import read_tree

HEAD: Final = "set class-of-service "
MAP: Final = (
    "set class-of-service interfaces ge-0/0/0 scheduler-map m\n"
    "set class-of-service scheduler-maps m forwarding-class best-effort scheduler be\n"
    "set class-of-service schedulers be transmit-rate percent 90\n"
)
POLICER: Final = (
    "set firewall policer p if-exceeding bandwidth-limit 1m\n"
    "set firewall policer p if-exceeding burst-size-limit 10k\n"
)
FILTER: Final = POLICER + "set interfaces ge-0/0/0 unit 0 family inet filter input f\n"


def said(text: str) -> dict[str, str]:
    """The note of each line of commands that is not modelled exactly."""
    lines = text.split("\n")
    return {lines[number - 1]: note for number, (_, note) in notes(text).items()}


def test_ranges_of_protocols_contain_those_of_scenarios() -> None:
    text = FILTER + "set firewall family inet filter f term a then policer p\n"
    text += "set firewall family inet filter f term a from protocol 7-17\n"
    text += "set firewall family inet filter f term a from protocol 2-5\n"
    text += "set firewall family inet filter f term r then accept\n"
    assert policy(text, direction="in")["a"]["match"] == {"protocol": "udp"}
    assert list(said(text).values()) == [
        "perhop's packets are TCP, UDP or ICMP: none has this protocol"
    ]


@pytest.mark.parametrize(
    ("action", "note"),
    [
        ("enhanced-hierarchical-policer p", "policers with guarantees inside are not modelled"),
        ("prefix-action p", "policers for each prefix are not modelled"),
    ],
)
def test_filters_with_other_policers_are_about_quality_of_service(action: str, note: str) -> None:
    text = FILTER + f"set firewall family inet filter f term a then {action}\n"
    text += f"set firewall {action} rate 1m\n".replace("prefix", "family inet prefix")
    assert set(said(text).values()) >= {note}
    assert len(reading(text).lines) == len(text.splitlines())


def test_policers_without_a_rate_are_not_modelled() -> None:
    text = "set firewall policer p then discard\n"
    text += "set firewall policer p if-exceeding-pps pps-limit 500\n"
    found = said(text + "set interfaces ge-0/0/0 unit 0 family inet policer input p")
    assert len(found) == 3
    assert "expected a rate and `burst-size-limit`" in found["set firewall policer p then discard"]
    text = POLICER.replace("bandwidth-limit 1m", "bandwidth-percent 5")
    text += "set firewall policer p logical-bandwidth-policer\n"
    text += "set interfaces ge-0/0/0 unit 0 family inet policer input p"
    assert list(said(text).values()) == [
        "percentages are of the rate of the interface, not of the unit"
    ]


def test_applied_groups_and_macros_are_no_unknown_statements() -> None:
    text = MAP + HEAD + "schedulers be apply-groups g\n"
    text += "set groups g class-of-service schedulers <*> buffer-size percent 9\n"
    assert said(text) == {}
    macro = HEAD + "scheduler-maps m apply-macro x"
    assert said(text + macro) == {macro: "has no effect on packets"}


def test_members_of_ranges_inherit_filters() -> None:
    text = POLICER + "set firewall policer p then discard\n"
    text += "set interfaces interface-range r unit 0 family inet policer input p\n"
    text += "set interfaces interface-range r member ge-0/0/[0-1,3]\n"
    text += "set interfaces interface-range r member-range xe-0/1/0 to xe-0/1/1\n"
    text += 'set interfaces interface-range r member "et-*"\nset interfaces et-0/0/9 mtu 9000'
    found = [each.interface for each in reading(text).attachments]
    assert set(found) == {
        *("ge-0/0/0.0", "ge-0/0/1.0", "ge-0/0/3.0", "xe-0/1/0.0", "xe-0/1/1.0", "et-0/0/9.0")
    }
    assert said(text) == {}
    large = text.replace("xe-0/1/1", "xe-0/1/1023") + "\nset interfaces interface-range s member x"
    assert "more members than perhop expands" in str(notes(large))
    many = "\n".join(f"set interfaces interface-range r member a{n}*" for n in range(33))
    assert "more members than perhop expands" in str(notes(f"{text}\n{many}"))


def test_schedulers_without_packets_are_not_modelled() -> None:
    text = MAP + HEAD + "scheduler-maps m forwarding-class assured-forwarding scheduler af\n"
    text += HEAD + "schedulers af buffer-size percent 10\n"
    text += HEAD + "schedulers af transmit-rate percent 5\n"
    assert list(said(text).values()) == [
        "no packet has this forwarding class, so the policy has no class for it",
        "no packet has a forwarding class with this scheduler",
    ]


def test_a_queue_has_one_forwarding_class_and_one_scheduler() -> None:
    text = MAP + HEAD + "forwarding-classes queue 0 first\n"
    text += HEAD + "forwarding-classes queue 0 best-effort\n"
    text += HEAD + "forwarding-classes class bulk queue-num 0\n"
    text += HEAD + "scheduler-maps m forwarding-class bulk scheduler other\n"
    text += HEAD + "schedulers other transmit-rate percent 60"
    assert list(said(text).values()) == [
        "replaced by line 5",
        "its queue has the scheduler of forwarding class `best-effort`",
        "no packet has a forwarding class with this scheduler",
    ]
    assert policy(text)["best-effort"]["bandwidth"] == "90%"


def test_classifiers_come_before_one_class_for_all_packets() -> None:
    text = MAP + HEAD + "interfaces ge-0/0/1 unit 0 forwarding-class best-effort\n"
    text += HEAD + "interfaces ge-0/0/2 unit 0 classifiers dscp default\n"
    assert set(policy(text, "ge-0/0/0")) > {"expedited-forwarding"}


def test_a_policy_has_the_rewrite_rules_of_a_unit_that_has_some() -> None:
    text = MAP + HEAD + "interfaces ge-0/0/0 unit 1 forwarding-class best-effort\n"
    text += HEAD + "interfaces ge-0/0/0 unit 2 rewrite-rules dscp r\n"
    text += HEAD + "interfaces ge-0/0/0 unit 3 rewrite-rules dscp other\n"
    for name in ("r", "other"):
        rule = f"rewrite-rules dscp {name} forwarding-class best-effort loss-priority low"
        text += HEAD + f"{rule} code-point cs1\n"
    assert policy(text, "ge-0/0/0")["best-effort"]["mark"] == "cs1"
    assert list(said(text).values()) == [
        "the units share one policy, with the rewrite rules of unit 2",
        "only statements that are not modelled use it",
    ]


def test_lines_of_a_comparison_are_not_applied() -> None:
    text = "[edit class-of-service schedulers]\n+  gold {\n+      transmit-rate percent 20;\n+  }\n"
    found = notes(text)
    assert list(found) == [2, 3, 4]
    assert {note for _, note in found.values()} == {
        "a line of `show | compare`, which perhop does not apply"
    }


def test_statements_at_the_top_may_lack_the_words_above_them() -> None:
    text = "shared-buffer {\n    ingress { percent 50; }\n}\n"
    assert notes(text)[2][1] == "each queue of perhop has its own buffer"


def test_shared_and_exact_buffers_are_approximated() -> None:
    text = MAP + HEAD + "schedulers be buffer-size temporal 4k\n"
    exact = HEAD + "schedulers be buffer-size exact"
    assert said(text + exact) == {exact: "each queue of perhop has its own buffer"}
    shared = HEAD + "schedulers be buffer-size shared"
    assert said(MAP + shared) == {shared: "each queue of perhop has its own buffer"}


def test_known_statements_say_why_they_are_not_modelled() -> None:
    text = MAP + HEAD + "traffic-control-profiles t shaping-rate 10m\n"
    text += HEAD + "interfaces interface-set s output-traffic-control-profile t\n"
    text += "set interfaces interface-set s interface ge-0/0/0 unit 0\n"
    text += HEAD + "interfaces ge-0/0/0 output-traffic-control-profile-remaining t\n"
    text += HEAD + "interfaces ge-0/0/0 unit 0 policy-map x\n"
    text += "set interfaces ge-0/0/0 per-unit-scheduler"
    assert list(said(text).values()) == [
        "only statements that are not modelled use it",
        *["sets of interfaces are not modelled"] * 3,
        "perhop marks packets by rewrite rules and filters",
        "units have policies of their own, and do not share the interface",
    ]


def test_a_shaper_above_the_rate_of_the_interface_divides_that_rate() -> None:
    text = MAP.replace("percent 90", "3g") + HEAD + "interfaces ge-0/0/0 shaping-rate 10g"
    assert policy(text)["best-effort"]["bandwidth"] == "99%"


@pytest.mark.parametrize(
    "text",
    [
        "[edit class-of-service schedulers]\nuser@r# set gold priority high\n",
        "firewall { policer p { then discard; } }\n",
        "interfaces {\n}\nfirewall {\n family inet {\n filter f {\n term t {\n} } } }\n",
    ],
)
def test_parts_of_configurations_are_recognised(text: str) -> None:
    assert detect([Source("r.conf", text)]) == "junos"


def test_the_tree_has_each_word_and_no_list_once() -> None:
    text = "set class-of-service schedulers a priority low\n"
    text += "set class-of-service schedulers b priority low\n"
    tree = read_tree([Source("r.conf", text)])
    first, second = (tree.root.get("class-of-service", "schedulers", name) for name in "ab")
    assert first is not None
    assert second is not None
    leaves = [found for each in (first, second) if (found := each.get("priority", "low"))]
    assert leaves[0].word is leaves[1].word
    assert leaves[0].children is leaves[1].children
    assert list(tree.statements.values()) == leaves


def test_filters_at_outputs_without_queues_know_forwarding_classes() -> None:
    text = FILTER.replace("input f", "output f") + "set firewall policer p then discard\n"
    term = "set firewall family inet filter f term"
    text += f"{term} a from forwarding-class expedited-forwarding\n{term} a then policer p\n"
    text += f"{term} r then accept\n"
    text += "set firewall family inet filter f interface-specific\n"
    text += "set interfaces ge-0/0/1 unit 0 family inet filter output f\n"
    text += HEAD + "interfaces ge-0/0/2 unit 0 classifiers dscp default\n"
    for interface in ("ge-0/0/0.0", "ge-0/0/1.0"):
        assert policy(text, interface)["a"]["match"] == {"dscp": "ef"}
    assert said(text) == {}
    # The same for units with queues, of which the second has the policy of the first.
    queues = "\n".join(
        f"{HEAD}interfaces {name} scheduler-map m" for name in ("ge-0/0/0", "ge-0/0/1")
    )
    assert "condition" not in str(said(text + MAP + queues))


def test_filters_see_addresses_of_their_version() -> None:
    text = FILTER + "set firewall policer p then discard\n"
    text += "set policy-options prefix-list l 10.0.0.0/8\n"
    text += "set policy-options prefix-list l 2001:db8::/32\n"
    text += "set firewall family inet filter f term a from source-prefix-list l\n"
    text += "set firewall family inet filter f term a then policer p\n"
    assert policy(text, direction="in")["a"]["match"] == {"source": "10.0.0.0/8"}


def test_the_line_above_a_prompt_is_no_statement() -> None:
    text = "user@r> show configuration firewall\npolicer p {\n  then discard;\n}\n\n{master:0}\n"
    assert 6 not in notes(text)


def test_a_filter_at_many_outputs_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    read = Filters._read

    def counting(*given: Any) -> Filter | None:
        calls.append(given)
        return read(*given)

    monkeypatch.setattr(Filters, "_read", counting)
    text = POLICER + "set firewall policer p then discard\n"
    text += "set firewall family inet filter f term a from forwarding-class network-control\n"
    text += "set firewall family inet filter f term a then policer p\n"
    for unit in range(20):
        text += f"set interfaces ge-0/0/0 unit {unit} family inet filter output f\n"
    assert len(reading(text).attachments) == 20
    assert len(calls) <= 2


def test_scheduler_maps_of_units_need_a_statement_of_the_interface() -> None:
    """Juniper CLI reference, per-unit-scheduler: it enables scheduler maps of units."""
    line = HEAD + "interfaces ge-0/0/0 unit 0 scheduler-map m"
    text = MAP.replace(HEAD + "interfaces ge-0/0/0 scheduler-map m", line)
    assert text != MAP
    text += "set interfaces ge-0/0/0 unit 0 family inet\n"
    assert "only with `per-unit-scheduler`" in said(text)[line]
    assert line not in said(text + "set interfaces ge-0/0/0 per-unit-scheduler\n")
    assert line not in said(text + "set interfaces ge-0/0/0 hierarchical-scheduler\n")


def test_a_remainder_beside_the_rate_of_a_strict_high_queue_is_approximated() -> None:
    """The shares of the others are equal if the rate of 20% counts, else 40 to 60."""
    text = MAP.replace("percent 90", "remainder")
    for name, settings in (
        ("expedited-forwarding", "percent 20"),
        ("network-control", "percent 40"),
    ):
        text += f"{HEAD}scheduler-maps m forwarding-class {name} scheduler {name}\n"
        text += f"{HEAD}schedulers {name} transmit-rate {settings}\n"
    text += f"{HEAD}interfaces ge-0/0/0 unit 0 classifiers dscp default\n"
    line = HEAD + "schedulers be transmit-rate remainder"
    assert line not in said(text)
    text += f"{HEAD}schedulers expedited-forwarding priority strict-high\n"
    assert "strict-high class counts" in said(text)[line]


@pytest.mark.parametrize("name", ["lo0", "fxp0", "em1", "me0", "vme", "re0:mgmt-0"])
def test_packets_to_the_router_itself_are_not_classified_and_policed(name: str) -> None:
    """Filters of loopback and management interfaces see no packet that the router forwards."""
    f = "set firewall family inet filter f term a then "
    at = f"set interfaces {name} unit 0 "
    text = MAP + f"{f}forwarding-class network-control\n"
    text += f"{at}family inet filter input f\n{at}family inet6 policer input p\n"
    text += f"{HEAD}interfaces {name} unit 0 classifiers dscp default\n"
    text += HEAD + "interfaces all unit * classifiers inet-precedence default\n"
    text += "set interfaces ge-0/0/1 unit 0 family inet\n" + POLICER
    found = reading(text)
    assert {each.interface for each in found.attachments} == {"ge-0/0/0", "ge-0/0/1"}
    assert {each.value for each in found.defaults if each.setting == "classifiers"} == {
        "inet-precedence-default"
    }
    assert (
        list(said(text).values())[:4]
        == ["is about packets to the router itself, which are not modelled"] * 4
    )
    # One that polices is still a policy, without an interface.
    text = text.replace("forwarding-class network-control", "policer p")
    assert [each.name for each in reading(text).attachments if not each.interface] == ["f"]


def test_of_large_parts_only_filters_are_read() -> None:
    text = "forwarding-options { sampling { rate 1; } family inet { filter { input f; } } }\n"
    text += "routing-instances { r { protocols { bgp { group x; } } forwarding-options {\n"
    text += "    family inet6 { filter { output f; } } } } }\n"
    text += "logical-systems { l { protocols { bgp { group x; } mpls; } } }\n"
    root = read_tree([Source("r.conf", text)]).root
    assert root.get("forwarding-options", "sampling") is None
    assert root.get("routing-instances", "r", "protocols") is None
    assert root.get("logical-systems", "l", "protocols", "bgp") is None
    assert root.get("logical-systems", "l", "protocols", "mpls") is not None
    f = "filter f { term a { then dscp cs1; } }"
    found = notes(text + f"firewall {{ family inet {{ {f} }} family inet6 {{ {f} }} }}\n")
    assert {number: note for number, (_, note) in found.items()} == {
        1: "filters of forwarding tables are not modelled",
        3: "filters of forwarding tables are not modelled",
    }
