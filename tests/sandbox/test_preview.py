"""The Unix socket of the dev server: who may connect, and that nothing inside takes its place."""

from __future__ import annotations

import os
import re
import socket
import stat
from pathlib import Path

import pytest

from koda_ray.sandbox.preview import listen, socket_path
from tests.sandbox.conftest import AnySandbox
from tests.sandbox.leftovers import Leftovers

pytestmark = [pytest.mark.sandbox]


@pytest.fixture
def project_box(kind: str, request: pytest.FixtureRequest) -> AnySandbox:
    return request.getfixturevalue("docker_project_box" if kind == "docker" else "project_box")


@pytest.mark.full
async def test_what_the_project_puts_in_place_of_the_socket_is_never_connected_to(
    project_box: AnySandbox, tmp_path: Path
) -> None:
    """The socket's directory cannot be seen from inside, so nothing in it can be replaced by a link."""
    endpoint = await project_box.start_preview()
    assert stat.S_IMODE(os.stat(endpoint.socket_path).st_mode) == 0o600
    found = await project_box.run(("sh", "-c", "find / -name 'preview.sock' -o -type s 2>/dev/null"))
    # a container sees the socket that it dials, in a folder that it cannot change
    assert re.fullmatch(r"/run/koda/a-[0-9a-f]{6}\.sock\n" if project_box.provider == "docker" else "", found.stdout)
    assert not Path(endpoint.socket_path).is_relative_to(tmp_path / "boxes" / project_box.id / "disk")


def test_a_long_path_gets_a_short_socket(tmp_path: Path, leftovers: Leftovers) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    path = socket_path(deep)
    assert len(path) < 100 and not path.startswith(str(tmp_path))
    with listen(path), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(path)
    with listen(path):  # in place of the dead one
        pass
    os.unlink(path)
    os.rmdir(os.path.dirname(path))
