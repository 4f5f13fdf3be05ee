"""Losses of a link: independent, or correlated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Self, get_args

from pydantic import ValidatorFunctionWrapHandler, WrapValidator, model_validator

from perhop.scenario.model.base import Model
from perhop.scenario.model.quantities import Chance, Loss, MeanBurst, Share
from perhop.units import WHOLE, format_share

if TYPE_CHECKING:
    from perhop.scenario.model.text import Text

_CHAIN: Final = ("p", "r", "good", "bad")
_SHORT: Final = ("mean", "burst")


class Gilbert(Model):
    """Correlated loss by a Markov chain of two states, good and bad (Gilbert 1960, Elliott 1963).

    The chain takes a step with each packet. Written ``{mean: 1%, burst: 5}``, or with the
    probabilities of the chain: ``{p: 1%, r: 20%, good: 0.1%, bad: 50%}``.
    """

    mean: Share | None = None
    """The mean share of packets that are lost."""

    burst: MeanBurst | None = None
    """The mean number of packets that are lost in a row, in thousandths."""

    p: Share | None = None
    """The probability of a step from the good state to the bad one."""

    r: Share | None = None
    """The probability of a step from the bad state to the good one."""

    good: Chance | None = None
    """The probability of a loss in the good state; 0% unless set."""

    bad: Chance | None = None
    """The probability of a loss in the bad state; 100% unless set."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        given = [key for key in (*_SHORT, *_CHAIN) if getattr(self, key) is not None]
        short = [key for key in given if key in _SHORT]
        if short and len(short) < len(given):
            other = next(key for key in given if key in _CHAIN)
            raise ValueError(
                f"has both `{short[0]}` and `{other}`; expected `mean` and `burst`, "
                "or `p` and `r` with `good` and `bad`"
            )
        missing = [key for key in (_SHORT if short else ("p", "r")) if key not in given]
        if missing:
            expected = "`mean` and `burst`" if short else "`mean` and `burst`, or `p` and `r`"
            raise ValueError(f"lacks `{missing[0]}`; expected {expected}")
        if short:
            assert self.mean is not None
            assert self.burst is not None
            # A step to the bad state has at most the probability 1.
            most = WHOLE * self.burst // (self.burst + 1000)
            if self.mean > most:
                raise ValueError(
                    f"loses at most {format_share(most)} in bursts of {self.burst / 1000:g} "
                    "packets, because a packet arrives between two bursts; expected longer "
                    "bursts or a smaller mean"
                )
            if not self.chances[0]:
                raise ValueError("has bursts less often than one in a billion packets")
        elif not (self.chances[2] or self.chances[3]):
            raise ValueError("loses nothing in either state; expected `bad` above 0%")
        return self

    @property
    def chances(self) -> tuple[int, int, int, int]:
        """The probabilities p, r, and of a loss in the good and in the bad state.

        In parts per billion. With `mean` m and `burst` b, each packet in the bad state is lost and
        none in the good one: a stay in the bad state lasts 1 / r = b packets on average, and the
        bad state has the share p / (p + r) = m.
        """
        if self.mean is not None and self.burst is not None:
            r = round(WHOLE * 1000 / self.burst)
            p = round(WHOLE * 1000 / self.burst * self.mean / (WHOLE - self.mean))
            return min(p, WHOLE), r, 0, WHOLE
        bad = WHOLE if self.bad is None else self.bad
        return self.p or 0, self.r or 0, self.good or 0, bad

    @property
    def mean_ppb(self) -> int:
        """The mean share of packets that are lost, in parts per billion."""
        p, r, good, bad = self.chances
        return (r * good + p * bad) // (p + r)


class BurstLoss(Model):
    """Losses that come in bursts."""

    gilbert: Gilbert
    """The model of the losses."""


_SHARE: Final[Text] = get_args(Loss)[1]


def _kind(value: object, _: ValidatorFunctionWrapHandler) -> int | BurstLoss:
    if isinstance(value, (dict, BurstLoss)):
        return BurstLoss.model_validate(value, by_alias=True, by_name=False)
    found: int = _SHARE.validate(value)
    return found


LinkLoss = Annotated[Loss | BurstLoss, WrapValidator(_kind)]
"""A probability, or the model of losses that come in bursts."""


def mean_loss(loss: int | BurstLoss) -> int:
    """Return the mean share of packets that are lost, in parts per billion."""
    return loss.gilbert.mean_ppb if isinstance(loss, BurstLoss) else loss
