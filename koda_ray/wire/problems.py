"""What goes wrong, and whether the server is well."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from koda_ray.types import Model

__all__ = [
    "Health",
    "Problem",
    "ProblemField",
    "Readiness",
]


class Health(Model):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str


class Readiness(Model):
    """Whether work would be taken: every part by name, with what is wrong where the request had a key."""

    ready: bool
    parts: dict[str, str]


class ProblemField(Model):
    """One value of a request that was refused: where it is, and what is wrong with it."""

    field: str
    problem: str


class Problem(Model):
    """An error document. ``code`` is stable, ``retryable`` says whether the same request may succeed later.

    Source: RFC 9457, with the extension members ``code``, ``retryable``, ``context`` and ``fields``.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    instance: str
    context: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    fields: tuple[ProblemField, ...] = ()
