"""What the director hears in a prompt: tables of real inputs, and odd ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koda_ray.roles.offline import make_plan, parse_brief
from koda_ray.roles.offline.charting import Figures
from koda_ray.roles.offline.subject import own_brief
from koda_ray.roles.offline.subjects.card import Offer
from koda_ray.roles.offline.subjects.countdown import Count, pace_of
from koda_ray.roles.offline.subjects.kinetic import Phrases
from koda_ray.roles.offline.subjects.steps import Listed
from koda_ray.types import MAX_DURATION_S, MIN_SCENE_S

SUBJECTS = [
    ("Create a bouncing ball animation", "ball"),
    ("three red balls bouncing", "ball"),
    ("赤いボールが3つ跳ねる", "ball"),
    ("smooth minimal logo reveal for Acme, 6 seconds", "logo"),
    ("Animate my logo", "logo"),
    ("cinematic title 'The Long Night' with particles", "title"),
    ("“Hello World” in gold letters", "title"),
    ("タイトル「夏の思い出」", "title"),
    ("bar chart of 12, 30, 45, 70 growing, blue, 8s", "bars"),
    ("a graph of 3, 5 and 9", "bars"),
    ("棒グラフ 10、20、30", "bars"),
    ("line chart of revenue: Jan 10, Feb 20, Mar 35", "line"),
    ("a chart of the stock price over time", "line"),
    ("pie chart: Apples 40%, Pears 35%, Plums 25%", "pie"),
    ("count down from 5", "countdown"),
    ("10 second countdown", "countdown"),
    ("5からカウントダウン", "countdown"),
    ("the quarterly roadmap in three steps", "steps"),
    ("checklist: eggs, milk, bread", "steps"),
    ("1. Mix\n2. Bake\n3. Eat", "kinetic"),
    ("product card for Aurora Headphones, $199", "card"),
    ("planets orbiting a sun", "orbit"),
    ("electrons circling an atom", "orbit"),
    ("a paper plane crossing the picture", "hero"),
    ("紙飛行機が空を横切る", "hero"),
    ("a rocket launching into space", "hero"),
    ("a cat running across the screen", "hero"),
    ("夜空に花火が上がる, スムーズに", "particles"),
    ("gentle snow falling", "particles"),
    ("confetti!", "particles"),
    ("four red cubes spinning", "shapes"),
    ("abstract geometric shapes", "shapes"),
    ("Create a video about the joy of coffee in the morning", "kinetic"),
    ("Less is more.", "kinetic"),
    ("", "kinetic"),
    ("🎉🎉", "kinetic"),
    ("a two-hour film", "title"),
]


@pytest.mark.parametrize(("prompt", "subject"), SUBJECTS)
def test_the_subject_is_the_most_specific_thing_named(prompt: str, subject: str) -> None:
    assert parse_brief(prompt).subject == subject


STYLES = [
    ("Create a bouncing ball animation", "playful", "unknown"),
    ("Create a bouncing ball animation, playful", "playful", "explicit"),
    ("a bouncy ball", "playful", "explicit"),
    ("smooth minimal logo reveal for Acme", "smooth", "explicit"),
    ("logo reveal for Acme", "smooth", "unknown"),
    ("cinematic title 'X'", "cinematic", "explicit"),
    ("title 'X'", "cinematic", "unknown"),
    ("bar chart of 1, 2", "smooth", "inferred"),
    ("count down from 5", "playful", "inferred"),
    ("planets orbiting", "cinematic", "inferred"),
    ("the quarterly roadmap in three steps", "smooth", "inferred"),
    ("夜空に花火が上がる, スムーズに", "smooth", "explicit"),
    ("花火", "cinematic", "inferred"),
    ("ball bounces 3 times with easeOutBack, squash on landing", "playful", "explicit"),
]


@pytest.mark.parametrize(("prompt", "style", "heard"), STYLES)
def test_the_style_is_heard_inferred_or_open(prompt: str, style: str, heard: str) -> None:
    brief = parse_brief(prompt)
    assert (brief.style, brief.style_heard) == (style, heard)


LENGTHS = [
    ("ball 6 seconds", 6),
    ("ball, 8s", 8),
    ("ball for half a minute", 30),
    ("ball, a minute", 60),
    ("ball, 1 minute 30 seconds", 90),
    ("ball in 2.5 sec", 2.5),
    ("ball 0:45 long", 45),
    ("ball, twenty seconds", 20),
    ("ボール 10秒", 10),
    ("ein roter Ball, 4 Sekunden", 4),
    ("une balle, 4 secondes", 4),
    ("una pelota, 4 segundos", 4),
    ("una palla, 1 minuto", 60),
    ("ball, 0.2 seconds", MIN_SCENE_S),
    ("ball, -5 seconds", 5),
    ("ball, 0 seconds", 5),
    ("ball bouncing every 2 seconds", 5),
    ("a two-hour ball film", MAX_DURATION_S),
    ("count down from 5", 7),
    ("count down from 5 seconds", 7),
    ("count down from 10 in 5 seconds", 5),
    ("count down from 100", 22),
    ("10 second countdown from 20", 10),
    ("8s count down from 5", 8),
    ("10-second video with a countdown from 3", 10),
    ("10 second countdown", 12),
    ("ten seconds countdown", 12),
    ("slow count down from 5", 9.5),
    ("count down from 1000000", 32),
]


@pytest.mark.parametrize(("prompt", "seconds"), LENGTHS)
def test_the_length_is_what_was_said_or_suits_the_subject(prompt: str, seconds: float) -> None:
    assert parse_brief(prompt).duration_s == seconds


FORMATS = [
    ("ball for TikTok", (1080, 1920)),
    ("vertical ball video", (1080, 1920)),
    ("an instagram story with a ball", (1080, 1920)),
    ("ball, square", (1080, 1080)),
    ("ball in square format", (1080, 1080)),
    ("four squares dancing", (1920, 1080)),
    ("a story about a dog", (1920, 1080)),
    ("a portrait of my grandmother in words", (1920, 1080)),
    ("ball 9:16", (1080, 1920)),
    ("ball 4:5", (1080, 1350)),
    ("ball on youtube", (1920, 1080)),
    ("縦型のボール動画", (1080, 1920)),
]


@pytest.mark.parametrize(("prompt", "size"), FORMATS)
def test_the_format_follows_the_platform_and_not_a_word_that_looks_like_one(prompt: str, size: tuple[int, int]) -> None:
    brief = parse_brief(prompt)
    assert (brief.width, brief.height) == size


@pytest.mark.parametrize(
    ("prompt", "values", "labels"),
    [
        ("bar chart of 12, 30, 45, 70 growing, blue, 8s", [12, 30, 45, 70], ["", "", "", ""]),
        ("bar chart of 12, 30 and 45", [12, 30, 45], ["", "", ""]),
        ("bar chart: 1,200, 3,400", [1200, 3400], ["", ""]),
        ("bar chart Q1: 10, Q2: 20, Q3: 15", [10, 20, 15], ["Q1", "Q2", "Q3"]),
        ("bar chart of Apples 3, Pears 5 and Plums 2.5", [3, 5, 2.5], ["Apples", "Pears", "Plums"]),
        ("bar chart of profit: 2023 -4, 2024 8", [-4, 8], ["2023", "2024"]),
        ("pie chart\nRed 10\nBlue 20", [10, 20], ["Red", "Blue"]),
        ("棒グラフ 10、20、30", [10, 20, 30], ["", "", ""]),
    ],
)
def test_figures_and_labels_are_read(prompt: str, values: list[float], labels: list[str]) -> None:
    data = own_brief(parse_brief(prompt), Figures).data
    assert [d.value for d in data] == values
    assert [d.label for d in data] == labels


def test_a_chart_without_figures_says_that_its_values_are_samples() -> None:
    brief = parse_brief("bar chart of our sales")
    assert own_brief(brief, Figures).sample
    assert any("sample" in note for note in brief.notes)


def test_what_does_not_fit_is_left_out_and_said() -> None:
    many = parse_brief("bar chart of " + ", ".join(str(n) for n in range(1, 40)))
    assert len(own_brief(many, Figures).data) == 12
    assert any("27 further figures" in note for note in many.notes)
    crowd = parse_brief("100000 balls")
    assert crowd.count == 9
    assert any("100000" in note for note in crowd.notes)
    assert parse_brief("0 balls").count is None
    negative = parse_brief("pie chart: A 10, B -5, C 20")
    assert [d.value for d in own_brief(negative, Figures).data] == [10, 20]
    assert own_brief(parse_brief("bar chart of 99999999999999999, 3, 4"), Figures).data[0].value == 3


def test_names_prices_texts_and_steps_are_found() -> None:
    card = parse_brief("product card for Aurora Headphones, $199")
    assert (card.heading, own_brief(card, Offer).price) == ("Aurora Headphones", "$199")
    assert parse_brief("smooth minimal logo reveal for Acme, 6 seconds").heading == "Acme"
    assert parse_brief("the Globex logo, playful").heading == "Globex"
    assert parse_brief("title 'It's late', cinematic").heading == "It's late"
    assert parse_brief("A title that flies in: Good morning").heading == "Good morning"
    assert parse_brief("A headline rising from below: Good morning").heading == "Good morning"
    assert parse_brief("title “Eins” with subtitle “Zwei”").texts == ("Zwei",)
    tall = parse_brief("TikTok: steps: Plan, Build, Launch, playful")
    assert own_brief(tall, Listed).steps == ("Plan", "Build", "Launch")
    roadmap = own_brief(parse_brief("the quarterly roadmap in three steps"), Listed)
    assert (len(roadmap.steps), roadmap.kickers) == (3, ("Q1", "Q2", "Q3"))
    assert own_brief(parse_brief("a list in 5 steps"), Listed).steps[0] == "Discover"


def test_colours_count_direction_and_speed_are_found() -> None:
    brief = parse_brief("three red balls on a yellow background, fast, from right to left")
    assert brief.accent == "#E5322D"
    assert brief.background == "#FFCF24"
    assert (brief.count, brief.direction, brief.speed) == (3, "left", 1.5)
    assert parse_brief("ball #0af").accent == "#00AAFF"
    assert parse_brief("sky blue ball").colours == ("#4AA8FF",)
    assert parse_brief("青い背景の赤いボール").background is not None


def test_an_uploaded_picture_is_what_moves() -> None:
    asset = {"id": "ast_1", "name": "cat.jpg", "mediaType": "image/jpeg", "path": "public/assets/ast_1.jpg"}
    brief = parse_brief("animate this", assets=[asset])
    assert (brief.subject, brief.image) == ("image", "/assets/ast_1.jpg")
    assert parse_brief("logo reveal for Acme", assets=[asset]).subject == "logo"
    film = {"id": "ast_2", "name": "cat.mp4", "mediaType": "video/mp4", "path": "public/assets/ast_2.mp4"}
    brief = parse_brief("animate this", assets=[film])
    assert (brief.subject, brief.image, brief.still) == ("image", "/assets/ast_2.mp4", None)
    brief = parse_brief("animate this", assets=[film, asset])
    assert brief.image == brief.still == "/assets/ast_1.jpg"
    assert any("No picture" in note for note in parse_brief("animate my photo").notes)


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("a two-hour film", "too_long"),
        ("10 hours of rain", "too_long"),
        ("ball for 301 seconds", "too_long"),
        ("a feature-length epic", "too_long"),
        ("live action chase through Paris", "live_action"),
        ("make a playable video game", "interactive"),
        ("ball for 300 seconds", None),
        ("a trailer for my video game", None),
    ],
)
def test_what_cannot_be_made_is_known(prompt: str, why: str | None) -> None:
    assert parse_brief(prompt).impossible == why


def test_a_prompt_of_20_000_characters_is_shown_in_its_telling_sentences() -> None:
    prompt = ("The machine draws circles. People watch the machine draw. Rain falls on the town. " * 400)[:20_000]
    brief = parse_brief(prompt)
    assert brief.subject == "kinetic"
    assert 1 <= len(own_brief(brief, Phrases).words) <= 12
    assert brief.duration_s <= 24
    assert any("longer" in note for note in brief.notes)


def test_only_what_is_to_be_seen_becomes_words() -> None:
    good = parse_brief("Good design is invisible, smooth, 8 seconds, for TikTok")
    assert own_brief(good, Phrases).words == ("Good design is invisible",)
    assert own_brief(parse_brief("春の京都をめぐる静かな旅、滑らかに"), Phrases).words == ("春の京都をめぐる静かな旅",)


@settings(deadline=None)
@given(st.text(max_size=400), st.lists(st.text(max_size=60), max_size=3))
def test_every_text_gives_a_brief_that_can_be_made(prompt: str, feedback: list[str]) -> None:
    brief = parse_brief(prompt, feedback=feedback)
    assert MIN_SCENE_S <= brief.duration_s <= MAX_DURATION_S
    assert brief == parse_brief(prompt, feedback=feedback)
    assert brief.subject != "kinetic" or own_brief(brief, Phrases).words


def test_options_win_over_the_prompt() -> None:
    brief = parse_brief("ball for 9 seconds", options={"duration": 4.0, "aspect": "1:1", "fps": 30})
    assert (brief.duration_s, brief.width, brief.height, brief.fps) == (4.0, 1080, 1080, 30)
    assert parse_brief("ball", options={"duration": -1, "fps": 9999, "aspect": "7:3"}).duration_s == 5


@pytest.mark.parametrize(
    ("prompt", "start", "said"),
    [
        ("10 second countdown from 20", 20, "to fit into 10 s: 0.43 s each"),
        ("countdown from 100", 100, "For a second each, ask for 102 seconds"),
        ("countdown from 10 in 5 seconds", 10, "to fit into 5 s: 0.41 s each"),
        ("countdown from 200 in 10 seconds", 200, "in steps of 3, 0.13 s each, and ends on 1"),
        ("20 second countdown from 10", 10, "its end stands for the rest of the 20 s"),
        ("10 second countdown", 10, "its end takes two more"),
        ("countdown from 1000000", 9999, "1000000 is more than can be counted here"),
        ("countdown from 3 to 8", 8, "it counts from 8 to 3"),
        ("count down from 5", 5, ""),
        ("slow count down from 5", 5, ""),
        ("8s count down from 5", 5, ""),
    ],
)
def test_a_count_that_does_not_run_by_the_second_says_so(prompt: str, start: int, said: str) -> None:
    brief = parse_brief(prompt)
    notes = make_plan(brief).notes
    assert own_brief(brief, Count).start == start
    assert said in notes
    assert bool(notes) == bool(said)


def test_a_count_keeps_its_note_true_when_its_length_changes() -> None:
    assert make_plan(parse_brief("countdown from 10 in 5 seconds", feedback=["make it 12 seconds"])).notes == ""
    assert "0.26 s each" in make_plan(parse_brief("countdown from 10", options={"duration": 3.2})).notes


@settings(deadline=None)
@given(st.integers(1, 9999), st.integers(0, 9999), st.floats(1.5, 300))
def test_every_count_begins_and_ends_on_its_numbers_within_the_film(start: int, stop: int, seconds: float) -> None:
    brief = parse_brief(f"count down from {start} to {stop}", options={"duration": seconds})
    pace, count = pace_of(brief, brief.duration_s), own_brief(brief, Count)
    assert (pace.values[0], pace.values[-1]) == (count.start, count.stop)
    assert list(pace.values) == sorted(set(pace.values), reverse=True)
    assert 0.09 < pace.beat_s <= 1
    assert pace.beat_s * len(pace.values) < brief.duration_s
    assert (pace.step > 1) == (len(pace.values) < count.start - count.stop + 1)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("a ball, red and not red", "I take “red”"),
        ("a ball that is not red but red", "I take “red”"),
        ("something calm and frantic", "the style decides"),
        ("a fast and slow ball", "“Fast” and “slow” cancel each other"),
        ("a ball, big but also tiny", "“Big” and “small” cancel each other"),
        ("playful yet serious logo for Acme", "Two styles are named"),
        ("速くてゆっくり跳ねるボール", "“Fast” and “slow” cancel each other"),
    ],
)
def test_a_prompt_that_contradicts_itself_says_how_it_is_read(prompt: str, said: str) -> None:
    brief = parse_brief(prompt)
    assert said in make_plan(brief).notes
    assert (brief.speed, brief.scale) == (1.0, 1.0)


@pytest.mark.parametrize(
    "prompt",
    [
        "a fast car passes a slow truck",
        "title 'Fast and slow'",
        "not playful but cinematic ball",
        "smooth minimal logo reveal for Acme, 6 seconds",
        "a big ball and three small cubes",
        "red ball, not too fast",
    ],
)
def test_opposites_of_different_things_are_no_contradiction(prompt: str) -> None:
    assert "each other" not in make_plan(parse_brief(prompt)).notes
    assert "Two styles" not in make_plan(parse_brief(prompt)).notes


def test_what_is_not_wanted_is_not_taken_for_a_wish() -> None:
    assert parse_brief("a ball, not red").accent is None
    assert parse_brief("a ball, not too fast").speed == 1.0
    assert parse_brief("a ball, not playful but cinematic").style == "cinematic"
