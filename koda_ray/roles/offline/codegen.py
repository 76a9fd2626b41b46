"""The code generator's answers: complete files, the same bytes for the same request.

Every answer starts from the whole film, made anew from everything that was said. A step of the plan returns the files
that this step adds; a change returns the files whose content differs from what is there. So "make the ball red" is one
line in one file, and a step that is repeated repeats its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import ValidationError

from koda_ray.errors import ModelError
from koda_ray.roles.offline import given
from koda_ray.roles.offline.film import Film, timing_of
from koda_ray.roles.offline.language import said
from koda_ray.roles.offline.parts import film_with_parts
from koda_ray.roles.offline.plan import make_plan
from koda_ray.roles.offline.project import STATE_PATH, film_files
from koda_ray.roles.offline.understand import Course, Said, understand
from koda_ray.types import Plan

__all__ = ["answer_request", "course_of", "film_of", "generate_files", "plan_in"]


def plan_in(request: Mapping[str, object]) -> Plan | None:
    """Return the plan that a code generator's request holds, if it holds one.

    Raises:
        ModelError: What it holds is none.
    """
    raw = request.get("plan")
    if not isinstance(raw, dict):
        return None
    try:
        return Plan.model_validate(raw)
    except ValidationError as error:
        raise ModelError(f"The code generator's request holds a plan that is none: {error}") from error


def course_of(request: Mapping[str, object]) -> Course:
    """Understand what a code generator's request tells of what the person wants."""
    return understand(
        Said(
            prompt=str(request.get("prompt") or ""),
            answers=given.answers_in(request.get("answers")),
            options=given.mapping(request.get("options")),
            feedback=tuple(str(words) for words in given.items(request.get("feedback"))),
            pointed=given.pointed_in(request.get("pointed")),
            assets=[cast("Mapping[str, str]", given.mapping(asset)) for asset in given.items(request.get("assets"))],
        )
    )


def film_of(course: Course, plan: Plan | None) -> Film:
    """Make the film of what a person wants, by the plan where one is agreed."""
    brief = course.agreed(plan) if plan else course.brief
    scenes = (plan or make_plan(brief)).scenes
    timing = timing_of([scene.duration for scene in scenes], brief.duration_s)
    return film_with_parts(brief, timing)


def generate_files(request: Mapping[str, object]) -> dict[str, str]:
    """Return the files of a request as path to content.

    Args:
        request: The code generator's request: ``task``, the tool's input, ``prompt``, ``answers``, ``plan``,
            ``assets``, ``feedback`` and ``files`` (path to content of what exists).

    Returns:
        ``initial_setup``: the stage without its scene. ``create_scene``: the scene with the keyframes up to and with
        that scene's. ``create_component``: the whole film. ``modify_existing``: only what differs from ``files``.

    Raises:
        ModelError: The task or the plan is not one.
    """
    plan = plan_in(request)
    course = course_of(request)
    film = film_of(course, plan)
    task = request.get("task")
    have = given.mapping(request.get("files"))
    if task == "initial_setup":
        return film_files(film, until=0)
    if task == "create_scene":
        number = request.get("scene")
        last = len(film.timing.ends)
        until = number if isinstance(number, int) and 1 <= number <= last else last
        files = film_files(film, until=until)
        return {path: text for path, text in files.items() if path == STATE_PATH or have.get(path) != text}
    if task not in ("create_component", "modify_existing"):
        raise ModelError(
            f"Unknown task {task!r}: it is initial_setup, create_component, create_scene or modify_existing."
        )
    files = film_files(film, until=None)
    changed = {path: text for path, text in files.items() if have.get(path) != text}
    if task == "modify_existing" and not request.get("errors"):
        earlier = [film_files(film_of(course.until(n), plan), until=None) for n in range(len(course.changes))]
        return {path: text for path, text in changed.items() if _ours(path, text, have, earlier)}
    return changed


def _ours(path: str, text: str, have: Mapping[str, object], earlier: Sequence[Mapping[str, str]]) -> bool:
    """Return whether a file may be replaced: a person's own edit stays where the change does not concern that file.

    What is there is ours where it is missing or equals what some ``earlier`` request was answered with.
    """
    if path not in have:
        return True
    if not earlier or any(files.get(path) == have[path] for files in earlier):
        return True
    return earlier[-1].get(path) != text


def _summary(request: Mapping[str, object], files: Mapping[str, str]) -> str:
    if not files:
        return said("files.none")
    names = ", ".join(path.removeprefix("src/") for path in list(files)[:4])
    more = said("files.more", count=len(files) - 4) if len(files) > 4 else ""
    return said("files.changed" if request.get("task") == "modify_existing" else "files.wrote", names=names, more=more)


def answer_request(text: str) -> str:
    """Answer a code generator request with one JSON object ``{"files": [{"path", "content"}], "summary"}``.

    Raises:
        ModelError: The text is not a JSON object, or its task is unknown.
    """
    try:
        request: object = json.loads(text)
    except ValueError as error:
        raise ModelError(f"The code generator's request is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise ModelError("The code generator's request must be a JSON object.")
    asked = cast("dict[str, object]", request)
    files = generate_files(asked)
    answer = {
        "files": [{"path": path, "content": content} for path, content in files.items()],
        "summary": _summary(asked, files),
    }
    return json.dumps(answer, ensure_ascii=False)
