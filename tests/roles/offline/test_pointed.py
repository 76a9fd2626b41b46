"""The offline director and what is pointed at: "this" is a part of the film, and the change is that part's."""

from __future__ import annotations

import json

import pytest

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.colouring import palette_for
from koda_ray.roles.offline.places import film_now, part_of
from koda_ray.roles.offline.pointed import apply_pointed
from koda_ray.roles.offline.project import STATE_PATH, film_files
from koda_ray.roles.offline.understand import Said, parse_brief, understand
from koda_ray.types import Box, Note, Pointed

from .desk import Desk

BALL = 'A bouncing ball, playful, with the caption "Hello there"'
TITLE = 'A title: "Good morning" with the tagline "Rise early"'
SNOW = "A bouncing ball in the snow"
BARS = "A bar chart of monthly sales: Jan 10, Feb 20, Mar 15"
NONE: set[str] = set()
ROCKET = "A rocket flies across the sky"


def note(
    text: str, *, element: str | None = None, component: str | None = None, box: Box | None = None, time: float = 1.0
) -> Note:
    return Note(text=text, time=time, element=element, component=component, box=box)


def after(prompt: str, *notes: Note, words: str = "") -> tuple[Brief, tuple[str, ...]]:
    applied = apply_pointed(parse_brief(prompt), Pointed(change=1, words=words, notes=notes))
    return applied.brief, applied.done


def left(prompt: str, at: Note) -> tuple[str, ...]:
    """Point at something that cannot be so: nothing is changed, and it is said."""
    plain = parse_brief(prompt)
    applied = apply_pointed(plain, Pointed(change=1, notes=(at,)))
    assert (applied.brief, applied.done) == (plain, ())
    return applied.left


def files_of(brief: Brief) -> dict[str, str]:
    return film_files(film_now(brief), until=None)


def moves_of(brief: Brief) -> dict[str, object]:
    """Return the keyframes by Theatre object, and how long the film is as one of them."""
    sheet = json.loads(files_of(brief)[STATE_PATH])["sheetsById"]["Main"]["sequence"]
    return {**sheet["tracksByObject"], "length": sheet["length"]}


def changed_by(prompt: str, at: Note) -> tuple[set[str], set[str]]:
    """Return which files, and whose keyframes, a note changes."""
    plain, (brief, done) = parse_brief(prompt), after(prompt, at)
    assert done
    one, other = files_of(plain), files_of(brief)
    files = {path for path in one.keys() | other.keys() if one.get(path) != other.get(path)}
    before, now = moves_of(plain), moves_of(brief)
    return files - {STATE_PATH}, {name for name in before | now if before.get(name) != now.get(name)}


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
        ("A bouncing ball", None, "Ball", "subject"),
        ("A bouncing ball", None, None, "whole"),
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
        (BALL, note("larger", element="Hello there"), "lettering", 1.3),
        (BALL, note("larger"), "scale", 1.3),
        (BALL, note("twice as fast"), "speed", 2.0),
        (BALL, note("half the speed"), "speed", 0.5),
        (BALL, note("remove this", element="Hello there"), "heading", ""),
        (BALL, note("'Bye'", element="Hello there"), "heading", "Bye"),
        (TITLE, note("should read Good evening", element="Good morning"), "heading", "Good evening"),
        (TITLE, note("'Sleep in'", element="Rise early"), "texts", ("Sleep in",)),
        (TITLE, note("remove", element="Rise early"), "texts", ()),
        (TITLE, note("weg damit", element="Good morning"), "heading", "Rise early"),
        (SNOW, note("no", component="Particles"), "particles", False),
        ("Three bouncing balls", note("remove this one"), "count", 2),
        ("Three bouncing balls", note("remove this one", component="Ball"), "count", 2),
    ],
)
def test_a_note_changes_the_part_that_it_points_at(prompt: str, at: Note, field: str, value: object) -> None:
    brief, done = after(prompt, at)
    assert getattr(brief, field) == value and done


@pytest.mark.parametrize(
    "prompt", [BALL, BALL.replace("playful", "cinematic"), BALL.replace("playful", "smooth"), BARS]
)
def test_a_colour_of_the_subject_is_the_subjects_alone(prompt: str) -> None:
    component = "BarChart" if prompt == BARS else "Ball"
    plain, (brief, done) = parse_brief(prompt), after(prompt, note("red", component=component))
    before, now = film_now(plain), film_now(brief)
    assert done == ("the subject recoloured",)
    assert now.palette.accent == "#E5322D" != before.palette.accent
    for same in ("top", "bottom", "glow", "ink", "muted"):
        assert getattr(now.palette, same) == getattr(before.palette, same)
    assert (now.overlays, now.backlayers, now.score) == (before.overlays, before.backlayers, before.score)
    shown = now.values["bars" if prompt == BARS else "balls"]
    assert "#E5322D" in str(shown) and "#E5322D" not in str(before.values)


@pytest.mark.parametrize(
    ("prompt", "at", "files", "moved"),
    [
        (BALL, note("red", component="Ball"), {"src/theme.ts", "src/scenes/BounceScene.tsx"}, NONE),
        (BALL, note("larger", component="Ball"), {"src/scenes/BounceScene.tsx"}, {"Ball"}),
        (BALL, note("slower", component="Ball"), NONE, {"Ball"}),
        (BALL, note("red", element="Hello there"), {"src/theme.ts"}, NONE),
        (BALL, note("larger", element="Hello there"), {"src/scenes/MainScene.tsx"}, NONE),
        (BALL, note("slower", element="Hello there"), NONE, {"Caption"}),
        (BALL, note("slower", component="Backdrop"), NONE, {"Backdrop"}),
        (SNOW, note("slower", component="Particles"), {"src/scenes/MainScene.tsx"}, NONE),
        (SNOW, note("larger", component="Particles"), {"src/scenes/MainScene.tsx"}, NONE),
        (SNOW, note("red", component="Particles"), {"src/scenes/MainScene.tsx"}, NONE),
        (BARS, note("larger", component="BarChart"), {"src/scenes/BarChartScene.tsx"}, NONE),
        (BARS, note("red", component="Heading", element="Monthly sales"), {"src/theme.ts"}, NONE),
        (BARS, note("larger", component="Heading", element="Monthly sales"), {"src/theme.ts"}, NONE),
        (BARS, note("slower", component="Heading", element="Monthly sales"), NONE, {"Heading"}),
        (BARS, note("remove", component="Heading", element="Monthly sales"), {"src/theme.ts"}, NONE),
        (TITLE, note("red", element="Rise early"), {"src/theme.ts"}, NONE),
        (TITLE, note("larger", element="Rise early"), {"src/theme.ts"}, NONE),
        (TITLE, note("larger", element="Good morning"), {"src/theme.ts"}, NONE),
        (ROCKET, note("slower", component="Hero"), NONE, {"Hero"}),
    ],
)
def test_what_is_pointed_at_changes_and_nothing_else(prompt: str, at: Note, files: set[str], moved: set[str]) -> None:
    assert changed_by(prompt, at) == (files, moved)


def test_a_colour_of_the_backdrop_leaves_the_ball_its_own() -> None:
    plain, (brief, done) = parse_brief(BALL), after(BALL, note("blue", component="Backdrop"))
    before, now = palette_for(plain), palette_for(brief)
    assert done == ("background recoloured",)
    assert now.name == before.name and now.ground != before.ground
    later = apply_pointed(brief, Pointed(change=2, words="a green background", notes=(note("larger"),))).brief
    assert palette_for(later).ground != now.ground


@pytest.mark.parametrize(
    ("prompt", "component", "gone", "stays"),
    [
        (BALL, "Ball", "BounceScene", "Caption"),
        (BARS, "BarChart", "BarChartScene", "Heading"),
        ("A countdown from 5", "Countdown", "CountdownScene", "Backdrop"),
        (ROCKET, "Hero", "JourneyScene", "Scenery"),
        (BALL, "Backdrop", "Backdrop", "BounceScene"),
        ("A cinematic bouncing ball", "Particles", "Particles", "BounceScene"),
        (BALL, "Finish", "Finish", "BounceScene"),
    ],
)
def test_what_is_removed_is_not_drawn_and_all_else_stays(prompt: str, component: str, gone: str, stays: str) -> None:
    plain, (brief, done) = parse_brief(prompt), after(prompt, note("remove this", component=component))
    before, now = (files_of(each)["src/scenes/MainScene.tsx"] for each in (plain, brief))
    assert done and f"<{gone} " in before and f"<{gone} " not in now and f"/{gone}'" not in now
    assert f"<{stays} " in now
    assert (moves_of(plain), brief.duration_s) == (moves_of(brief), plain.duration_s)
    assert files_of(plain)["src/theme.ts"] == files_of(brief)["src/theme.ts"]


@pytest.mark.parametrize(
    ("prompt", "at", "why"),
    [
        (BALL, note("larger", component="Backdrop"), "fills the picture"),
        (BALL, note("'Bye'", component="Ball"), "has no words"),
        (BALL, note("cinematic style", component="Ball"), "whole video"),
        (BALL, note("make it 20 seconds", component="Ball"), "whole video"),
        (BALL, note("more je ne sais quoi", component="Ball"), "whole video"),
        (TITLE, note("slower", element="Rise early"), "no motion of its own"),
    ],
)
def test_what_a_part_cannot_have_is_said_and_nothing_is_changed(prompt: str, at: Note, why: str) -> None:
    (said,) = left(prompt, at)
    assert why in said


def test_without_subject_and_backdrop_nothing_would_be_left() -> None:
    brief, _ = after(BALL, note("remove", component="Ball"))
    applied = apply_pointed(brief, Pointed(change=2, notes=(note("remove", component="Backdrop"),)))
    assert (applied.brief, applied.done) == (brief, ()) and "nothing would be left" in applied.left[0]


@pytest.mark.parametrize(
    ("prompt", "box", "part"),
    [
        (BALL, Box(x=860, y=150, width=200, height=400), "subject"),
        (BALL, Box(x=860, y=560, width=200, height=150), "ground"),
        (BALL, Box(x=700, y=900, width=500, height=120), "heading"),
        (BALL, Box(x=20, y=20, width=300, height=200), "ground"),
        (BALL, Box(x=1500, y=300, width=300, height=200), "ground"),
        (BALL, Box(x=0, y=0, width=1920, height=1080), "whole"),
        (BARS, Box(x=200, y=90, width=600, height=100), "heading"),
        (BARS, Box(x=600, y=500, width=300, height=400), "subject"),
        (TITLE, Box(x=500, y=400, width=900, height=200), "heading"),
    ],
)
def test_a_box_is_about_what_stands_there_at_that_time(prompt: str, box: Box, part: str) -> None:
    assert part_of(parse_brief(prompt), note("x", box=box)) == part


def test_a_box_follows_what_moves() -> None:
    brief = parse_brief(ROCKET)
    film = film_now(brief)
    x, y = (film.score.value("Hero", axis, 0.5) for axis in ("x", "y"))
    box = Box(x=x * 1920 - 100, y=y * 1080 - 100, width=200, height=200)
    assert part_of(brief, note("x", box=box, time=0.5)) == "subject"
    assert part_of(brief, note("x", box=box, time=brief.duration_s - 0.1)) == "ground"


def test_what_is_said_of_the_whole_film_later_holds_for_the_part_too() -> None:
    brief, _ = after(BALL, note("red", component="Ball"))
    later = apply_pointed(brief, Pointed(change=2, words="make it blue", notes=(note("'Bye'", element="Hello there"),)))
    assert film_now(later.brief).palette.accent == "#2563EB"


def test_notes_are_taken_one_after_the_other_with_what_is_said_beside_them() -> None:
    brief, done = after(BALL, note("red"), note("'Bye'", element="Hello there"), words="make it 10 seconds")
    assert (brief.accent, brief.heading, brief.duration_s) == ("#E5322D", "Bye", 10.0)
    assert len(done) == 3


def test_where_nothing_of_it_is_known_all_stays_as_it_is_and_that_is_said() -> None:
    for at in (note("more je ne sais quoi"), note("more je ne sais quoi", component="Ball")):
        (why,) = left(BALL, at)
        assert "found nothing in “more je ne sais quoi”" in why and "faster" in why
    words = apply_pointed(parse_brief(BALL), Pointed(change=1, words="more of it", notes=(note("red"),)))
    assert len(words.done) == 1 and [why for why in words.left if "“more of it”" in why]


def test_of_several_notes_those_that_are_known_are_done_and_the_others_named() -> None:
    notes = note("more je ne sais quoi"), note("red", component="Ball"), note("sadder", element="Hello there")
    applied = apply_pointed(parse_brief(BALL), Pointed(change=1, notes=notes))
    assert applied.brief.look("subject").colour == "#E5322D" and applied.done == ("the subject recoloured",)
    first, second = applied.left
    assert "“more je ne sais quoi”" in first and "“sadder”" in second


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


async def test_the_director_says_what_it_leaves_as_it_is() -> None:
    desk = Desk(BALL)
    await desk.run()
    before = dict(desk.files)
    desk.change("", note("larger", component="Backdrop"))
    await desk.run()
    assert "fills the picture" in desk.calls("send_message")[-1]["content"]
    assert desk.files == before


@pytest.mark.parametrize("component", ["Ball", None])
async def test_a_note_that_is_not_understood_makes_no_version(component: str | None) -> None:
    desk = Desk(BALL)
    await desk.run()
    desk.change("", note("flurble the gnarf", component=component))
    await desk.run()
    said = desk.calls("send_message")[-1]["content"]
    assert "“flurble the gnarf”" in said and "bigger" in said
    assert len(desk.shown) == 1 and desk.node.phase == "preview"
    assert "no new version" in desk.said[-1]
    assert desk.calls("set_todos")[-1]["todos"][0]["label"] == "Nothing to change for: flurble the gnarf"
    desk.change("", note("flurble the gnarf", component=component), note("red", component="Ball"))
    await desk.run()
    said = desk.calls("send_message")[-1]["content"]
    assert "the subject recoloured" in said and "“flurble the gnarf”" in said
    assert len(desk.shown) == 2 and desk.said[-1].startswith("The preview is ready")
