"""Errors as JSON: the answers that every route may give instead of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from perhop_services.common.errors import ServiceError, ThrottledError
from perhop_services.common.logs import failed
from perhop_services.common.messages.basics import Problem

if TYPE_CHECKING:
    from fastapi import Request

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in {
        400: "Malformed HTTP request",
        401: "Not authenticated",
        403: "Not allowed for this user",
        404: "Unknown, or the property of another user",
        409: "Conflict: with what, and the earliest start without it",
        413: "The request is too large",
        415: "The request body is not JSON",
        422: "Malformed or inconsistent request",
        429: "Too many requests",
        503: "The database or a router does not answer",
    }.items()
}
"""Descriptions of problems by HTTP status, for the OpenAPI description."""


def _answer(
    status: int, error: str, detail: object = None, headers: dict[str, str] | None = None
) -> Response:
    # ASCII, as names that were sent may be no valid text.
    content = json.dumps({"error": error, "detail": detail or {}})
    return Response(content, status, headers, "application/json")


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    if error.__cause__ is not None:
        failed("a request failed", error)
    headers = {}
    if isinstance(error, ThrottledError):
        headers["Retry-After"] = str(error.detail["retry_after"])
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return _answer(error.status, str(error), error.detail, headers)


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found: list[dict[str, Any]] = [
        {"place": ".".join(map(str, each["loc"])), "message": each["msg"]}
        for each in error.errors()[:20]
    ]
    first = found[0] if found else {"place": "", "message": "invalid"}
    return _answer(422, f"{first['place']}: {first['message']}", {"problems": found})


async def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _answer(error.status_code, str(error.detail), headers=dict(error.headers or {}))


HANDLERS: Final[Any] = {
    ServiceError: _refused,
    RequestValidationError: _invalid,
    HTTPException: _http,
}
"""Responses to errors, by type."""
