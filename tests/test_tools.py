"""Tools that a machine lacks are skips, but failures in CI; what failed under load runs again."""

import pytest

from everything import failed_in_rust
from tools import left_out, missing, need, unable


@pytest.mark.parametrize("ci", ["", "true"])
def test_a_missing_program_is_skipped_and_in_ci_a_failure(
    ci: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", "")
    outcome = pytest.fail.Exception if ci else pytest.skip.Exception
    with pytest.raises(outcome, match=r"needs tc \(Debian: iproute2\)"):
        need("tc")
    with pytest.raises(outcome, match="needs postgres"):
        missing("postgres")
    with pytest.raises(outcome, match="apt install nftables"):
        unable("the kernel engine needs nft; on Debian and Ubuntu: apt install nftables")
    with pytest.raises(pytest.skip.Exception, match="no police action"):
        unable("its kernel has no police action\nand more")


def test_what_was_left_out_is_counted() -> None:
    reasons = [
        "Skipped: needs tc (Debian: iproute2)",
        "needs tc (Debian: iproute2)",
        "Skipped: nothing is unknown yet",
        "Skipped: this machine cannot do it: no namespaces",
    ]
    assert left_out(reasons) == [
        "2 tests left out: needs tc (Debian: iproute2)",
        "1 test left out: this machine cannot do it: no namespaces",
    ]


CARGO_SAYS = """
running 2 tests
late --- FAILED
.
failures:

---- late stdout ----
said `no`


failures:
    late
    starts::on_time

test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out

error: test failed, to rerun pass `-p perhop-agent --test limits`

running 1 test
error: test failed, to rerun pass `-p perhop-emu --lib`

Caused by:
  process didn't exit successfully: `perhop_emu-c0` (signal: 9, SIGKILL: kill)

error: 2 targets failed:
    `-p perhop-agent --test limits`
    `-p perhop-emu --lib`
"""


def test_failed_tests_in_rust_are_told_from_those_that_passed() -> None:
    assert failed_in_rust(CARGO_SAYS) == {
        "-p perhop-agent --test limits": ["late", "starts::on_time"],
        "-p perhop-emu --lib": [],
    }
