"""The commands of `perhop tc` on routers whose links carry segments as one packet."""

import json
import os
import re
import sys
import threading

import pytest

from conftest import MEASURES
from perhop import linux
from perhop._core import Namespaces
from perhop.scenario import parse
from tools import need, unable

pytestmark = MEASURES

SCENARIO = """
perhop: 1
name: offload
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 10 Gbps}
  - {ends: [r, b], rate: 28 Mbps, egress: {r: shared}}
policies:
  shared:
    classes:
      gold: {match: {dscp: af11}, bandwidth: 50%}
      silver: {match: {dscp: af21}, bandwidth: 30%}
      rest: {match: any, bandwidth: 20%}
flows:
  gold: {from: a, to: b, dscp: af11}
  silver: {from: a, to: b, dscp: af21}
  rest: {from: a, to: b}
duration: 1 s
"""

BEGIN, END = 1.0, 4.0

RECEIVE = """
import json, selectors, socket, sys, time
begin, end, ports = json.loads(sys.argv[1])
waiting, counted, began = selectors.DefaultSelector(), dict.fromkeys(ports, 0), None
for port in ports:
    waiting.register(socket.create_server(("", port)), selectors.EVENT_READ, (port, True))
buffer, deadline = bytearray(1 << 20), time.monotonic() + 20
while time.monotonic() < (deadline if began is None else began + end):
    for key, _ in waiting.select(0.1):
        port, listens = key.data
        if listens:
            connection, _ = key.fileobj.accept()
            waiting.register(connection, selectors.EVENT_READ, (port, False))
            began = began or time.monotonic()
        elif not (size := key.fileobj.recv_into(buffer)):
            waiting.unregister(key.fileobj)
        elif time.monotonic() > began + begin:
            counted[port] += size
print(json.dumps([8 * counted[port] / (end - begin) / 1e6 for port in ports]))
"""

SEND = """
import json, socket, sys, threading, time
to, seconds, flows = json.loads(sys.argv[1])
def send(port, dscp):
    while True:
        try:
            connection = socket.socket()
            connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
            connection.connect((to, port))
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    try:
        while True:
            connection.send(bytes(1 << 16))
    except OSError:
        pass
for flow in flows:
    threading.Thread(target=send, args=flow, daemon=True).start()
time.sleep(seconds)
"""


def shell(namespaces: Namespaces, host: int, text: str) -> None:
    code, _, err = namespaces.run(host, ["sh", "-e"], text.encode())
    assert code == 0, err.decode()


def routed() -> Namespaces:
    """Two hosts and a router between them, whose links carry segments as one packet."""
    try:
        namespaces = Namespaces(3)
    except OSError as error:
        unable(error)
    router = f"/proc/{os.getpid()}/fd/{namespaces.fd(1)}"
    for host, end, there in ((0, "a-r", "r-a"), (2, "b-r", "r-b")):
        shell(
            namespaces,
            host,
            f"ip link add {end} type veth peer name {there} netns {router}\n"
            f"ip address add 10.{host}.0.1/24 dev {end}\nip link set dev {end} up\n",
        )
        shell(
            namespaces,
            1,
            f"ip address add 10.{host}.0.2/24 dev {there}\nip link set dev {there} up\n"
            f"ethtool -K {there} gro on\n",
        )
        shell(namespaces, host, f"ip route add default via 10.{host}.0.2\n")
    namespaces.write_sysctl(1, "net.ipv4.ip_forward", "1")
    return namespaces


def test_shares_are_those_of_packets_where_links_carry_trains() -> None:
    need("tc", "nft", "ip", "ethtool")
    scenario = parse(SCENARIO, "offload.yaml")
    devices = {"a>r": "a-r", "r>a": "r-a", "r>b": "r-b", "b>r": "b-r"}
    text = linux.script(scenario, linux.mapping(scenario, devices=devices))
    parts = re.split(r"# =+ (\w+), a .*\n", text)
    of_node = dict(zip(parts[1::2], parts[2::2], strict=True))
    namespaces = routed()
    shell(namespaces, 1, of_node["r"])
    # These links are virtual.
    shell(namespaces, 0, of_node["a"].replace("# ip", "ip"))
    shell(namespaces, 2, of_node["b"].replace("# ip", "ip"))
    said = []

    def receive() -> None:
        job = json.dumps([BEGIN, END, [1, 2, 3]])
        said.append(namespaces.run(2, [sys.executable, "-c", RECEIVE, job], b""))

    receiver = threading.Thread(target=receive)
    receiver.start()
    job = json.dumps(["10.2.0.1", END + 1, [[1, 10], [2, 18], [3, 0]]])
    shell(namespaces, 0, f"exec {sys.executable} -c '{SEND}' '{job}'\n")
    receiver.join()
    code, out, err = said[0]
    assert code == 0, err.decode()
    got = json.loads(out)
    # Of 1500 bytes, 52 are headers.
    data = 28 * 1448 / 1500
    assert sum(got) == pytest.approx(data, rel=0.015)
    for rate, share in zip(got, (0.5, 0.3, 0.2), strict=True):
        assert rate == pytest.approx(share * data, rel=0.05)
