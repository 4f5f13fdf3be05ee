"""`python -m validation.linux_classes [--write] [NAME ...]`: the classes of packets in Linux.

Records, in `tests/linux_classes.json`, the class of Linux that counts packets with certain headers
after the commands of a case, or the throughputs of its flows; tests compare them with the
simulator. A case with `"user_mode": true` is measured in User Mode Linux, which has most
disciplines and classifiers, others by this machine's kernel, which must have nftables. A router
forwards the packets, from one pair of `veth` to another. This needs root.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from validation import linux_shapers, user_mode

RECORDED: Final = Path(__file__).parents[1] / "tests" / "linux_classes.json"
PROTOCOLS: Final = {"udp": 17, "tcp": 6}
ETHERTYPES: Final = {4: 0x0800, 6: 0x86DD}
_CLASS: Final = re.compile(
    r"^class \S+ (\S+) (?:parent (\S+)|root).*?\bSent \d+ bytes (\d+) pkts? \(dropped (\d+)",
    re.MULTILINE | re.DOTALL,
)
COPIES: Final = 20
"""The number of each packet that is sent; the router sends a few packets of its own."""

SETTLE_S: Final = 0.03
MODULES: Final = (
    "drivers/net/veth",
    "net/ipv6/ipv6",
    *(f"net/sched/sch_{n}" for n in ("htb", "hfsc", "prio", "drr", "qfq", "tbf", "sfq", "red")),
    *(f"net/sched/sch_{n}" for n in ("codel", "fq_codel", "pie", "fq", "cake", "netem")),
    "net/sched/sch_ingress",
    *(f"net/sched/cls_{n}" for n in ("u32", "fw", "flower", "matchall", "basic")),
    *(f"net/sched/act_{n}" for n in ("police", "gact", "skbedit", "mirred")),
    *("net/netfilter/x_tables", "net/ipv4/netfilter/ip_tables"),
    *(f"net/ipv4/netfilter/iptable_{n}" for n in ("raw", "mangle", "filter", "security")),
    *(f"net/ipv6/netfilter/ip6table_{n}" for n in ("mangle", "filter")),
    *("net/ipv4/netfilter/ipt_REJECT", "net/ipv6/netfilter/ip6t_REJECT"),
    *(f"net/netfilter/xt_{n}" for n in ("mark", "CLASSIFY", "DSCP", "dscp", "tcpudp")),
    *(f"net/netfilter/xt_{n}" for n in ("multiport", "comment", "conntrack", "state", "length")),
)
WIRE: Final = """
link add eth0 address 02:00:00:00:00:01 type veth peer name far address 02:00:00:00:00:09
link add in0 address 02:00:00:00:00:03 type veth peer name src address 02:00:00:00:00:04
link set lo up
link set far up
link set src up
link set eth0 up
link set in0 up
address add 192.0.2.1/24 dev eth0
address add 2001:db8::1/64 dev eth0 nodad
address add 198.51.100.1/24 dev in0
address add 2001:db8:1::1/64 dev in0 nodad
neighbour add 192.0.2.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent
neighbour add 2001:db8::2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent
route add default via 192.0.2.2
-6 route add default via 2001:db8::2 dev eth0
"""
SYSCTLS: Final = {
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/in0/rp_filter": "0",
    "ipv6/conf/all/forwarding": "1",
}


def wire() -> None:
    """Make the interfaces of a router."""
    for line in WIRE.strip().splitlines():
        done = subprocess.run(["ip", *line.split()], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"ip {line}: {done.stderr}")
    for name, value in SYSCTLS.items():
        path = Path("/proc/sys/net", name)
        if path.exists():
            path.write_text(value, "ascii")


def run(script: list[str]) -> None:
    """Run the commands of a case."""
    for line in script:
        program, *words = line.split()
        if program.startswith("ip") and "tables" in program:
            program = program.replace("tables", "tables-legacy")
        whole = program == "nft" or program.endswith("-restore")
        text = f"{line.partition(' ')[2]}\n" if whole else ""
        command = [program, *(("-f", "-") if program == "nft" else () if whole else words)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{line}: {done.stderr.strip()}")


def counted() -> dict[str, int]:
    """Return the packets of each class without classes below it."""
    shown = subprocess.run(
        ["tc", "-s", "class", "show", "dev", "eth0"], capture_output=True, text=True, check=True
    ).stdout
    rows = _CLASS.findall(shown)
    above = {parent for _, parent, _, _ in rows}
    return {name: int(sent) + int(lost) for name, _, sent, lost in rows if name not in above}


def came() -> int:
    """Return the packets that have left the router."""
    shown = subprocess.run(
        ["ip", "-s", "-j", "link", "show", "far"], capture_output=True, text=True, check=True
    )
    count: int = json.loads(shown.stdout)[0]["stats64"]["rx"]["packets"]
    return count


def frame(packet: dict[str, Any]) -> bytes:
    """Return an Ethernet frame for the router."""
    version = packet.get("ip", 4)
    protocol = PROTOCOLS[packet.get("protocol", "udp")]
    ends = [
        ip_address(packet.get(key, default)).packed
        for key, default in zip(
            ("source", "destination"),
            ("2001:2::1", "2001:2:0:1::1") if version == 6 else ("198.18.0.1", "198.19.0.1"),
            strict=True,
        )
    ]
    ports = struct.pack("!HH", packet.get("source_port", 49152), packet.get("port", 49153))
    body = ports + (
        struct.pack("!HH", 108, 0)
        if protocol == 17
        else struct.pack("!IIHHHH", 1, 1, 0x5010, 512, 0, 0)
    )
    body = body.ljust(108, b"\0")
    tos = packet.get("dscp", 0) << 2
    if version == 6:
        head = (
            struct.pack("!IHBB", 6 << 28 | tos << 20, len(body), protocol, 64) + ends[0] + ends[1]
        )
    else:
        head = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(body), 1, 0, 64, protocol, 0)
        total = sum(struct.unpack("!10H", head + ends[0] + ends[1]))
        total = (total & 0xFFFF) + (total >> 16)
        checksum = struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF)
        head = head[:10] + checksum + ends[0] + ends[1]
    macs = b"\x02\0\0\0\0\x03\x02\0\0\0\0\x04"
    return macs + struct.pack("!H", ETHERTYPES[version]) + head + body


def classes(case: dict[str, Any]) -> list[str]:
    """Return the class that counts each packet of a case; of others, `direct` or `dropped`."""
    wire()
    run(case["script"])
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.bind(("src", 0))
    found = []
    before, arrived = counted(), came()
    for packet in case["packets"]:
        for _ in range(COPIES):
            sender.send(frame(packet))
        time.sleep(SETTLE_S)
        now = counted()
        grown = [name for name, count in now.items() if count >= before.get(name, 0) + COPIES]
        through = came() >= arrived + COPIES
        nowhere = "direct" if through else "dropped"
        found.append(grown[0] if len(grown) == 1 else "several" if grown else nowhere)
        before, arrived = now, came()
    sender.close()
    return found


def measured(case: dict[str, Any]) -> dict[str, Any]:
    """Return what a case adds to its record."""
    if "flows" in case:
        commands = [line.removeprefix("tc ") for line in case["script"]]
        mbps = linux_shapers.measure({**case, "commands": commands})
        return {"mbps": [float(f"{each:.4g}") for each in mbps]}
    return {"classes": classes(case)}


def all_of(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Measure cases in one kernel, one after the other."""
    found = []
    for case in cases:
        try:
            found.append(measured(case))
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            found.append({"error": str(error)})
        for name in ("eth0", "in0"):
            subprocess.run(["ip", "link", "del", name], capture_output=True, check=False)
        subprocess.run(["nft", "flush", "ruleset"], capture_output=True, check=False)
        for program in ("iptables-legacy", "ip6tables-legacy"):
            for table in ("raw", "mangle", "filter", "security"):
                chains = [("-P", "FORWARD", "ACCEPT")] if table in ("mangle", "filter") else []
                for words in (("-F",), ("-X",), *chains):
                    cleared = [program, "-t", table, *words]
                    subprocess.run(cleared, capture_output=True, check=False)
    return found


def guest(job: str, result: str) -> None:
    """Measure as the first program of User Mode Linux."""
    told = json.loads(Path(job).read_text("utf-8"))
    user_mode.begin(told["modules"])
    found = {"kernel": platform.release(), "rows": all_of(told["cases"])}
    Path(result).write_text(json.dumps(found), "utf-8")


def in_user_mode(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what User Mode Linux makes of cases."""
    with tempfile.TemporaryDirectory() as folder:
        job, result = Path(folder, "job.json"), Path(folder, "result.json")
        job.write_text(json.dumps({"modules": user_mode.modules(MODULES), "cases": cases}), "utf-8")
        # The kernel starts Python with one file.
        root, words = str(Path(__file__).parents[1]), ["", "--guest", str(job), str(result)]
        code = f"import sys\nsys.path.insert(0, {root!r})\nsys.argv = {words!r}\n"
        code += "from validation import linux_classes\nlinux_classes.main()\n"
        start = Path(folder, "start.py")
        start.write_text(code, "utf-8")
        said = user_mode.boot([start], 60 + 10 * len(cases))
        if not result.exists():
            raise SystemExit(f"User Mode Linux gave no result:\n{said}")
        found: dict[str, Any] = json.loads(result.read_text("utf-8"))
        return found


def here(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what this kernel makes of cases, in a network namespace of its own."""
    command = ["unshare", "--net", sys.executable, "-m", "validation.linux_classes", "--child"]
    done = subprocess.run(
        command, input=json.dumps(cases), stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> int:
    """Measure the cases; return 1 if one differs from what is recorded."""
    if sys.argv[1:2] == ["--guest"]:
        try:
            guest(*sys.argv[2:4])
        except BaseException:  # the first program must not end
            traceback.print_exc()
        user_mode.end()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the cases; all if none is given")
    parser.add_argument("--write", action="store_true", help="record what is measured")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        rows = all_of(json.load(sys.stdin))
        print(json.dumps({"kernel": platform.release(), "rows": rows}))
        return 0
    cases = json.loads(RECORDED.read_text("utf-8"))
    chosen = [each for each in cases if not arguments.names or each["name"] in arguments.names]
    agree = True
    for where, user in ((in_user_mode, True), (here, False)):
        some = [each for each in chosen if each.get("user_mode", False) == user]
        if not some:
            continue
        found = where(some)
        for case, row in zip(some, found["rows"], strict=True):
            same = all(case.get(key) == value for key, value in row.items() if key != "mbps")
            agree &= same and "error" not in row
            print("same" if same else "other", case["name"], row, flush=True)
            if "error" not in row:
                case.update(row, kernel=found["kernel"])
    if arguments.write:
        lines = ",\n".join(json.dumps(case) for case in cases)
        RECORDED.write_text(f"[\n{lines}\n]\n", "utf-8")
    return 0 if agree or arguments.write else 1


if __name__ == "__main__":
    sys.exit(main())
