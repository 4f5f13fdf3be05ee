"""Scripts of tc and nft in the kernel engine: their own commands, at the interface of a link."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import MEASURES, REAL_HOSTS, Outcome
from perhop import analysis, engines
from perhop._core import Namespaces
from perhop.cli.loading import load
from perhop.dataset import Dataset
from perhop.errors import UnsupportedError, UsageError
from perhop.linux import probe
from perhop.linux.given import Given, given
from perhop.scenario import Scenario, to_mapping
from tools import need, unable

Perhop = Callable[..., Outcome]

HTB = """\
tc qdisc del dev wan0 root
tc qdisc add dev wan0 root handle 1: htb default 20
tc class add dev wan0 parent 1: classid 1:1 htb rate 6mbit
tc class add dev wan0 parent 1:1 classid 1:10 htb rate 1mbit ceil 6mbit quantum 3000
tc class add dev wan0 parent 1:1 classid 1:20 htb rate 1mbit ceil 6mbit quantum 12000
"""
U32 = "tc filter add dev wan0 parent 1: protocol ip prio 1 u32 match ip dsfield 0xb8 0xfc "
BY_DSCP = f"{HTB}{U32}flowid 1:10\n"
PRIO = f"""\
ethtool -s wan0 speed 10
tc qdisc add dev wan0 root handle 1: prio
{U32}flowid 1:1
"""
LIMIT = (
    HTB
    + """\
nft -f - <<'END'
table inet q {
  chain c {
    type filter hook postrouting priority 0
    oifname "wan0" ip dscp ef limit rate over 250 kbytes/second drop
    oifname "wan0" ip dscp ef meta priority set 1:10
  }
}
END
"""
)
STARTS = {"flows.band0.start": "1 s", "flows.band1.start": "1 s"}
SHORT = {"duration": "4 s", "report.interval": "1 s"}


def scenario(folder: Path, text: str, **overrides: str) -> Scenario:
    path = folder / "wan.sh"
    path.write_text(text, "utf-8")
    return load(str(path), overrides={**SHORT, **overrides})


def commands(folder: Path, text: str, **overrides: str) -> Given:
    made = given(scenario(folder, text, **overrides), "edge>next", "edge-next", 0)
    assert made is not None
    return made


def words(made: Given) -> list[str]:
    return [" ".join(each.words) for each in made.commands]


def mbps(dataset: Dataset) -> dict[str, float]:
    """The throughput of each flow from the second second on, in Mb/s."""
    sums: dict[str, float] = {}
    for row in dataset.intervals.iter_rows(named=True):
        if row["start_s"] >= 1:
            sums[row["flow"]] = sums.get(row["flow"], 0) + row["bytes"] * 8e-6 / 3
    return sums


# What is run


def test_the_commands_are_those_of_the_script_at_the_interface_of_the_link(tmp_path: Path) -> None:
    made = commands(tmp_path, BY_DSCP)
    assert made.shaper == ()  # the script's own is the shaper
    head, *classes, filter_ = words(made)  # without `del`, which finds nothing to remove
    assert head == (
        "tc qdisc add dev edge-next root stab overhead 14 handle 1: htb default 20"
    )  # a device without an Ethernet header, which Linux would count
    assert classes[1] == (
        "tc class add dev edge-next parent 1:1 classid 1:10 htb rate 1mbit ceil 6mbit quantum 3000"
    )
    assert filter_ == U32.replace("wan0", "edge-next") + "flowid 1:10"


def test_a_link_has_its_rate_where_the_script_shapes_nothing(tmp_path: Path) -> None:
    made = commands(tmp_path, PRIO, **STARTS)
    assert "htb rate 10093333bit" in made.shaper[1]
    assert words(made)[0] == "tc qdisc add dev edge-next parent 7fff:1 handle 1: prio"


def test_names_of_interfaces_in_rules_are_those_of_the_link(tmp_path: Path) -> None:
    *_, last = commands(tmp_path, LIMIT).commands
    assert last.words == ("nft", "-f", "-")
    assert last.text.count('oifname "edge-next"') == 2
    assert "wan0" not in last.text


def test_commands_of_other_interfaces_and_branches_are_left_out(tmp_path: Path) -> None:
    more = "tc qdisc add dev lan0 root fq_codel\nif x; then tc qdisc del dev wan0 root; fi\n"
    assert words(commands(tmp_path, BY_DSCP + more)) == words(commands(tmp_path, BY_DSCP))


def test_a_changed_policy_has_no_commands(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="was changed after it was read"):
        commands(tmp_path, BY_DSCP, **{"policies.wan0.classes.c10.bandwidth": "2 Mbps"})


def test_a_policy_with_commands_is_kept_in_datasets(tmp_path: Path) -> None:
    whole = scenario(tmp_path, BY_DSCP)
    assert Scenario.model_validate(to_mapping(whole)) == whole


# Hostile scripts


@pytest.mark.parametrize(
    "line",
    [
        "tc filter add dev wan0 parent 1: bpf object-file evil.o flowid 1:10",
        "tc filter add dev wan0 parent 1: u32 match u32 0 0 action xt -j MARK",
        "tc qdisc add dev wan0 parent 1:10 netem delay 2ms 1ms distribution ../../../etc/passwd",
        "tc qdisc add dev wan0 parent 1:10 netem delay 2ms 1ms distribution /etc/passwd",
        "tc qdisc add dev wan0 parent 1:10 -batch commands",
        "tc qdisc add dev 'wan0' parent '1:10\nqdisc' pfifo",
        "nft 'include \"/etc/passwd\"'",
        "nft add rule inet q c ip dscp ef drop '\\'",
        "iptables --modprobe=/tmp/evil -t mangle -A POSTROUTING -j MARK --set-mark 1",
        "iptables --mod /tmp/evil -t mangle -A POSTROUTING -j MARK --set-mark 1",
        "iptables -M /tmp/evil -t mangle -A POSTROUTING -j MARK --set-mark 1",
        "iptables -t mangle -A POSTROUTING -m ../../tmp/evil -j MARK --set-mark 1",
    ],
)
def test_words_that_lead_out_of_the_namespace_are_not_run(tmp_path: Path, line: str) -> None:
    # Some of them tc refuses itself.
    reason = r"policies\.wan0\.script.*does not run|the router refuses this line"
    with pytest.raises((UnsupportedError, UsageError), match=reason):
        commands(tmp_path, f"{BY_DSCP}{line}\n")


@pytest.mark.parametrize("name", ["$(touch hit)", "a;touch hit", "a`touch hit`", "a|touch hit"])
def test_names_are_words_and_nothing_more(tmp_path: Path, name: str) -> None:
    text = "".join(line.replace("wan0", f"'{name}'") + "\n" for line in BY_DSCP.splitlines())
    made = given(scenario(tmp_path, text), "edge>next", "edge-next", 14)
    assert made is not None
    assert len(made.commands) == 5
    assert all("touch" not in word for each in made.commands for word in each.words)


# In Linux


@pytest.fixture
def able() -> None:
    need("tc", "nft", "ip")
    try:
        Namespaces(1)
    except OSError as error:
        unable(error)


@MEASURES
@pytest.mark.usefixtures("able")
def test_classes_borrow_by_their_quanta_as_in_the_simulator(tmp_path: Path) -> None:
    loaded = scenario(tmp_path, BY_DSCP)
    linux, sim = (mbps(engines.run(loaded, engine=each)) for each in ("kernel", "sim"))
    # 1 Mb/s each, and 4 Mb/s lent in turns of 3000 and 12,000 bytes.
    assert linux["c20"] / linux["c10"] == pytest.approx(4.2 / 1.8, rel=0.1)
    assert sim == pytest.approx(linux, rel=0.05)


@MEASURES
@pytest.mark.usefixtures("able")
def test_a_limit_of_nft_drops_before_the_class(tmp_path: Path) -> None:
    dataset = engines.run(scenario(tmp_path, LIMIT), engine="kernel")
    # 250 kbyte/s are 250 * 1024 bytes of IP packets, of which TCP's headers are a part.
    assert mbps(dataset)["c10"] <= 2.05
    assert "Linux ran 5 commands of the script" in "".join(map(str, dataset.warnings))


@MEASURES
@pytest.mark.usefixtures("able")
def test_counters_are_of_the_classes_of_the_script(tmp_path: Path) -> None:
    dataset = engines.run(scenario(tmp_path, BY_DSCP), engine="kernel")
    rows = [r for r in dataset.queues.iter_rows(named=True) if r["link"] == "edge>next"]
    assert {row["class"] for row in rows} == {"c10", "c20"}
    assert all(row["sent_packets"] > 0 and row["conformed_packets"] is None for row in rows)
    assert analysis.summary(dataset)["links"]


@REAL_HOSTS
@pytest.mark.usefixtures("able")
@pytest.mark.parametrize(
    "line",
    [
        "tc filter add dev wan0 parent 1: protocol ip prio 2 handle 6 fw classid 1:10",
        "tc filter add dev wan0 parent 1: protocol ip prio 2 flower ip_tos 0xb8 classid 1:10",
        "tc class add dev wan0 parent 1:1 classid 1:30 htb rate 1mbit mtu 0",
        "tc qdisc add dev wan0 parent 1:10 handle 1: pfifo",
    ],
)
def test_what_this_kernel_refuses_is_the_error_in_its_own_words(tmp_path: Path, line: str) -> None:
    need("unshare")
    loaded = scenario(tmp_path, f"{BY_DSCP}{line}\n")
    told = _refusal(line)
    if not told:
        engines.check(loaded, "kernel")
        return
    with pytest.raises(UnsupportedError) as refused:
        engines.check(loaded, "kernel")
    assert f"`{line}`" in str(refused.value)
    assert told in str(refused.value)


def _refusal(line: str) -> str:
    """What tc says of a command here; "" if the kernel takes it."""
    device = "ip link add wan0 type veth peer name far\n"
    setup = "set -e\n" + device + BY_DSCP.replace("tc qdisc del dev wan0 root\n", "")
    subprocess.run(["unshare", "--net", "--map-root-user", "sh", "-c", setup], check=True)
    done = subprocess.run(
        ["unshare", "--net", "--map-root-user", "sh", "-c", setup + line],
        capture_output=True,
        text=True,
        check=False,
    )
    return " ".join(done.stderr.split()) if done.returncode else ""


@MEASURES
@pytest.mark.usefixtures("able")
def test_prio_serves_the_first_band_first(tmp_path: Path) -> None:
    loaded = scenario(tmp_path, PRIO, **STARTS)
    if not probe.this_kernel().has_qdisc("prio"):
        with pytest.raises(UnsupportedError, match="qdisc kind is unknown"):
            engines.check(loaded, "kernel")
        return
    linux = mbps(engines.run(loaded, engine="kernel"))
    assert linux["band0"] > 0.9 * sum(linux.values())


@REAL_HOSTS
@pytest.mark.usefixtures("able")
def test_crosscheck_takes_scripts(perhop: Perhop, tmp_path: Path) -> None:
    (tmp_path / "wan.sh").write_text(BY_DSCP, "utf-8")
    short = [word for key, value in SHORT.items() for word in ("--set", f"{key}={value}")]
    done = perhop("crosscheck", str(tmp_path / "wan.sh"), "--engines", "sim,kernel", *short)
    assert done.code in (0, 1), done.err
    assert "kernel cannot run it" not in done.out
