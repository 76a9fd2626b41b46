"""Ten conversations: HTTP, agents, sandbox, browser, encoder, with a model that is asked; some with Ray besides."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from koda_ray.render.local import LocalExecutor
from koda_ray.render.protocol import RenderExecutor
from tests.cassettes.cassette import CASSETTES, Cassette
from tests.cassettes.player import Begin, Openings, Talk, play
from tests.cassettes.product import product
from tests.cassettes.served import served

pytestmark = [pytest.mark.sandbox, pytest.mark.browser, pytest.mark.needs("ffmpeg")]


ON_RAY = ("approval", "budget", "fork", "rewind")
"""Those that are held with a real server besides: its sessions are actors, and what ends one is a kill."""


@pytest.fixture(scope="module")
def openings(tmp_path_factory: pytest.TempPathFactory) -> Openings:
    folder = tmp_path_factory.mktemp("openings")
    folder.chmod(0o755)  # sandboxes run as another user
    return Openings(folder)


async def _hold(name: str, folder: Path, openings: Openings, executor: RenderExecutor, begin: Begin) -> None:
    folder.chmod(0o755)
    cassette = Cassette.read(name)
    opened = partial(product, executor)
    talk = await openings.copied(cassette.after, folder, opened) if cassette.after else Talk()
    await play(cassette, folder, begin, talk)


@pytest.mark.parametrize("name", CASSETTES)
@pytest.mark.full
async def test_the_conversation_goes_as_it_is_written_down(name: str, tmp_path: Path, openings: Openings) -> None:
    async with LocalExecutor(workers=2) as executor:
        await _hold(name, tmp_path, openings, executor, partial(product, executor))


@pytest.mark.parametrize("name", ON_RAY)
@pytest.mark.full
@pytest.mark.ray
async def test_it_goes_so_on_a_cluster(name: str, tmp_path: Path, openings: Openings) -> None:
    async with LocalExecutor(workers=2) as executor:
        await _hold(name, tmp_path, openings, executor, served)
