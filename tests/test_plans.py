"""Plans: Python's types against the core's schema, and what is written against what is read."""

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from hypothesis import given

from conftest import SLOW
from fuzzing.running import fuzzed
from fuzzing.scenarios import scenarios
from perhop._core import Simulation, plan_schemas, reread_plan
from perhop.engines import plans
from perhop.engines.captures import Capture, capture_plan
from perhop.engines.emu import _flow_keys, hosts_plan
from perhop.engines.lateness import stall_threshold
from perhop.engines.plan import effects, network_plan, plan
from perhop.engines.traffic import job
from perhop.scenario import Scenario, parse
from perhop.scenario.resolve import steps

ROOT = Path(__file__).parents[1]
KINDS = ("Plan", "EmulationPlan", "Job", "CapturePlan", "EffectPlan")


class Comparison:
    """Return the differences of a schema and a type."""

    def __init__(self, schemas: dict[str, Any]) -> None:
        self.schemas = schemas
        self.differences: list[str] = []
        self.compared: set[tuple[str, int]] = set()

    def compare(self, schema: Any, hint: Any, path: str) -> None:
        """Compare a schema with a type, alternative by alternative."""
        ours, theirs = list(_alternatives_of(hint)), list(self._alternatives(schema, hint))
        if not theirs:
            return  # compared before
        mine, core = {_key(one): one for one in ours}, {_schema_key(one): one for one in theirs}
        for key in mine.keys() ^ core.keys():
            side = "Python" if key in mine else "the core"
            self.differences.append(f"{path}: {key} in {side} alone")
        for key in mine.keys() & core.keys():
            self._within(core[key], mine[key], f"{path}.{key}" if len(ours) > 1 else path)

    def _alternatives(self, schema: dict[str, Any], hint: Any) -> Any:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if (name, id(hint)) not in self.compared or not is_typeddict(hint):
                self.compared.add((name, id(hint)))
                yield from self._alternatives(self.schemas[name], hint)
        elif found := schema.get("oneOf") or schema.get("anyOf"):
            for one in found:
                yield from self._alternatives(one, None)
        elif "enum" in schema:
            yield from ({"const": value} for value in schema["enum"])
        elif isinstance(schema.get("type"), list):
            yield from ({**schema, "type": one} for one in schema["type"])
        else:
            yield schema

    def _within(self, schema: dict[str, Any], hint: Any, path: str) -> None:
        if is_typeddict(hint):
            if (key := (json.dumps(schema, sort_keys=True), id(hint))) in self.compared:
                return
            self.compared.add(key)
            hints = get_type_hints(hint)
            assert schema["additionalProperties"] is False, f"{path} takes unknown keys"
            assert hint.__required_keys__ == hints.keys(), f"{path} has keys that may be left out"
            for name in hints:
                self.compare(schema["properties"][name], hints[name], f"{path}.{name}")
        elif get_origin(hint) is list:
            self.compare(schema["items"], get_args(hint)[0], f"{path}[]")
        elif get_origin(hint) is tuple:
            items = schema.get("prefixItems") or [schema["items"]] * schema["minItems"]
            assert len(items) == len(get_args(hint)) == schema["maxItems"], path
            for place, (one, other) in enumerate(zip(items, get_args(hint), strict=True)):
                self.compare(one, other, f"{path}[{place}]")
        elif get_origin(hint) is dict:
            self.compare(schema["additionalProperties"], get_args(hint)[1], f"{path}{{}}")


def _alternatives_of(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        for one in get_args(hint):
            yield from _alternatives_of(one)
    elif get_origin(hint) is Literal:
        yield from ({"literal": value} for value in get_args(hint))
    else:
        yield hint


def _key(hint: Any) -> str:
    """Return the field that identifies an alternative of a type."""
    if isinstance(hint, dict):
        return f'"{hint["literal"]}"'
    if is_typeddict(hint):
        return "{" + ", ".join(sorted(get_type_hints(hint))) + "}"
    names = {int: "integer", bool: "boolean", str: "string", NoneType: "null"}
    return names.get(hint) or {list: "array", tuple: "tuple", dict: "map"}[get_origin(hint)]


def _schema_key(schema: dict[str, Any]) -> str:
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "properties" in schema:
        return "{" + ", ".join(sorted(schema["properties"])) + "}"
    if schema["type"] == "object":
        return "map"
    if schema["type"] == "array":
        return "tuple" if "maxItems" in schema else "array"
    return str(schema["type"])


def differences(schemas: dict[str, Any]) -> list[str]:
    """Where Python's types and the core's are not the same."""
    comparison = Comparison(schemas)
    for kind in KINDS:
        comparison.compare({"$ref": f"#/{kind}"}, getattr(plans, kind), kind)
    return comparison.differences


def test_types_are_those_of_the_core() -> None:
    assert differences(json.loads(plan_schemas())) == []


@pytest.mark.parametrize("name", ["LinkPlan", "PieConfig", "TcpPlan", "FlowPlan", "InterfacePlan"])
def test_a_key_that_one_side_lacks_is_seen(name: str) -> None:
    schemas = json.loads(plan_schemas())
    for key in schemas[name]["properties"]:
        less = deepcopy(schemas)
        del less[name]["properties"][key]
        assert any(key in one for one in differences(less)), f"{name}.{key}"
    more = deepcopy(schemas)
    more[name]["properties"]["surplus"] = {"type": "integer"}
    assert any("surplus" in one for one in differences(more))


def test_another_kind_of_value_is_seen() -> None:
    schemas = json.loads(plan_schemas())
    schemas["CodelConfig"]["properties"]["ecn"] = {"type": "integer"}
    assert any("CodelConfig" in one or "ecn" in one for one in differences(schemas))
    schemas = json.loads(plan_schemas())
    queues = schemas["QueueConfig"]["oneOf"]
    schemas["QueueConfig"]["oneOf"] = queues[:-1]
    assert any("dualpi2" in one for one in differences(schemas))


def read_back(kind: str, written: object) -> None:
    text = json.dumps(written)
    assert json.loads(reread_plan(kind, text)) == json.loads(text)


@SLOW
@fuzzed(20)
@given(scenario=scenarios)
def test_the_core_reads_what_is_written(scenario: Scenario) -> None:
    read_back("Plan", plan(scenario, 1))
    read_back("Job", job(scenario, 1))
    emulated: plans.EmulationPlan = {
        "network": network_plan(scenario, 1),
        "hosts": hosts_plan(scenario),
        "congestion_control": None,
        "flows": _flow_keys(scenario),
        "stall_threshold": stall_threshold(scenario),
    }
    read_back("EmulationPlan", emulated)
    read_back("CapturePlan", capture_plan(scenario, 1, Capture(Path("x"), (), 0)))
    for step in steps(scenario):
        for effect in effects(scenario, step, {}):
            read_back("EffectPlan", effect)


def test_what_is_wrong_with_a_plan_is_said_with_its_place() -> None:
    text = """\
perhop: 1
name: x
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 1 Mbps, queue: {codel: {}}}]
duration: 1 s
"""
    written = json.loads(json.dumps(plan(parse(text, "x"), 1)))
    codel = written["network"]["links"][0]["ends"][0]["discipline"]["queue"]["codel"]
    codel["target"] = 0
    place = r"network\.links\[0\]\.ends\[0\]\.discipline\.queue\.codel"
    with pytest.raises(ValueError, match=rf"^{place}\.target: must not be zero"):
        Simulation(json.dumps(written))
    codel["goal"] = codel.pop("target")
    with pytest.raises(ValueError, match=rf"^{place}\.goal: unknown field `goal`, expected one of"):
        Simulation(json.dumps(written))


@SLOW
def test_a_forgotten_discipline_is_an_error_of_the_type_checker(tmp_path: Path) -> None:
    for module in ("engines/queues.py", "linux/qdiscs.py"):
        source = (ROOT / "python/perhop" / module).read_text(encoding="utf-8")
        branch = "        case Pie() as pie:\n"
        assert branch in source and "assert_never" in source
        rest = source[source.index(branch) + len(branch) :]
        forgotten = source.replace(branch + rest[: rest.index("        case ")], "")
        name = Path(module).name
        (tmp_path / f"whole_{name}").write_text(source, encoding="utf-8")
        (tmp_path / f"forgotten_{name}").write_text(forgotten, encoding="utf-8")
    files = sorted(tmp_path.iterdir())
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", *files],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    said = 'Argument 1 to "assert_never" has incompatible type "Pie"; expected "Never"'
    found = [line for line in checked.stdout.splitlines() if said in line]
    names = sorted(Path(line.split(":", 1)[0]).name for line in found)
    assert names == ["forgotten_qdiscs.py", "forgotten_queues.py"], checked.stdout + checked.stderr
