"""Networks of real hosts for tests."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perhop._core import Emulation
from perhop.engines.plan import network_plan
from perhop.scenario import parse
from tools import need, unable

if TYPE_CHECKING:
    from perhop.engines import plans

ROW = """
perhop: 1
name: row
nodes: {{a: host, r1: router, r2: router, b: host}}
links:
  - {{ends: [a, r1], rate: 1 Gbps}}
  - {{ends: [r1, r2], rate: {rate}, delay: {delay}, {more}}}
  - {{ends: [r2, b], rate: 1 Gbps}}
flows: {{}}
pings: {{idle: {{from: a, to: b}}}}
duration: 1 s
"""


class Lab:
    """A row of two hosts and two routers, in real time: a 10.0.0.1, r1 .2, r2 .3, b .4."""

    def __init__(
        self, rate: str = "1 Gbps", delay: str = "1 ms", more: str = "", *, offload: bool = True
    ) -> None:
        scenario = parse(ROW.format(rate=rate, delay=delay, more=more), "row")
        host: plans.HostPlan = {"mtu": 1500, "offload": offload, "backpressure": False}
        plan: plans.EmulationPlan = {
            "network": {**network_plan(scenario, 1), "marks": []},
            "hosts": {"a": host, "b": host},
            "congestion_control": None,
            "flows": [],
            "stall_threshold": None,
        }
        try:
            self.core = Emulation(json.dumps(plan))
        except OSError as error:
            unable(error)
        self.hosts = {"a": 0, "b": 3}
        self.namespaces = self.core.namespaces()
        self.core.start(Emulation.monotonic_ns())

    def tries(self, host: str, *command: str) -> tuple[int, str]:
        """The exit code of a command in a host, and what it says."""
        need(command[0])
        code, output, errors = self.namespaces.run(self.hosts[host], list(command), b"")
        return code, (output + errors).decode()

    def run(self, host: str, *command: str) -> str:
        """Return the output of a command that succeeds."""
        code, text = self.tries(host, *command)
        assert code == 0, text
        return text

    @contextmanager
    def serving(self, host: str, *command: str) -> Iterator[None]:
        """A command that runs beside, and ends by itself."""
        need(command[0])
        thread = threading.Thread(target=self.tries, args=(host, *command))
        thread.start()
        try:
            yield
        finally:
            thread.join(30)
            assert not thread.is_alive()
