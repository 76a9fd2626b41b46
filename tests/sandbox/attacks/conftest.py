"""Sandboxes to attack, local and in Docker, and others beside them that go on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.sandbox.attacks.doing import sh
from tests.sandbox.conftest import AnyProvider, AnySandbox
from tests.sandbox.leftovers import Leftovers


@pytest.fixture
def leftovers(kind: str, request: pytest.FixtureRequest) -> Leftovers:
    return request.getfixturevalue("leftovers" if kind == "local" else "docker_leftovers")


@pytest.fixture
def provider(kind: str, request: pytest.FixtureRequest) -> AnyProvider:
    return request.getfixturevalue("provider" if kind == "local" else f"{kind}_provider")


@pytest.fixture
async def sandbox(provider: AnyProvider, leftovers: Leftovers) -> AsyncIterator[AnySandbox]:
    made = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_test", user_id="usr_test")
    yield made
    await made.destroy()


@pytest.fixture
async def neighbour(provider: AnyProvider, leftovers: Leftovers) -> AsyncIterator[AnySandbox]:
    """A sandbox beside the attacked one, which goes on as if nothing were."""
    made = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_b", user_id="usr_b")
    await made.write_files({"src/mine.ts": b"mine"})
    yield made
    assert await made.read_file("src/mine.ts") == b"mine"
    assert await sh(made, "echo alive; dd if=/dev/zero of=public/x bs=1M count=8 2>/dev/null") == (0, "alive\n")
    await made.destroy()
