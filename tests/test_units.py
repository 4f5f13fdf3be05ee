import pytest
from hypothesis import given
from hypothesis import strategies as st

from perhop import units

U64 = st.integers(0, units.U64_MAX)
PAIRS = {
    "rate": (units.parse_rate, units.format_rate, U64),
    "duration": (units.parse_duration, units.format_duration, st.integers(0, units.MAX_DURATION)),
    "size": (units.parse_size, units.format_size, U64),
    "share": (units.parse_share, units.format_share, st.integers(0, units.WHOLE)),
}


@pytest.mark.parametrize("kind", PAIRS)
@given(data=st.data())
def test_parsing_what_was_formatted_gives_the_same_number(kind: str, data: st.DataObject) -> None:
    parse, show, values = PAIRS[kind]
    value = data.draw(values)
    assert parse(show(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (units.parse_rate("10 Mbps"), "10 Mbps"),
        (units.parse_rate("10Mbps"), "10 Mbps"),
        (units.parse_rate("9.41 Mb/s"), "9.41 Mbps"),
        (units.parse_rate("3 Gb/s"), "3 Gbps"),
        (units.parse_rate(" 0.5  kbps "), "500 bps"),
        (units.parse_rate("1500 bps"), "1.5 kbps"),
        (units.parse_rate("1000000001 bps"), "1.000000001 Gbps"),
    ],
)
def test_rates(value: int, text: str) -> None:
    assert units.format_rate(value) == text


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("116 ms", 116 * units.MILLISECOND, "116 ms"),
        ("50 \N{MICRO SIGN}s", 50 * units.MICROSECOND, "50 us"),
        ("50 \N{GREEK SMALL LETTER MU}s", 50 * units.MICROSECOND, "50 us"),
        ("2 min", 120 * units.SECOND, "120 s"),
        ("1.5 h", 5400 * units.SECOND, "5400 s"),
        ("0.001 ns", 1, "1 ps"),
        ("4800 h", units.MAX_DURATION, "17280000 s"),
        ("0 ms", 0, "0 s"),
    ],
)
def test_durations(text: str, value: int, shown: str) -> None:
    assert units.parse_duration(text) == value
    assert units.format_duration(value) == shown


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("64 KiB", 65536, "64 KiB"),
        ("1 MB", 1_000_000, "1 MB"),
        ("1.5 kB", 1500, "1500 B"),
        ("1448 B", 1448, "1448 B"),
        ("1024 kB", 1_024_000, "1024 kB"),
        ("0 GiB", 0, "0 B"),
    ],
)
def test_sizes(text: str, value: int, shown: str) -> None:
    assert units.parse_size(text) == value
    assert units.format_size(value) == shown


@pytest.mark.parametrize(
    ("text", "value"), [("1%", 10_000_000), ("100 %", units.WHOLE), ("0.0000001%", 1), ("0%", 0)]
)
def test_shares(text: str, value: int) -> None:
    assert units.parse_share(text) == value


@pytest.mark.parametrize(
    ("quantity", "text", "message"),
    [
        (units.RATE, "10", "a rate needs a unit, such as `10 Mbps`"),
        (units.RATE, "", "`` is not a rate"),
        (units.RATE, "fast", "`fast` is not a rate"),
        (units.RATE, "1_000 bps", "`_000 bps` is not a unit of a rate"),
        (units.RATE, "1e3 bps", "`e3 bps` is not a unit of a rate"),
        (units.RATE, "10 mbit/s", "did you mean `10 Mbps`?"),
        (units.RATE, "10 M", "did you mean `10 Mbps`?"),
        (units.RATE, "10 MB", "did you mean `10 Mbps`?"),
        (units.RATE, "-1 bps", "is negative"),
        (units.RATE, "0.1 bps", "is not a multiple of 1 bps"),
        (units.RATE, "18446744073709551616 bps", "is more than 2^64 - 1 bps"),
        (units.RATE, "9" * 1000 + " bps", "is not a rate"),
        (units.RATE, "\N{FULLWIDTH DIGIT ONE} bps", "is not a rate"),
        (units.RATE, "10 Mbps\n", "is not a rate"),
        (units.DURATION, "0.3 ps", "is not a multiple of 1 ps"),
        (units.DURATION, "201 d", "expected one of ps, ns, us, ms, s, min, h"),
        (units.DURATION, "4801 h", "is more than 200 days"),
        (units.DURATION, "5 minutes", "did you mean `5 min`?"),
        (units.SIZE, "8K", "did you mean `8 kB`?"),
        (units.SIZE, "8 Ki", "did you mean `8 KiB`?"),
        (units.SHARE, "5 percent", "did you mean `5%`?"),
        (units.SHARE, "100.0000001%", "is more than 100%"),
        (units.SHARE, "0.00000001%", "is not a multiple of 0.0000001%"),
    ],
)
def test_refusals_say_what_was_expected(quantity: units.Quantity, text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        quantity.parse(text)
    assert message in str(caught.value)


@given(st.text(max_size=80))
def test_any_text_is_a_value_or_a_value_error_in_one_line(text: str) -> None:
    for quantity in (units.RATE, units.DURATION, units.SIZE, units.SHARE):
        try:
            assert 0 <= quantity.parse(text) <= quantity.largest
        except ValueError as error:
            assert str(error).isprintable()


def test_quoting_keeps_messages_short_and_printable() -> None:
    assert units.quote("a\nb\x1b[0m") == r"`a\nb\x1b[0m`"
    assert len(units.quote("x" * 1000)) == 42
