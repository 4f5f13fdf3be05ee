"""The name server of a lab's hosts."""

import struct
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perhop.lab import names
from perhop.lab.names import Names

A, PTR, MX, AAAA, ANY = 1, 12, 15, 28, 255
OPT = b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Names:
    file = tmp_path_factory.mktemp("etc") / "gai.conf"
    file.touch()
    monkeypatch.setattr(names, "PREFERENCES", file)
    return Names(
        {"Web": IPv4Address("10.0.0.1"), "b.c": IPv4Address("10.0.0.2")},
        {"Web": IPv6Address("fd70::1")},
    )


def query(name: str, kind: int, *, flags: int = 0x0100, more: bytes = b"") -> bytes:
    """A query as RFC 1035, section 4.1, describes it."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".") if part)
    header = struct.pack("!6H", 0xBEEF, flags, 1, 0, 0, int(bool(more)))
    return header + labels + b"\0" + struct.pack("!2H", kind, 1) + more


def answered(known: Names, message: bytes) -> tuple[int, list[bytes]]:
    """The response code and the data of the records of an answer."""
    said = known.answer(message)
    assert said is not None
    number, flags, questions, answers, authorities, _ = struct.unpack_from("!6H", said)
    assert (number, questions, authorities) == (0xBEEF, 1, 0)
    assert flags & 0x8500 == 0x8500  # a response, authoritative, as recursion was desired
    end = message.index(b"\0", 12) + 5
    assert said[12:end] == message[12:end]
    found = []
    for _ in range(answers):
        pointer, _, group, _, length = struct.unpack_from("!HHHIH", said, end)
        assert (pointer, group) == (0xC00C, 1)
        found.append(said[end + 12 : end + 12 + length])
        end += 12 + length
    return flags & 0xF, found


V4, V6 = IPv4Address("10.0.0.1").packed, IPv6Address("fd70::1").packed


@pytest.mark.parametrize(
    ("name", "kind", "code", "found"),
    [
        ("web", A, 0, [V4]),
        ("WEB", AAAA, 0, [V6]),
        ("web", ANY, 0, [V4, V6]),
        # A name without such records exists (RFC 2308, section 2.2).
        ("web", MX, 0, []),
        ("b.c", AAAA, 0, []),
        ("b.c", A, 0, [IPv4Address("10.0.0.2").packed]),
        ("b", A, 3, []),
        ("example.com", A, 3, []),
        ("", A, 3, []),
        ("1.0.0.10.in-addr.arpa", PTR, 0, [b"\3Web\0"]),
        ("2.0.0.10.in-addr.arpa", PTR, 0, [b"\1b\1c\0"]),
        (IPv6Address("fd70::1").reverse_pointer, PTR, 0, [b"\3Web\0"]),
        ("9.0.0.10.in-addr.arpa", PTR, 3, []),
        ("localhost", A, 0, [b"\x7f\0\0\1"]),
    ],
)
def test_answers(known: Names, name: str, kind: int, code: int, found: list[bytes]) -> None:
    assert answered(known, query(name, kind)) == (code, found)


def test_edns_is_answered_by_edns(known: Names) -> None:
    said = known.answer(query("web", A, more=OPT))
    assert said is not None
    assert said.endswith(OPT)
    later = OPT[:5] + struct.pack("!BBHH", 0, 1, 0, 0)
    said = known.answer(query("web", A, more=later))
    assert said is not None
    assert (
        said[-6] == 1
    )  # BADVERS is 16: the upper bits are in the option (RFC 6891, section 6.1.3)
    assert struct.unpack_from("!6H", said)[3] == 0


def test_other_messages(known: Names) -> None:
    assert known.answer(query("web", A, flags=0x8100)) is None
    update = known.answer(query("web", A, flags=0x2800))
    assert update == struct.pack("!6H", 0xBEEF, 0xA804, 0, 0, 0, 0)
    truncated = known.answer(query("web", A)[:-1])
    assert truncated == struct.pack("!6H", 0xBEEF, 0x8101, 0, 0, 0, 0)


@given(
    st.binary(max_size=64)
    | st.tuples(st.integers(0, 33), st.binary(min_size=1, max_size=9)).map(
        lambda change: query("web", A, more=OPT)[: change[0]] + change[1] + OPT
    )
)
def test_any_bytes_are_answered_or_ignored(message: bytes) -> None:
    said = Names({"web": IPv4Address("10.0.0.1")}, {}).answer(message)
    assert said is None or (said[:2] == message[:2] and said[2] & 0x80 and len(said) < 512)
