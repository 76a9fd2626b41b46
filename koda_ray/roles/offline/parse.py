"""From a person's words to a `Brief`: pure, total, and the same for the same words.

Every string gives a brief. What the vocabulary does not cover becomes kinetic typography of the prompt's own words, and
what had to be clamped or assumed is written into the brief's notes, so that the plan can say it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from koda_ray.roles.offline import extract, lexicon
from koda_ray.roles.offline.brief import FPS, SIZES, Brief, Heard, Style
from koda_ray.roles.offline.conflict import conflicts_in_prompt, without_negated
from koda_ray.roles.offline.find import (
    LONG_PROMPT_CHARS,
    find_aspect,
    find_colours,
    find_count,
    find_direction,
    find_impossible,
    find_scale,
    find_speed,
    find_style,
    language_of,
    normalise,
    seed_of,
)
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import said
from koda_ray.roles.offline.subject import LAST, Subject, settle_duration, subject_of
from koda_ray.roles.offline.subjects import all_subjects
from koda_ray.types import MAX_DURATION_S, MIN_SCENE_S

__all__ = ["parse_prompt"]

_SUBJECT_WINDOW_CHARS = 240
_SPECIFIC_WORDS = 24
"""A prompt of more words is not asked about its style: whoever says so much has said what they want."""


def parse_prompt(prompt: str, *, assets: Sequence[Mapping[str, str]] = ()) -> Brief:
    """Read a prompt alone.

    Args:
        prompt: Any text; beyond 20,000 characters it is cut.
        assets: Uploaded files as ``{"id", "name", "mediaType", "path"}``.

    Returns:
        A brief whose notes say what was clamped or assumed.
    """
    text = normalise(prompt)
    long = len(text) > LONG_PROMPT_CHARS
    head = text[:_SUBJECT_WINDOW_CHARS] if long else text
    seen = ("image/", "video/")
    picture = next((a["path"] for kind in seen for a in assets if a.get("mediaType", "").startswith(kind)), None)
    quotes, bare = extract.find_quotes(head)
    aspect, bare = find_aspect(bare)
    length, bare, notes = _find_length(bare)
    heard = Hearing(text=text, bare=bare, quotes=quotes, picture=picture, notes=notes)
    subject = _find_subject(heard, long=long)
    wanted = without_negated(bare)
    style, style_heard = find_style(wanted if not long else head)
    conflicts = () if long else conflicts_in_prompt(bare)
    notes += [conflict.reading for conflict in conflicts]
    seconds, duration_heard = _length(length, notes)
    width, height = SIZES[aspect or "16:9"]
    count, note = find_count(bare, subject.counted)
    brief = Brief(
        prompt=text,
        subject=subject.name,
        seed=seed_of(prompt),
        language=language_of(text),
        duration_s=seconds,
        duration_heard=duration_heard,
        width=width,
        height=height,
        fps=FPS,
        count=count,
        particles=bool(heard.air),
        particle_kind=heard.air[0] if heard.air else "dust",
        image=_page_path(picture),
        impossible=find_impossible(bare, length.seconds if length else None),
    )
    if note:
        notes.append(note)
    brief = _described(brief, wanted, bare, {conflict.cancels for conflict in conflicts})
    brief = subject.fill(brief, heard)
    brief = _with_style(brief, style, style_heard, specific=long or len(text.split()) > _SPECIFIC_WORDS)
    return settle_duration(replace(brief, notes=tuple(notes)))


def _find_length(text: str) -> tuple[extract.Length | None, str, list[str]]:
    """Return how long the video is to be, the text without it, and what has to be said of seconds that are no length.

    Where a subject has seconds of its own they stay in the text, for the subject to read.
    """
    holder = next((s for s in all_subjects() if s.seconds_note and lexicon.contains(text, s.words)), None)
    if holder is None:
        length = extract.find_length(text)
        return length, length.rest if length else text, []
    length = extract.find_length(holder.without_own_seconds(text))
    return length, text, [holder.seconds_note] if length is None and extract.find_length(text) else []


def _find_subject(heard: Hearing, *, long: bool) -> Subject:
    """Return the subject with the lowest claim; of a long prompt, one that is looked for there or is shown in words."""
    claims = [(rank, subject) for subject in all_subjects() for rank in subject.claims(heard)]
    _, first = min(claims, key=lambda claim: claim[0])
    if long and not first.long:
        _, first = min((claim for claim in claims if claim[0] >= LAST), key=lambda claim: claim[0])
    return first


def _described(brief: Brief, wanted: str, bare: str, cancelled: set[str | None]) -> Brief:
    """Add how things look and move; what contradictions cancel stays as it is."""
    colours, background = find_colours(wanted)
    return replace(
        brief,
        accent=colours[0] if colours else None,
        colours=colours,
        background=background,
        direction=find_direction(bare),
        speed=1.0 if "speed" in cancelled else find_speed(wanted) or 1.0,
        scale=1.0 if "size" in cancelled else find_scale(wanted),
    )


def _length(length: extract.Length | None, notes: list[str]) -> tuple[float, Heard]:
    if length is None:
        return 5.0, "unknown"
    if length.absurd:
        notes.append(said("note.no_length"))
        return 5.0, "unknown"
    if length.seconds > MAX_DURATION_S:
        return MAX_DURATION_S, "explicit"
    if length.seconds < MIN_SCENE_S:
        notes.append(said("note.too_short", seconds=length.seconds, least=MIN_SCENE_S))
        return MIN_SCENE_S, "explicit"
    return round(length.seconds * 2) / 2 if length.seconds > 10 else round(length.seconds, 1), "explicit"


def _page_path(path: str | None) -> str | None:
    """Turn ``public/assets/x.jpg`` into the address the page loads it from."""
    return None if path is None else "/" + path.removeprefix("public/").lstrip("/")


def _with_style(brief: Brief, style: Style | None, heard: Heard, *, specific: bool) -> Brief:
    if style is not None:
        return replace(brief, style=style, style_heard=heard)
    subject = subject_of(brief)
    manner = subject.manner(brief)
    if manner is not None:
        return replace(brief, style=manner, style_heard="inferred")
    return replace(brief, style=subject.style, style_heard="inferred" if specific else "unknown")
