"""The E2B provider under the suite of all providers: by E2B's real SDK, at the protocol server; see ``test_paid``."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from koda_ray.sandbox.e2b import E2BProvider
from tests.sandbox.conformance import SandboxConformance
from tests.sandbox.e2b import Ids, provider_of, server
from tests.sandbox.e2b_server import E2BServer

__all__ = ["server"]


@pytest.mark.needs("e2b")
@pytest.mark.full(all=True)
class TestE2B(SandboxConformance):
    """At the protocol server."""

    @pytest.fixture
    def leftovers(self) -> Ids:
        return Ids()

    @pytest.fixture
    async def provider(self, server: E2BServer) -> AsyncIterator[E2BProvider]:
        made = provider_of(server)
        yield made
        assert await made.list() == []
