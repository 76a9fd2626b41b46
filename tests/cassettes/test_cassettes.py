"""Ten conversations through all but Ray: HTTP, agents, sandbox, browser, encoder, with a model that is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from koda_ray.render.local import LocalExecutor
from tests.cassettes.cassette import CASSETTES, Cassette
from tests.cassettes.player import Openings, Talk, play

pytestmark = [pytest.mark.sandbox, pytest.mark.browser, pytest.mark.needs("ffmpeg")]


@pytest.fixture(scope="module")
def openings(tmp_path_factory: pytest.TempPathFactory) -> Openings:
    folder = tmp_path_factory.mktemp("openings")
    folder.chmod(0o755)  # sandboxes run as another user
    return Openings(folder)


@pytest.mark.parametrize("name", CASSETTES)
@pytest.mark.full
async def test_the_conversation_goes_as_it_is_written_down(name: str, tmp_path: Path, openings: Openings) -> None:
    tmp_path.chmod(0o755)
    cassette = Cassette.read(name)
    async with LocalExecutor(workers=2) as executor:
        talk = await openings.copied(cassette.after, tmp_path, executor) if cassette.after else Talk()
        await play(cassette, tmp_path, executor, talk)
