"""What goes together in a video's format: the renderer and a session's request refuse the same, in the same words."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from pydantic import ValidationError

from koda_ray.actors.work import final_spec
from koda_ray.errors import InvalidInput
from koda_ray.render.spec import RenderSpec
from koda_ray.types import FinalFormat, NodeState, RenderOptions
from koda_ray.video_formats import VideoFormat, why_not

BUNDLE = "a" * 64
SHOWN = RenderSpec.from_preset("preview", bundle=BUNDLE, duration_s=2.0)


@pytest.mark.parametrize("form", get_args(VideoFormat))
@pytest.mark.parametrize(("fps", "alpha"), [(30, False), (60, False), (30, True), (60, True)])
def test_a_renderer_refuses_what_there_is_not(form: VideoFormat, fps: int, alpha: bool) -> None:
    why = why_not(form, fps=fps, alpha=alpha)
    try:
        spec = RenderSpec(bundle=BUNDLE, duration_s=1, width=160, height=90, fps=fps, format=form, alpha=alpha)  # type: ignore[arg-type]
    except InvalidInput as error:
        assert error.message == why
    else:
        assert why is None and (spec.format, spec.alpha) == (form, alpha)


@pytest.mark.parametrize("form", get_args(FinalFormat))
@pytest.mark.parametrize("alpha", [False, True])
def test_a_final_is_what_was_asked_for_or_refused_with_the_way_out(form: FinalFormat, alpha: bool) -> None:
    if form == "mp4" and alpha:
        with pytest.raises(ValidationError, match=r"mp4 cannot be transparent: choose webm, mov or gif "):
            RenderOptions(format=form, transparent=alpha)
        return
    options = RenderOptions(format=form, transparent=alpha)
    spec = final_spec(options, BUNDLE, replace(SHOWN, moves=False).to_json())
    assert (spec.format, spec.alpha, spec.picture, spec.moves) == (form, alpha, (1920, 1080), False)
    assert spec.rate == options.fps == (30 if form == "gif" else 60)


def test_a_gif_is_not_as_fast_as_a_video() -> None:
    assert RenderOptions.model_validate({"format": "gif"}).fps == 30
    with pytest.raises(ValidationError, match=r"fps 60: a gif counts .* so give at most 30"):
        RenderOptions(format="gif", fps=60)


def test_what_was_stored_before_is_read_and_who_knows_nothing_of_transparency_reads_on() -> None:
    stored = {"resolution": "720p", "fps": 30, "format": "webm"}
    assert RenderOptions.model_validate(stored).model_dump(mode="json") == stored
    state = NodeState(node_id="n", user_id="u", project_id="p", session_id="s", render=RenderOptions())
    assert '"transparent"' not in state.model_dump_json()
    clear = RenderOptions(format="webm", transparent=True)
    assert RenderOptions.model_validate_json(clear.model_dump_json()) == clear
