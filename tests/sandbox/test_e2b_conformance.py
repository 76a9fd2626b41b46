"""The E2B provider under the suite of all providers: by E2B's real SDK, at the protocol server or the paid service."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from koda_ray.sandbox.e2b import E2BProvider
from tests.sandbox.conformance import SandboxConformance
from tests.sandbox.e2b import Ids, provider_of, server
from tests.sandbox.e2b_server import E2BServer

__all__ = ["server"]

_KEY = "KODA_TEST_E2B_API_KEY"
_TEMPLATE = "KODA_TEST_E2B_TEMPLATE"


@pytest.mark.needs("e2b")
@pytest.mark.full
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


@pytest.mark.full
@pytest.mark.skipif(_KEY not in os.environ, reason=f"E2B costs money: set {_KEY} to run the suite against it")
class TestPaidE2B(SandboxConformance):
    """At E2B itself, with a template that holds the suite's small project (KODA_TEST_E2B_TEMPLATE, else ``koda``)."""

    @pytest.fixture
    def leftovers(self) -> Ids:
        return Ids()

    @pytest.fixture
    async def provider(self) -> AsyncIterator[E2BProvider]:
        made = E2BProvider(
            api_key=os.environ[_KEY], template=os.environ.get(_TEMPLATE, "koda"), deployment=uuid4().hex, lifetime_s=300
        )
        yield made
        left = await made.list()
        for info in left:
            await made.destroy(info.id)
        assert left == []
