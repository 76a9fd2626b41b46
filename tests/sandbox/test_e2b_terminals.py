"""Processes with a terminal at E2B: by its real SDK, at the protocol server, whose machines run everything."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from koda_ray.sandbox.e2b import E2BProvider
from tests.sandbox.e2b import Ids, provider_of, server
from tests.sandbox.e2b_server import E2BServer
from tests.sandbox.terminals import TerminalConformance

__all__ = ["server"]

pytestmark = [pytest.mark.full, pytest.mark.sandbox, pytest.mark.needs("e2b", "tmux")]


class TestE2BTerminals(TerminalConformance):
    """At the protocol server."""

    @pytest.fixture
    def leftovers(self) -> Ids:
        return Ids()

    @pytest.fixture
    async def provider(self, server: E2BServer) -> AsyncIterator[E2BProvider]:
        made = provider_of(server)
        yield made
        assert await made.list() == []
