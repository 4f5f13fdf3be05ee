"""Missing tools of a machine: a skip with a message, but a failure in CI where CI installs it."""

import pytest

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
