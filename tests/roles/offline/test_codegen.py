"""The files of a film: whole, deterministic, minimal in change, complete at every step."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koda_ray.errors import ModelError
from koda_ray.roles.offline import generate_files, make_plan, parse_brief
from koda_ray.roles.offline.charting import series
from koda_ray.roles.offline.codegen import answer_request, course_of, film_of, plan_in
from koda_ray.roles.offline.colour import contrast, to_oklch
from koda_ray.roles.offline.colouring import palette_for
from koda_ray.roles.offline.film import Film
from koda_ray.roles.offline.motion import EASINGS, Score
from koda_ray.types import MAX_TAKES
from tests import tiers
from tests.roles.offline.prompts import PROMPTS

BALL = "Create a bouncing ball animation, playful"


def request(prompt: str = BALL, task: str = "create_component", **more: Any) -> dict[str, Any]:
    plan = make_plan(parse_brief(prompt)).model_dump(mode="json", by_alias=True)
    return {"task": task, "prompt": prompt, "plan": plan, "feedback": [], "assets": [], "files": {}, **more}


def filmed(request: dict[str, Any]) -> Film:
    return film_of(course_of(request), plan_in(request))


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS.keys())
def test_every_subject_gives_whole_files_and_the_same_ones_again(prompt: str) -> None:
    files = generate_files(request(prompt))
    assert files == generate_files(request(prompt))
    assert {"src/App.tsx", "src/theme.ts", "src/theatre/project.ts", "src/theatre/state.json"} <= set(files)
    for path, text in files.items():
        assert not re.search(r"__[A-Z_]+__", text.replace("__debugName", "")), path
        assert text.endswith("\n"), path


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS.keys())
def test_imports_resolve_at_every_step_of_the_plan(prompt: str) -> None:
    plan = make_plan(parse_brief(prompt))
    files: dict[str, str] = {}
    steps = [{"task": "initial_setup"}]
    steps += [{"task": "create_scene", "scene": scene.number} for scene in plan.scenes]
    steps += [{"task": "create_component", "name": "Finish"}]
    for step in steps:
        made = generate_files({**request(prompt), **step, "files": files})
        assert made
        files |= made
        for path, text in files.items():
            for target in re.findall(r"from '(\.[^']+)'", text):
                assert _resolves(path, target, files), f"{path} imports {target} after {step}"
    assert files == generate_files(request(prompt))


def _resolves(path: str, target: str, files: dict[str, str]) -> bool:
    parts = path.split("/")[:-1]
    for piece in target.split("/"):
        if piece == "..":
            parts.pop()
        elif piece != ".":
            parts.append(piece)
    name = "/".join(parts)
    runtime = name.startswith(("src/koda/", "src/hooks/", "src/utils/"))
    return runtime or any(f"{name}{end}" in files for end in ("", ".ts", ".tsx"))


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS.keys())
def test_the_theatre_state_is_well_formed_and_its_objects_are_read(prompt: str) -> None:
    files = generate_files(request(prompt))
    sequence = json.loads(files["src/theatre/state.json"])["sheetsById"]["Main"]["sequence"]
    code = "".join(text for path, text in files.items() if path.endswith((".ts", ".tsx")))
    assert sequence["length"] == parse_brief(prompt).duration_s
    for name, tracks in sequence["tracksByObject"].items():
        assert f"'{name}'" in code, f"nothing reads the Theatre object {name}"
        for prop, track in tracks["trackIdByPropPath"].items():
            assert re.search(rf"\b{json.loads(prop)[0]}\b", code)
            frames = tracks["trackData"][track]["keyframes"]
            times = [frame["position"] for frame in frames]
            assert times == sorted(set(times)), f"{name}{prop}"
            for frame in frames:
                x1, _, x2, _ = frame["handles"]
                assert 0 <= x1 <= 1
                assert 0 <= x2 <= 1


def test_spaces_and_case_make_no_other_film() -> None:
    files = generate_files(request(BALL))
    spaced = generate_files(request("  Create a  bouncing BALL animation, playful "))
    assert spaced == files


def test_a_few_other_words_give_another_look() -> None:
    """The words pick palette and composition: twelve prompts of one subject share few of them."""
    films = [generate_files(request(f"bouncing ball number {n}, playful")) for n in range(12)]
    looks = {files["src/theme.ts"] + files["src/scenes/MainScene.tsx"] for files in films}
    assert len(looks) >= 9


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS.keys())
def test_takes_of_one_prompt_look_different_and_each_the_same_again(prompt: str) -> None:
    films = [generate_files(request(prompt, options={"take": take})) for take in range(1, MAX_TAKES + 1)]
    looks = {files["src/theme.ts"] + files["src/scenes/MainScene.tsx"] for files in films}
    assert len(looks) >= 3
    assert films[2] == generate_files(request(prompt, options={"take": 3}))


@pytest.mark.parametrize("prompt", ["charcoal logo for Acme with particles", "black title 'Acme' with particles"])
def test_a_colour_that_leaves_but_its_shades_beside_it_still_makes_dust(prompt: str) -> None:
    assert "<Particles" in generate_files(request(f"{prompt}, smooth"))["src/scenes/MainScene.tsx"]


@pytest.mark.parametrize("style", ["playful", "smooth", "cinematic"])
@pytest.mark.parametrize(
    "prompt",
    ["three blue balloons", "five white balloons", "six red cars", "orange planets orbit", "a green pie of 1, 2, 3, 4"],
)
def test_a_colour_that_is_asked_for_holds_for_all_that_there_is_of_a_thing(prompt: str, style: str) -> None:
    brief = parse_brief(f"{prompt}, {style}")
    assert brief.accent is not None
    shown = palette_for(brief).colours
    _, chroma, hue = to_oklch(brief.accent)
    for colour in (*shown, *series(brief, palette_for(brief), 4)):
        _, own_chroma, own_hue = to_oklch(colour)
        assert own_chroma < 0.03 if chroma < 0.03 else abs((own_hue - hue + 180) % 360 - 180) < 10, (colour, shown)
    assert len(set(shown)) >= 3, "told apart by their shades"


def test_two_colours_that_are_asked_for_alternate_and_no_third_comes() -> None:
    red, blue = (to_oklch(colour)[2] for colour in palette_for(parse_brief("five red and blue balls")).colours[:2])
    for i, colour in enumerate(palette_for(parse_brief("five red and blue balls")).colours):
        assert abs((to_oklch(colour)[2] - (red, blue)[i % 2] + 180) % 360 - 180) < 12


@pytest.mark.parametrize("colours", ["dark blue and gold", "gold and navy"])
def test_the_dark_one_of_two_colours_lies_below_the_words(colours: str) -> None:
    palette = palette_for(parse_brief(f"cinematic title 'The Last Voyage', {colours}"))
    assert 250 < to_oklch(palette.ground)[2] < 290 and to_oklch(palette.ground)[1] > 0.05  # blue
    assert 60 < to_oklch(palette.accent)[2] < 100 and contrast(palette.accent, palette.ground) > 3  # gold
    assert contrast(palette.ink, palette.ground) > 4.5


@pytest.mark.parametrize(
    ("prompt", "change", "paths"),
    [
        (BALL, "make the ball red", {"src/theme.ts", "src/scenes/BounceScene.tsx"}),
        (BALL, "twice as fast", {"src/theatre/state.json"}),
        (BALL, "blue background", {"src/theme.ts"}),
        (BALL, "no shadow", {"src/scenes/BounceScene.tsx"}),
        ("cinematic title 'Now'", "say 'Then' instead", {"src/scenes/TitleScene.tsx", "src/theatre/state.json"}),
        ("bar chart of 1, 2, 3", "use 3, 2, 1", {"src/scenes/BarChartScene.tsx"}),
        ("smooth logo for Acme", "serif font", {"src/theme.ts"}),
    ],
)
def test_a_change_returns_only_what_differs(prompt: str, change: str, paths: set[str]) -> None:
    files = generate_files(request(prompt))
    changed = generate_files(request(prompt, "modify_existing", feedback=[change], change=change, files=files))
    assert set(changed) == paths


THEME, LENGTH, KEYS = "src/theme.ts", "src/theatre/project.ts", "src/theatre/state.json"


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS.keys())
@pytest.mark.parametrize(
    ("change", "must", "never"),
    [
        ("make it red", {THEME}, {LENGTH}),
        ("twice as fast", set[str](), {THEME, LENGTH}),
        ("bigger", set[str](), {THEME, LENGTH}),
        ("xyzzy", set[str](), {LENGTH, KEYS}),
        ("10 seconds", {LENGTH, KEYS}, {THEME}),
        ("make it cinematic", {THEME}, {LENGTH}),
    ],
)
def test_every_subject_takes_every_kind_of_change_and_keeps_what_it_is_not_about(
    prompt: str, change: str, must: set[str], never: set[str]
) -> None:
    files = generate_files(request(prompt))
    changed = generate_files(request(prompt, "modify_existing", feedback=[change], files=files))
    if change == "make it red" and "red" in prompt.split():
        assert changed == {}
        return
    assert changed and must <= changed.keys() and never.isdisjoint(changed)
    assert all(files.get(path) != text for path, text in changed.items())


def test_a_persons_own_keyframes_survive_a_change_that_does_not_concern_them() -> None:
    files = generate_files(request())
    edited = {
        **files,
        "src/theatre/state.json": files["src/theatre/state.json"].replace('"position": 0.0', '"position": 0.01'),
    }
    changed = generate_files(request(task="modify_existing", feedback=["make the ball red"], files=edited))
    assert "src/theatre/state.json" not in changed
    assert "src/theme.ts" in changed


def test_what_a_request_is_described_as_changes_nothing() -> None:
    """Length, size and rate come from the plan and the changes, never out of a sentence."""
    plain = generate_files(request())
    assert generate_files(request(description="9 s, 1080x1920, 24 fps, Cinematic & dramatic")) == plain


def test_curves_that_were_agreed_with_the_plan_leave_the_style_alone() -> None:
    """The plan says "Playful & bouncy, smooth curves"; the code hears of the curves where they were asked for."""
    plan = make_plan(parse_brief(BALL, feedback=["faster but also smoother"])).model_dump(mode="json", by_alias=True)
    assert plan["style"] == "Playful & bouncy, smooth curves"
    film = filmed(request(plan=plan, feedback=["faster but also smoother"], style=plan["style"]))
    assert (film.brief.style, film.brief.easing) == ("playful", "smooth")


def test_a_change_of_the_height_alone_is_followed() -> None:
    film = filmed(request("bouncing ball, square", feedback=["make it vertical"]))
    assert (film.brief.width, film.brief.height) == (1080, 1920)


def test_a_thing_that_climbs_stands_clear_of_the_film_bars_from_the_first_frame() -> None:
    film = filmed(request("a rocket launching into space, cinematic"))
    half = film.values["heroes"][0]["size"] / 2 / film.brief.height  # type: ignore[index]
    heights = [key.v for key in film.score.tracks["Hero"]["y"]]
    assert film.framing.bars > 0
    assert all(film.framing.bars < y - half * 0.75 and y + half < 1 - film.framing.bars for y in heights)


def test_settings_of_the_request_hold_at_every_step() -> None:
    options = {"duration": 7.0, "aspect": "9:16", "fps": 30}
    plan = make_plan(parse_brief(BALL, options=options)).model_dump(mode="json", by_alias=True)
    film = filmed(request(plan=plan, options=options, feedback=["twice as long"], task="create_scene", scene=1))
    assert (film.timing.total, film.brief.width, film.brief.fps) == (14.0, 1080, 30)


def test_longer_means_longer_scenes_and_the_pace_stays() -> None:
    short = filmed(request())
    long = filmed(request(feedback=["make it 10 seconds"]))
    assert long.timing.total == 10
    assert len(long.score.tracks["Ball"]["height"]) > len(short.score.tracks["Ball"]["height"]) + 4


def test_arcs_are_parabolas() -> None:
    """Height against time of the keyframed ball is a parabola: constant second difference between two contacts."""
    score = filmed(request()).score
    contacts = [k.t for k in score.tracks["Ball"]["height"] if k.v == 0]
    first, second = contacts[0], contacts[1]
    step = (second - first) / 16
    heights = [score.value("Ball", "height", first + n * step) for n in range(17)]
    bends = [heights[n - 1] - 2 * heights[n] + heights[n + 1] for n in range(1, 16)]
    assert max(bends) - min(bends) < abs(bends[0]) * 0.02
    assert max(bends) < 0


def test_twice_as_fast_halves_the_period_of_the_arcs() -> None:
    def period(feedback: list[str]) -> float:
        contacts = [k.t for k in filmed(request(feedback=feedback)).score.tracks["Ball"]["height"] if k.v == 0]
        return contacts[1] - contacts[0]

    assert period(["twice as fast"]) == pytest.approx(period([]) / 2, rel=0.001)


def test_a_fast_count_is_never_empty_and_does_not_flash() -> None:
    film = filmed(request("countdown from 100"))
    count = cast("dict[str, Any]", film.values["countdown"])["numbers"]
    assert [number["text"] for number in count] == [str(n) for n in range(100, 0, -1)]
    assert {number["ground"] for number in count} == {None}, "a ground that changes five times a second flashes"
    alone = frame = 0
    for frame in range(round((film.timing.total - 2) * 60)):
        seen = [
            number["text"]
            for number in count
            if film.score.value(number["name"], "enter", frame / 60) > 0.5
            and film.score.value(number["name"], "leave", frame / 60) < 0.5
        ]
        assert seen, f"nothing stands at {frame / 60:.3f} s"
        alone += len(seen) == 1
    assert alone / (frame + 1) > 0.99


def test_where_time_is_short_the_last_key_counts() -> None:
    score = Score()
    score.add("Ball", "x", [(0.0, 0), (1.0, 5), (0.5, 1)])
    assert [(k.t, k.v) for k in score.tracks["Ball"]["x"]] == [(0.0, 0), (1.0, 1)]
    assert all(0 <= x1 <= 1 and 0 <= x2 <= 1 for x1, _, x2, _ in EASINGS.values())


def test_what_is_no_request_is_refused() -> None:
    for text in ("", "[]", "{}", '{"task": "paint"}', '{"task": "initial_setup", "plan": {"scenes": []}}'):
        with pytest.raises(ModelError):
            answer_request(text)


def test_hostile_words_stay_words() -> None:
    nasty = "title '</script>${process.exit()}`\\u2028__MOOD__' cinematic"
    files = generate_files(request(nasty))
    line = next(part for part in files["src/scenes/TitleScene.tsx"].splitlines() if "text:" in part)
    assert r"{ text: '</script>${process.exit()}`\\u2028__MOOD__', " in line, "one string, which nothing ends early"


@settings(deadline=None, max_examples=tiers.examples(60))
@given(
    st.lists(
        st.sampled_from([*" ".join(PROMPTS.values()).split(), "9", "0.1", "seconds", "-1", "🎈", "『", "%"]), max_size=9
    ),
    st.lists(
        st.sampled_from(["faster", "10x as fast", "1.5 seconds", "300 seconds", "nine balls", "tiny", "vertical"]),
        max_size=3,
    ),
    st.floats(1.5, 300),
)
def test_any_words_make_a_film(words: list[str], feedback: list[str], seconds: float) -> None:
    prompt = " ".join(words)
    plan = make_plan(parse_brief(prompt, options={"duration": seconds})).model_dump(mode="json", by_alias=True)
    files = generate_files({"task": "create_component", "prompt": prompt, "plan": plan, "feedback": feedback})
    state = json.loads(files["src/theatre/state.json"])
    for tracks in state["sheetsById"]["Main"]["sequence"]["tracksByObject"].values():
        for track in tracks["trackData"].values():
            times = [frame["position"] for frame in track["keyframes"]]
            assert times == sorted(set(times))
