"""Agents in the hosts of labs, for tests of the engine `live`."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from conftest import PERHOP, Outcome
from perhop.dataset import TABLES, Dataset
from perhop.errors import UnsupportedError
from perhop.lab import Lab, up
from perhop.scenario import Scenario, parse
from tools import unable


class Site:
    """A lab whose hosts have agents, and a folder with what a controller needs.

    Attributes:
        lab: The lab.
        scenario: Its scenario.
        folder: Where the controller's commands run.
        agents: The agents' processes by host.
    """

    def __init__(self, lab: Lab, scenario: Scenario, folder: Path) -> None:
        self.lab = lab
        self.scenario = scenario
        self.folder = folder
        self.agents: dict[str, subprocess.Popen[str]] = {}
        # A home of its own, with a key of its own.
        self.environment = {**os.environ, "XDG_CONFIG_HOME": str(folder / "controller")}
        command = [str(PERHOP), "agent", "key"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        (folder / "controller.pub").write_text(done.stdout)
        (folder / "agents.yaml").write_text("")

    def serve(
        self,
        host: str,
        *options: str,
        inside: Sequence[str] = (),
        program: Sequence[str] = (str(PERHOP), "agent"),
        node: str | None = None,
        address: str | None = None,
        keys: str = "",
    ) -> None:
        """Start an agent, and note it in `agents.yaml`.

        Args:
            host: Its host in the lab.
            options: More options of its command.
            inside: A command that starts its command, say in a namespace of its own.
            program: The agent's command, whose folder has `controller.pub`.
            node: The node that it stands for, if that is not the host's.
            address: Where it listens, if not at the host's address.
            keys: What else `agents.yaml` says of it.
        """
        node = node or host
        address = address or self.address(host)
        at = f"[{address}]:4861" if ":" in address else f"{address}:4861"
        command = [*inside, *program, "serve", "--key", f"{node}.key"]
        options = ("--allow", "controller.pub", "--listen", at, *options)
        with (self.folder / f"{node}.log").open("a") as log:
            agent = self.start(host, [*command, *options], log)
        assert agent.stdout is not None
        assert "serves at" in agent.stdout.readline()
        key = agent.stdout.readline().removeprefix("key: ").strip()
        self.agents[node] = agent
        self.note(node, f'address: "{at}", key: {key}, {keys}')

    def note(self, node: str, keys: str) -> None:
        """Add what stands for a node to `agents.yaml`."""
        with (self.folder / "agents.yaml").open("a") as file:
            file.write(f"{node}: {{{keys}}}\n")

    def address(self, host: str) -> str:
        """The address of a host."""
        return str(self.scenario.addresses[host])

    def start(
        self, host: str, command: Sequence[str], stderr: IO[str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a program in a host, in the controller's folder."""
        found: subprocess.Popen[str] = self.lab.start(
            host,
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=stderr or subprocess.PIPE,
            text=True,
        )
        return found

    def perhop(self, host: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a command of perhop in a host."""
        return self.start(host, [str(PERHOP), *arguments])

    def controller(
        self, host: str, file: str, *arguments: str, out: str = "run"
    ) -> subprocess.Popen[str]:
        """Start a run between the agents, controlled from a host."""
        options = ("--engine", "live", "--agents", "agents.yaml", "--out", out, *arguments)
        return self.perhop(host, "run", file, *options)

    def run(self, host: str, file: str, *arguments: str, out: str = "run") -> Outcome:
        """Run a scenario between the agents, controlled from a host."""
        process = self.controller(host, file, *arguments, out=out)
        said, errors = process.communicate(timeout=300)
        return Outcome(process.returncode, said, errors)

    def dataset(self, out: str = "run") -> Dataset:
        """What a run has left."""
        return Dataset.read(self.folder / out)

    def reported(self, host: str, file: str) -> tuple[dict[str, Any], Dataset]:
        """Run a scenario between the agents, and report it: the JSON and the dataset."""
        done = self.run(host, file, "--json")
        assert done.code == 0, done
        live = self.dataset()
        for name, table in TABLES.items():
            assert getattr(live, name).schema == table
        report = self.perhop(host, "report", "run")
        assert report.communicate(timeout=120)[1] == "" and report.returncode == 0
        return json.loads(done.out), live


@contextmanager
def site(scenario: Scenario, folder: Path, hosts: Sequence[str]) -> Iterator[Site]:
    """A lab of a scenario's network, with an agent in some of its hosts."""
    try:
        lab = up(scenario)
    except UnsupportedError as error:
        unable(error)
    found = Site(lab, scenario, folder)
    try:
        for host in hosts:
            found.serve(host)
        yield found
    finally:
        for agent in found.agents.values():
            agent.kill()
            agent.communicate()
        lab.down()


@contextmanager
def site_with_agent(text: str, folder: Path, file: str, *options: str) -> Iterator[Site]:
    """A lab of the network of a scenario, which is put into `file`, with an agent in host a."""
    (folder / file).write_text(text)
    with site(parse(text), folder, []) as found:
        found.serve("a", *options)
        yield found
