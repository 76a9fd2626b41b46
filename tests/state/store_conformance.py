"""What every Store must do. A store's test module makes a subclass of `StoreConformance` with a ``connect`` fixture.

``connect`` opens a store on the test's database; each call gives a store that shares nothing with the others but the
database, as one in another process would. A store for one process gives the same one while it is open. Each subject of
the suite is a module of `tests.state.conformance`.
"""

from __future__ import annotations

import pytest

from koda_ray.state.store import Store
from tests.state.conformance.canvases import CanvasConformance
from tests.state.conformance.charges import ChargeConformance
from tests.state.conformance.commits import CommitConformance
from tests.state.conformance.connecting import Connect
from tests.state.conformance.deletion import DeletionConformance
from tests.state.conformance.discarding import DiscardingConformance
from tests.state.conformance.events import EventConformance
from tests.state.conformance.history import HistoryConformance
from tests.state.conformance.holdings import HoldingConformance
from tests.state.conformance.inbox import InboxConformance
from tests.state.conformance.jobs import JobConformance
from tests.state.conformance.links import LinkConformance
from tests.state.conformance.sandboxes import SandboxRowConformance
from tests.state.conformance.sessions import SessionConformance
from tests.state.conformance.shares import ShareConformance
from tests.state.conformance.tiers import TierConformance
from tests.state.conformance.versions import VersionConformance
from tests.state.records import active_session

__all__ = ["Connect", "StoreConformance", "active_session"]


class StoreConformance(
    SessionConformance,
    CommitConformance,
    EventConformance,
    JobConformance,
    SandboxRowConformance,
    DeletionConformance,
    DiscardingConformance,
    ShareConformance,
    TierConformance,
    ChargeConformance,
    HistoryConformance,
    VersionConformance,
    LinkConformance,
    CanvasConformance,
    InboxConformance,
    HoldingConformance,
):
    @pytest.fixture
    async def store(self, connect: Connect) -> Store:
        return await connect()
