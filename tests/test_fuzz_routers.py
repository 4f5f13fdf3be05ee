"""Damaged configurations and counters of routers: readers account for their lines, and never fail.

`make fuzz` gives them far more inputs.
"""

from __future__ import annotations

from random import Random

import pytest

from fuzzing.routers import Target, run, targets


@pytest.mark.parametrize("target", targets(), ids=lambda each: each.name)
def test_damaged_texts(target: Target) -> None:
    assert run([target], Random(target.name), inputs=min(100 * target.weight, 400)) == 0
