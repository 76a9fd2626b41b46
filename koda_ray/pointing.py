"""What a person asks for by pointing, in words: what the agents hear, what stands in the talk, what names a version."""

from __future__ import annotations

from collections.abc import Iterable

from koda_ray.types import Box, Note, Plan, Pointed, Scene

__all__ = ["as_written", "in_words", "pictures_named"]


def in_words(words: str, notes: tuple[Note, ...], plan: Plan | None) -> str:
    """Say what a change asks for: its own words, then each note with its time, its place and what is there.

    Args:
        words: What was said beside the notes; it may be empty.
        notes: What was pointed at.
        plan: Names the scenes and the size of the picture.
    """
    lines = [f"{number}. {_where(note, plan)}: {note.text.strip()}" for number, note in enumerate(notes, 1)]
    return "\n".join([*([words.strip()] if words.strip() else []), *lines])


def as_written(pointed: Pointed) -> str:
    """Say what a change asks for in its person's own words alone, those of its notes as well, without places."""
    said = [pointed.words.strip(), *(note.text.strip() for note in pointed.notes)]
    return "; ".join(each for each in said if each)


def pictures_named(notes: Iterable[Note]) -> set[str]:
    """Return the ids of the uploads that notes have as their pictures."""
    return {note.picture for note in notes if note.picture is not None}


def _where(note: Note, plan: Plan | None) -> str:
    until = f" to {note.until:.2f} s" if note.until is not None and note.until > note.time else ""
    frame = f", frame {note.frame}" if note.frame is not None else ""
    scene = _scene_at(note.time, plan)
    told = f", scene {scene.number} {scene.title}" if scene is not None else ""
    return f"At {note.time:.2f} s{until}{frame}{told}, {_what(note, plan)}"


def _what(note: Note, plan: Plan | None) -> str:
    parts: list[str] = []
    if note.element:
        parts.append(f'"{" ".join(note.element.split())}"')
    if note.component:
        parts.append(note.component)
    if note.source:
        parts.append(f"in {note.source}")
    if note.box is not None:
        parts.append(_place(note.box, plan))
    return " ".join(parts) or "the whole picture"


def _place(box: Box, plan: Plan | None) -> str:
    size = f" of {plan.width} x {plan.height}" if plan is not None else ""
    return f"(x {box.x:.0f}, y {box.y:.0f}, {box.width:.0f} x {box.height:.0f}{size} pixels)"


def _scene_at(time: float, plan: Plan | None) -> Scene | None:
    ends = 0.0
    for scene in plan.scenes if plan is not None else ():
        ends += scene.duration
        if time < ends - 1e-4:
            return scene
    return None
