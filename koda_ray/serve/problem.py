"""Errors as problem documents: one place where an exception becomes a status, a code and a sentence.

Source: RFC 9457, Problem Details for HTTP APIs.
"""

from __future__ import annotations

import math
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException

from koda_ray.errors import InvalidInput, KodaError
from koda_ray.logs import get_logger
from koda_ray.wire import Problem, ProblemField
from koda_ray.wrong_values import in_our_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["PROBLEM_TYPE", "READ", "USED", "error_response", "install", "problem_of", "problem_response", "responses"]

PROBLEM_TYPE = "application/problem+json"
_TITLES = {
    400: "The request could not be read",
    401: "A key is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "The request did not come in time",
    409: "The request does not fit the current state",
    413: "The request is too large",
    415: "This kind of file is not taken",
    416: "The range is not in the file",
    421: "Asked at the wrong name",
    422: "A value is not valid",
    429: "A limit is reached",
    500: "Something broke on our side",
    502: "A part that we rely on failed",
    503: "Something that the work needs is missing or does not answer",
    507: "The disk is full",
}
_CODES = {
    400: "BAD_REQUEST",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    408: "BODY_STALLED",
    413: "BODY_TOO_LARGE",
    415: "UNSUPPORTED_TYPE",
    429: "LIMIT_REACHED",
}
READ = frozenset({401, 422, 500, 503, 507})
"""What reading rows of one's own may be refused with."""
USED = READ | {404, 409, 429, 502}
"""What using a sandbox or an image of one's own may be refused with: its provider has a say then, too."""
_SHORT_CHARS = 40
_LONGEST_WAIT_S = 86_400
_AGAIN_S = 5
"""When to ask again for what is away, or is being started anew, in seconds."""
_TOKEN = re.compile(r"^(/v1/shares|/v1/media|/w)/[^/]*")
_log = get_logger(__name__)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries for the errors that an operation may answer with."""
    return {
        status: {"model": Problem, "description": _TITLES[status], "content": {PROBLEM_TYPE: {}}}
        for status in sorted(statuses)
    }


def problem_of(
    status: int,
    code: str,
    *,
    detail: str,
    instance: str,
    retryable: bool = False,
    context: Mapping[str, str | int | float | bool | None] | None = None,
) -> Problem:
    """Describe one problem; ``instance`` is the path that was asked for."""
    return Problem(
        type=f"urn:koda:problem:{code.lower().replace('_', '-')}",
        title=_TITLES.get(status) or HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        retryable=retryable,
        instance=instance,
        context=dict(context or {}),
    )


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Build the response that is a problem."""
    body = problem.model_dump(mode="json")
    return JSONResponse(body, status_code=problem.status, media_type=PROBLEM_TYPE, headers=dict(headers or {}))


def install(app: FastAPI) -> None:
    """Make every error of an application a problem document."""
    app.add_exception_handler(KodaError, _koda_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _bug)


async def _koda_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, KodaError)
    return error_response(error, request.url.path)


def error_response(error: KodaError, path: str) -> JSONResponse:
    """Build the response of an expected error; ``path`` is what was asked for."""
    status = 507 if error.code == "DISK_FULL" else error.status
    if status >= 500:
        _log.warning("request failed", path=_logged(path), code=error.code, status=status)
    problem = problem_of(
        status, error.code, detail=error.message, instance=path, retryable=error.retryable, context=error.context
    )
    return problem_response(problem.model_copy(update={"fields": _named(error)}), _headers(error, status))


def _named(error: KodaError) -> tuple[ProblemField, ...]:
    """Return the value that an error is about, where it says which: `context` has it, in this package's names."""
    named = error.context.get("field")
    if not isinstance(error, InvalidInput) or not isinstance(named, str):
        return ()
    field = ".".join(to_camel(part) for part in named.split("."))
    return (ProblemField(field=field, problem=error.message.removeprefix(f"{field}: ")),)


def _logged(path: str) -> str:
    """Return a path without the token that it may hold: a link to a video is a secret."""
    return _TOKEN.sub(r"\1/...", path)


def _headers(error: KodaError, status: int) -> dict[str, str] | None:
    """Say what to do about it as HTTP has it. Source: RFC 9110, sections 10.2.3 and 11.6.1."""
    if status == 401:
        return {"WWW-Authenticate": "Bearer"}
    after = error.context.get("retryAfterS", _AGAIN_S if status == 503 and error.retryable else None)
    # a sandbox may have made it up
    if isinstance(after, int | float) and 0 <= after <= _LONGEST_WAIT_S:
        return {"Retry-After": str(math.ceil(after))}
    return None


async def _validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    wrong = error.errors()
    fields = [_field(item) for item in wrong if not _is_of_its_parts(item, wrong)]
    return problem_response(
        problem_of(
            422,
            "INVALID_INPUT",
            detail="; ".join(f"{field.field}: {field.problem}" for field in fields) or "the request is not valid",
            instance=request.url.path,
        ).model_copy(update={"fields": tuple(fields)})
    )


def _is_of_its_parts(item: dict[str, Any], wrong: Sequence[dict[str, Any]]) -> bool:
    """Whether a list is said to be too short only since what is wrong in it does not count."""
    place = item["loc"]
    return item["type"] == "too_short" and any(
        len(each["loc"]) > len(place) and each["loc"][: len(place)] == place for each in wrong
    )


def _field(item: dict[str, Any]) -> ProblemField:
    """Name the value as the request does, and repeat it where it is short: it may be a whole prompt."""
    where = [str(part) for part in item["loc"]]
    if where and where[0] in ("body", "query", "path", "header", "cookie") and len(where) > 1:
        where = where[1:]
    problem = in_our_words(item)
    if problem is None:
        problem, value = str(item["msg"]).removeprefix("Value error, "), item.get("input")
        if isinstance(value, str | int | float) and len(str(value)) <= _SHORT_CHARS:
            problem = f"{problem} (it is {value!r})"
    return ProblemField(field=".".join(where), problem=problem)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = error.status_code
    detail = f"there is nothing at {request.url.path}" if status == 404 else str(error.detail)
    if status == 405:
        allowed = (error.headers or {}).get("Allow", "no method")
        detail = f"{request.method} is not for {request.url.path}, which takes {allowed}"
    return problem_response(
        problem_of(
            status,
            _CODES.get(status, f"HTTP_{status}"),
            detail=detail,
            instance=request.url.path,
            retryable=status == 429,
        ),
        error.headers,
    )


async def _bug(request: Request, error: Exception) -> JSONResponse:
    _log.exception("a bug answered a request", path=_logged(request.url.path), exc_info=error)
    return problem_response(
        problem_of(
            500,
            "INTERNAL",
            detail="this is a bug in koda_ray; the server's log has the details",
            instance=request.url.path,
        )
    )
