"""The E-model against the figures of ITU-T G.107 and G.113."""

import math

import pytest

from perhop.analysis.emodel import Parameters, burst_ratio, mos, rating


def test_the_defaults_are_93_2() -> None:
    # G.107, section 3.7: "the calculation results in a very high quality with a rating factor of R
    # = 93.2"; its mean opinion score is 4.41.
    assert round(rating(Parameters()), 1) == 93.2
    assert round(mos(rating(Parameters())), 2) == 4.41


# Made with another implementation of section 3, manucorporat/e-model on GitHub (e6b8411), in Go:
# every parameter away from its default, and both sides of each condition.
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 93.206208),
        ({"T": 150, "Ta": 150, "Tr": 300}, 89.539132),
        ({"T": 400, "Ta": 100, "Tr": 20, "TELR": 40}, 37.609452),
        ({"SLR": 2, "RLR": 9, "Ds": -1}, 92.350425),
        ({"SLR": 14, "RLR": -4, "LSTR": 6, "Pr": 60}, 70.717206),
        ({"Ps": 75, "Pr": 20, "Ds": 5}, 46.167538),
        ({"LSTR": 2, "Pr": 75, "Nc": -85, "Nfor": -80}, 26.532974),
        ({"STMR": 5, "T": 20, "Tr": 40, "Ta": 20, "TELR": 30}, 72.215796),
        ({"STMR": 9, "T": 20, "Tr": 40, "TELR": 30}, 72.203266),
        ({"STMR": 20, "T": 1, "TELR": 15}, 85.739071),
        ({"STMR": 20.5, "T": 5, "TELR": 20, "Ta": 220, "Tr": 9}, 68.199660),
        ({"STMR": 45, "T": 60, "TELR": 25}, 24.473175),
        ({"qdu": 14}, 66.262066),
        ({"qdu": 4, "Nc": -45, "Nfor": -50}, 61.917070),
        ({"WEPL": 20, "Tr": 50}, 84.835883),
        ({"Ie": 11, "Ppl": 3, "BurstR": 1.7, "Bpl": 19, "A": 5}, 75.070230),
    ],
)
def test_ratings_are_those_of_another_implementation(
    given: dict[str, float], expected: float
) -> None:
    assert rating(Parameters(**given)) == pytest.approx(expected, abs=6e-7)


# G.107, table B.1. It prints 4.03 for R = 80, where the formula of the same annex gives 4.024.
@pytest.mark.parametrize(
    ("r", "score"), [(90, 4.34), (80, 4.03), (70, 3.60), (60, 3.10), (50, 2.58)]
)
def test_scores_are_those_of_annex_b(r: float, score: float) -> None:
    assert mos(r) == pytest.approx(score, abs=0.0061)


def test_scores_end_at_1_and_4_5() -> None:
    assert (mos(-5), mos(0), mos(100), mos(120)) == (1, 1, 4.5, 4.5)
    scores = [mos(r / 10) for r in range(1001)]
    assert scores == sorted(scores)


# G.113, appendix I: Ie of G.729A with voice activity detection under random losses, from which its
# Bpl of 19.0 was derived.
@pytest.mark.parametrize(
    ("loss", "impairment"),
    [(0, 11), (0.5, 13), (1, 15), (1.5, 17), (2, 19), (3, 23), (4, 26), (8, 36), (16, 49)],
)
def test_losses_impair_g729a_as_g113_lists(loss: float, impairment: float) -> None:
    clean = rating(Parameters())
    lossy = rating(Parameters(Ppl=loss, Ie=11, Bpl=19.0))
    assert clean - lossy == pytest.approx(impairment, abs=0.6)


def test_delay_impairs_as_the_formulae_say() -> None:
    # The curve of G.114 for delay alone, with the echo loss of the defaults.
    def r(delay_ms: float) -> float:
        return rating(Parameters.of_delay(delay_ms / 1000))

    # Idd of section 3.4.3 at Ta = 200 and 400 ms, where X is 1 and 2.
    def idd(ta: float) -> float:
        return rating(Parameters()) - rating(Parameters(Ta=ta))

    sixth = 1 / 6
    assert idd(100) == 0
    assert idd(200) == pytest.approx(25 * (2**sixth - 3 * (1 + 3**-6) ** sixth + 2))
    assert idd(400) == pytest.approx(25 * (65**sixth - 3 * (1 + (2 / 3) ** 6) ** sixth + 2))
    # G.109's limits of user satisfaction: R is above 90 up to about 120 ms, above 80 up to some
    # 240 ms, and above 70 up to 320 ms.
    assert (r(120) > 90 > r(150), r(240) > 80 > r(250), r(300) > 70 > r(325)) == (True,) * 3


def test_echo_counts_from_a_millisecond_on() -> None:
    assert rating(Parameters(T=0.9)) == pytest.approx(rating(Parameters()), abs=0.01)
    # A loud echo is worse, and worst when it is late.
    loud = [rating(Parameters(T=t, TELR=35)) for t in (5, 20, 100, 300)]
    assert loud == sorted(loud, reverse=True)
    assert loud[-1] < rating(Parameters(T=300)) - 20


def test_bursts_are_worse_than_random_losses() -> None:
    random, bursty = (
        rating(Parameters(Ppl=2, BurstR=ratio, Ie=0, Bpl=4.3)) for ratio in (1.0, 2.0)
    )
    assert rating(Parameters()) - random == pytest.approx(95 * 2 / (2 + 4.3))
    assert rating(Parameters()) - bursty == pytest.approx(95 * 2 / (2 / 2 + 4.3))


def test_the_burst_ratio_is_relative_to_random_losses() -> None:
    assert burst_ratio(1000, 0, 0) == 1
    # 20 losses in 5 bursts of 4, with a probability of 2%: random bursts have 1 / 0.98 packets.
    assert burst_ratio(1000, 20, 5) == pytest.approx(4 * 0.98)
    # Losses one by one are less bursty than random ones.
    assert burst_ratio(1000, 500, 500) == 1
    assert burst_ratio(10, 10, 1) == 1
    assert math.isfinite(rating(Parameters(Ppl=100, BurstR=burst_ratio(10, 10, 1), Bpl=4.3)))
