"""The offline director and what is pointed at: "this" is a part of the film, and the change is that part's."""

from __future__ import annotations

import pytest

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.pointed import apply_pointed, part_of
from koda_ray.roles.offline.understand import Said, parse_brief, understand
from koda_ray.types import Note, Pointed

from .desk import Desk

BALL = 'A bouncing ball, playful, with the caption "Hello there"'
TITLE = 'A title: "Good morning" with the tagline "Rise early"'
SNOW = "A bouncing ball in the snow"


def note(text: str, *, element: str | None = None, component: str | None = None) -> Note:
    return Note(text=text, time=1.0, element=element, component=component)


def after(prompt: str, *notes: Note, words: str = "") -> tuple[Brief, tuple[str, ...]]:
    return apply_pointed(parse_brief(prompt), Pointed(change=1, words=words, notes=notes))


@pytest.mark.parametrize(
    ("prompt", "element", "component", "part"),
    [
        (BALL, "Hello", "Caption", "heading"),
        (BALL, "hello THERE", None, "heading"),
        (BALL, None, "Canvas", "subject"),
        (BALL, None, "Backdrop", "ground"),
        (SNOW, None, "Particles", "air"),
        (TITLE, "Good morning", "Title", "heading"),
        (TITLE, "RISE EARLY", "Title", "aside"),
        (TITLE, None, "Title", "heading"),
        ("A bouncing ball", None, "Caption", "subject"),
        ("A bouncing ball", None, None, "subject"),
    ],
)
def test_what_is_pointed_at_is_known_by_its_words_and_its_component(
    prompt: str, element: str | None, component: str | None, part: str
) -> None:
    assert part_of(parse_brief(prompt), note("x", element=element, component=component)) == part


@pytest.mark.parametrize(
    ("prompt", "at", "field", "value"),
    [
        (BALL, note("red"), "accent", "#E5322D"),
        (BALL, note("this should be red", element="Hello there"), "repaint", (("ink", "#E5322D"),)),
        (BALL, note("blue", component="Backdrop"), "background", "#2563EB"),
        (BALL, note("larger", element="Hello there"), "lettering", 1.3),
        (BALL, note("larger"), "scale", 1.3),
        (BALL, note("twice as fast"), "speed", 2.0),
        (BALL, note("half the speed", element="Hello there"), "speed", 0.5),
        (BALL, note("remove this", element="Hello there"), "heading", ""),
        (BALL, note("'Bye'", element="Hello there"), "heading", "Bye"),
        (TITLE, note("should read Good evening", element="Good morning"), "heading", "Good evening"),
        (TITLE, note("'Sleep in'", element="Rise early"), "texts", ("Sleep in",)),
        (TITLE, note("remove", element="Rise early"), "texts", ()),
        (TITLE, note("weg damit", element="Good morning"), "heading", "Rise early"),
        (SNOW, note("no", component="Particles"), "particles", False),
        ("Three bouncing balls", note("remove this one"), "count", 2),
    ],
)
def test_a_note_changes_the_part_that_it_points_at(prompt: str, at: Note, field: str, value: object) -> None:
    brief, done = after(prompt, at)
    assert getattr(brief, field) == value and done


def test_notes_are_taken_one_after_the_other_with_what_is_said_beside_them() -> None:
    brief, done = after(BALL, note("red"), note("'Bye'", element="Hello there"), words="make it 10 seconds")
    assert (brief.accent, brief.heading, brief.duration_s) == ("#E5322D", "Bye", 10.0)
    assert len(done) == 3


def test_where_nothing_of_it_is_known_the_picture_is_composed_anew_and_that_is_said() -> None:
    plain = parse_brief(BALL)
    brief, done = after(BALL, note("more je ne sais quoi"))
    assert (brief.variant, done) == (plain.variant + 1, ())
    known, done = after(BALL, note("more je ne sais quoi"), note("red"))
    assert known.variant == plain.variant and done


def test_when_something_was_pointed_at_is_no_length() -> None:
    said = Said(
        prompt=BALL,
        feedback=("1. At 2.35 s, the whole picture: red",),
        pointed=(Pointed(change=1, notes=(Note(text="red", time=2.35),)),),
    )
    (change,) = understand(said).changes
    assert (change.words, change.brief.duration_s) == ("red", parse_brief(BALL).duration_s)


async def test_the_director_makes_what_was_pointed_at_so() -> None:
    desk = Desk(BALL)
    await desk.run()
    before = dict(desk.files)
    text = note("red", element="Hello there", component="Caption")
    desk.change("", text)
    await desk.run()
    assert "text recoloured" in desk.calls("send_message")[-1]["content"]
    changed = {path for path, body in desk.files.items() if before.get(path) != body}
    assert changed == {"src/theme.ts"}
    assert desk.node.pointed == (Pointed(change=1, notes=(text,)),)
