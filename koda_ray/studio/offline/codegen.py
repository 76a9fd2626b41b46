"""The code generator's answers: complete files, the same bytes for the same request.

Every answer starts from the whole film, made anew from everything that was said. A step of the plan returns the files
that this step adds; a change returns the files whose content differs from what is there. So "make the ball red" is one
line in one file, and a step that is repeated repeats its bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from pydantic import ValidationError

from koda_ray.errors import ModelError
from koda_ray.studio.offline.brief import Brief
from koda_ray.studio.offline.feedback import apply_feedback
from koda_ray.studio.offline.films.base import Film, timing_of
from koda_ray.studio.offline.language import said
from koda_ray.studio.offline.palette import palette_for
from koda_ray.studio.offline.plan import make_plan
from koda_ray.studio.offline.project import STATE_PATH, film_files
from koda_ray.studio.offline.subject import subject_of
from koda_ray.studio.offline.understand import parse_brief
from koda_ray.types import Plan

__all__ = ["answer_request", "film_of", "generate_files"]

_ABOUT = re.compile(r"(\d+(?:\.\d+)?) s, (\d+)x(\d+), (\d+) fps")


def _plan_of(request: Mapping[str, object]) -> Plan | None:
    raw = request.get("plan")
    if not isinstance(raw, dict):
        return None
    try:
        return Plan.model_validate(raw)
    except ValidationError as error:
        raise ModelError(f"The code generator's request holds a plan that is none: {error}") from error


def _strings(value: object) -> list[str]:
    return [str(item) for item in cast("list[object]", value)] if isinstance(value, list) else []


def _settled(brief: Brief, plan: Plan, feedback: list[str], about: str) -> Brief:
    """Take length and size from the plan, and from change requests that came after it."""
    stated = _ABOUT.search(about)
    plain = replace(brief, duration_s=plan.total_duration, width=plan.width, height=plan.height, fps=plan.fps)
    if stated:
        seconds, width, height, fps = stated.groups()
        return replace(plain, duration_s=float(seconds), width=int(width), height=int(height), fps=int(fps))
    changed = plain
    for words in feedback:
        changed, _ = apply_feedback(changed, words)
    lengths = any(apply_feedback(plain, words)[0].duration_s != plain.duration_s for words in feedback)
    sizes = any(apply_feedback(plain, words)[0].width != plain.width for words in feedback)
    return replace(
        plain,
        duration_s=brief.duration_s if lengths else plain.duration_s,
        width=brief.width if sizes else plain.width,
        height=brief.height if sizes else plain.height,
    )


def film_of(request: Mapping[str, object]) -> Film:
    """Make the film that a code generator request describes.

    Raises:
        ModelError: The request's plan is not a plan.
    """
    plan = _plan_of(request)
    feedback = _strings(request.get("feedback"))
    assets = [
        cast("dict[str, str]", a) for a in cast("list[object]", request.get("assets") or []) if isinstance(a, dict)
    ]
    style = plan.style if plan else request.get("style")
    brief = parse_brief(
        str(request.get("prompt") or ""),
        style=style if isinstance(style, str) else None,
        feedback=feedback,
        assets=assets,
    )
    if plan is None:
        plan = make_plan(brief)
    else:
        about = str(request.get("description") or "")
        brief = _settled(brief, plan, feedback, about)
    timing = timing_of([scene.duration for scene in plan.scenes], brief.duration_s)
    subject = subject_of(brief)
    film = subject.film(brief, timing, palette_for(brief))
    if subject.zoom is not None:
        film.zoom = round(max(0.5, min(subject.zoom, brief.scale)), 3)
    return film


def generate_files(request: Mapping[str, object]) -> dict[str, str]:
    """Return the files of a request as path to content.

    Args:
        request: The code generator's request: ``task``, the tool's input, ``prompt``, ``style``, ``plan``, ``assets``,
            ``feedback`` and ``files`` (path to content of what exists).

    Returns:
        ``initial_setup``: the stage without its scene. ``create_scene``: the scene with the keyframes up to and with
        that scene's. ``create_component``: the whole film. ``modify_existing``: only what differs from ``files``.

    Raises:
        ModelError: The task or the plan is not one.
    """
    film = film_of(request)
    task = request.get("task")
    existing = request.get("files")
    have = cast("dict[str, object]", existing) if isinstance(existing, dict) else {}
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
        return {path: text for path, text in changed.items() if _ours(path, text, have, request)}
    return changed


def _ours(path: str, text: str, have: Mapping[str, object], request: Mapping[str, object]) -> bool:
    """Return whether a file may be replaced: a person's own edit stays where the change does not concern that file.

    What is there is ours where it is missing or equals what some earlier request was answered with.
    """
    if path not in have:
        return True
    feedback = _strings(request.get("feedback"))
    earlier = [
        film_files(film_of({**request, "feedback": feedback[:n], "description": ""}), until=None)
        for n in range(len(feedback))
    ]
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
