"""The page of the keys of scenarios, from the JSON Schema."""

from __future__ import annotations

from typing import Any

from perhop.scenario import json_schema
from website import api
from website.links import slug_of

Schema = dict[str, Any]


def page() -> str:
    """Return the page of all keys."""
    schema = json_schema()
    parts = [
        "# Keys of scenarios",
        "",
        "All keys of the format; [Scenarios](../scenario.md) explains them. `perhop schema` prints "
        "the JSON Schema from which this page is made.",
        "",
        "## Scenario",
        "",
        *_section(schema),
    ]
    for name, part in sorted(schema["$defs"].items()):
        parts += [f"## {name}", "", *_section(part)]
    return "\n".join(parts)


def _section(schema: Schema) -> list[str]:
    """Return the description and the table of a part of a scenario."""
    lines = [api.prose(schema.get("description", "")), ""]
    whole = schema
    if "properties" not in schema:
        forms = [form for form in schema.get("anyOf", ()) if "properties" not in form]
        whole = next((form for form in schema.get("anyOf", ()) if "properties" in form), schema)
        if forms:
            lines += [f"Short form: {', or '.join(value(form) for form in forms)}.", ""]
    if whole.get("properties"):
        required = whole.get("required", ())
        lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
        lines += [
            _row(key, part, required=key in required) for key, part in whole["properties"].items()
        ]
        lines.append("")
    return lines


def _row(key: str, part: Schema, *, required: bool) -> str:
    default = part.get("default")
    shown = (
        "required" if required else "" if default in (None, {}, [], "") else f"`{_plain(default)}`"
    )
    cells = [
        f"`{key}`",
        value(part),
        shown,
        api.inline(" ".join(part.get("description", "").split())),
    ]
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |"


def value(schema: Schema) -> str:
    """Return in words what a key may have."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{slug_of(name)})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema and "properties" not in schema:
            return " or ".join(dict.fromkeys(value(form) for form in schema[key]))
    if "const" in schema:
        return f"`{_plain(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{_plain(each)}`" for each in schema["enum"])
    match schema.get("type"):
        case "string":
            return f"text such as `{schema['examples'][0]}`" if "examples" in schema else "text"
        case "integer" | "number" as kind:
            what = "whole number" if kind == "integer" else "number"
            low, high = schema.get("minimum"), schema.get("maximum")
            if low is None:
                return what
            return f"{what} from {low}" + ("" if high is None else f" to {high}")
        case "boolean":
            return "`true` or `false`"
        case "null":
            return "none"
        case "array":
            of = dict.fromkeys(
                value(item)
                for item in (*schema.get("prefixItems", ()), schema.get("items"))
                if isinstance(item, dict)
            )
            return f"list of {' or '.join(of)}" if of else "list"
        case "object":
            inner = [*schema.get("patternProperties", {}).values()]
            more = schema.get("additionalProperties")
            inner += [more] if isinstance(more, dict) else []
            of = dict.fromkeys(map(value, inner))
            return f"mapping to {' or '.join(of)}" if of else "mapping"
    return "value in the unit of the metric"  # of expectations: the schema says which, by metric


def _plain(each: object) -> str:
    return str(each).lower() if isinstance(each, bool) else str(each)
