"""Prints a digest of the tables of many simulations: the same on every platform.

usage: python packaging/digests.py [SCENARIO…]

An arm64 wheel runs on x86-64 with QEMU (Debian: qemu-user-static) and Debian's arm64 packages of
Python in ROOT, where PACKAGES has the wheel and those that it needs, unpacked:

    qemu-aarch64-static -L ROOT -E PYTHONPATH=PACKAGES ROOT/usr/bin/python3.11 packaging/digests.py
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import perhop
from perhop import gallery, templates

VARIED = """
perhop: 1
name: varied
nodes: {a: host, b: host, r: router, s: router}
links:
  - {ends: [a, r], rate: 1 Gbps}
  - {ends: [r, s], rate: 20 Mbps, delay: 10 ms, loss: 0.1%, queue: {red: {}}}
  - {ends: [s, b], rate: 1 Gbps}
flows:
  game: {from: a, to: b, game: fps-server}
  call: {from: a, to: b, voice: g711}
  video: {from: a, to: b, video: hls}
  page: {from: a, to: b, web: {objects: {html: {size: 90 kB}}}}
  files: {from: a, to: b, transfers: {sizes: lognormal, size: 20 kB, every: 200 ms}}
  cubic: {from: a, to: b, tcp: {congestion_control: cubic}}
  bbr: {from: a, to: b, tcp: {congestion_control: bbr}}
  quic: {from: a, to: b, quic: {}}
duration: 20 s
"""


def digest(scenario: perhop.Scenario) -> str:
    """Return the digest of all tables of a run."""
    with TemporaryDirectory() as folder:
        manifest = perhop.run(scenario).write(folder) / "manifest.json"
        tables = json.loads(manifest.read_text("utf-8"))["tables"]
    return hashlib.sha256(json.dumps(tables).encode()).hexdigest()[:16]


def scenarios(files: list[str]) -> Iterator[perhop.Scenario]:
    """Yield the scenarios of `files`, or else those that come with perhop and a varied one."""
    if files:
        yield from map(perhop.load, files)
    else:
        yield from map(gallery.load, gallery.names())
        yield from (perhop.parse(templates.text(name)) for name in templates.names())
        yield perhop.parse(VARIED)


if __name__ == "__main__":
    for scenario in scenarios(sys.argv[1:]):
        print(scenario.name, digest(scenario), flush=True)
