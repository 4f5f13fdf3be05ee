"""Faults in Python: nodes of its syntax tree, whose places are replaced in the text."""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from mutants.mutation import Mutation

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.Pow: ("**", "*"),
}
FUNCTIONS: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "sum": "max"}
NAMES: Final = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "sum": "mean",
    "mean": "sum",
    "first": "last",
    "last": "first",
    "min_horizontal": "max_horizontal",
    "max_horizontal": "min_horizontal",
    "fill_null": "fill_nan",
    "is_null": "is_not_null",
    "is_not_null": "is_null",
    "floor": "ceil",
    "ceil": "floor",
}


def mutations(path: str, source: str) -> Iterator[Mutation]:
    """Yield the faults of a file outside annotations, documentation and imports of types."""
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    encoded = source.isascii()

    def place(line: int, column: int) -> int:
        if not encoded:
            text = source[lines[line - 1] : lines[line]].encode()
            column = len(text[:column].decode())
        return lines[line - 1] + column

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)

    def fault(begin: int, end: int, text: str) -> Mutation:
        return Mutation(path, begin, end, text, source)

    def between(left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Mutation]:
        begin, end = span(left)[1], span(right)[0]
        at = source.find(old, begin, end)
        if at >= 0:
            yield fault(at, at + len(old), new)

    for node in _walk(ast.parse(source)):
        match node:
            case ast.Compare():
                for (left, right), operator in zip(
                    pairwise([node.left, *node.comparators]), node.ops, strict=True
                ):
                    yield from between(left, right, *COMPARISONS[type(operator)])
            case ast.BinOp() if type(node.op) in ARITHMETIC:
                yield from between(node.left, node.right, *ARITHMETIC[type(node.op)])
            case ast.BoolOp():
                names = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in pairwise(node.values):
                    yield from between(left, right, *names)
            case ast.UnaryOp(op=ast.Not()):
                yield fault(span(node)[0], span(node.operand)[0], "")
            case ast.Constant():
                for other in _other_values(node.value):
                    yield fault(*span(node), other)
            case ast.Name() if node.id in FUNCTIONS:
                yield fault(*span(node), FUNCTIONS[node.id])
            case ast.Attribute() if node.attr in NAMES:
                end = span(node)[1]
                yield fault(end - len(node.attr), end, NAMES[node.attr])
            case ast.If() | ast.IfExp() | ast.While():
                yield fault(*span(node.test), "False")
                if not isinstance(node, ast.While):
                    yield fault(*span(node.test), "True")
            case ast.comprehension():
                for test in node.ifs:
                    yield fault(*span(test), "True")
            case (
                ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
                | ast.AugAssign()
                | ast.Expr(value=ast.Call() | ast.Yield())
            ):
                # Without the only assignment to a name, nothing would run.
                yield fault(*span(node), "pass")
            case _:
                pass


def _other_values(value: object) -> tuple[str, ...]:
    """Return other values of a constant."""
    if isinstance(value, bool):
        return (str(not value),)
    if isinstance(value, int):
        return (str(value + 1), str(value // 2)) if value > 1 else (str(1 - value),)
    if isinstance(value, float):
        return (repr(value * 2), repr(value / 2)) if value else ("1.0",)
    return ()


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run: no annotations, decorators or imports for the type checker."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_comment"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            checked = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            # `strict` of `zip` asserts, too.
            asserts = isinstance(child, ast.Assert) or getattr(child, "arg", None) == "strict"
            if isinstance(child, ast.AST) and not checked and not asserts:
                yield from _walk(child)
