"""What is asked for by pointing, in the words that agents hear."""

from __future__ import annotations

from koda_ray.pointing import in_words
from koda_ray.types import Box, Note, Plan, Scene

PLAN = Plan(
    scenes=(
        Scene(number=1, title="Drop in", duration=1.5, description="It falls"),
        Scene(number=2, title="Bounce", duration=3.5, description="It bounces"),
    ),
    total_duration=5.0,
    style="playful",
)


def test_each_note_says_when_where_what_is_there_and_what_to_do() -> None:
    ball = Note(
        text=" make it red ",
        time=2.35,
        frame=141,
        box=Box(x=612.4, y=300, width=288, height=220),
        element="Good\n morning",
        component="Title",
        source="src/components/Title.tsx:12",
    )
    rest = Note(text="slower here", time=1.5, until=4)
    assert in_words("Nearly.", (ball, rest), PLAN).splitlines() == [
        "Nearly.",
        '1. At 2.35 s, frame 141, scene 2 Bounce, "Good morning" Title in src/components/Title.tsx:12 '
        "(x 612, y 300, 288 x 220 of 1920 x 1080 pixels): make it red",
        "2. At 1.50 s to 4.00 s, scene 2 Bounce, the whole picture: slower here",
    ]


def test_words_alone_stay_as_they_are() -> None:
    assert in_words("make it red\nand round", (), PLAN) == "make it red\nand round"
    assert in_words("", (Note(text="red", time=9),), None) == "1. At 9.00 s, the whole picture: red"
