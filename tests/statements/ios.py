"""Statements of IOS and IOS-XE, with what Cisco's documents say of them."""

from statements.statement import Approximated, Statement

COMMANDS = "Cisco IOS Quality of Service Solutions Command Reference"


def policy(*statements: str, rest: str = "") -> str:
    """Return a policy whose class `voice` (EF) has statements, at an interface of 10 Mb/s."""
    inside = "".join(f"  {each}\n" for each in statements)
    return (
        "class-map match-all voice\n match dscp ef\n"
        f"policy-map p\n class voice\n{inside} class class-default\n{rest}"
        "interface GigabitEthernet0/1\n bandwidth 10000\n service-policy output p\n"
    )


BOTH = {"voice": {"dscp": "ef", "mbps": 9}, "rest": {"mbps": 9}}

STATEMENTS = (
    Statement(
        "police cir bc",
        policy("police cir 2000000 bc 10000"),
        policy("police cir 3000000 bc 10000"),
        f"{COMMANDS}, police: the committed information rate is in bit/s, bc in bytes",
        flows={"voice": {"dscp": "ef", "mbps": 9}},
        expected={"voice": 2.0},
    ),
)

APPROXIMATED: tuple[Approximated, ...] = ()

OTHER_WORDS: frozenset[str] = frozenset()
"""Words in the reader that are no keywords of statements: parts of notes and names of values."""
