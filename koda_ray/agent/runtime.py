"""What agents run on: whose they are, who answers them, where they are remembered, and what they may spend.

One value goes on whole, to an agent, a room or a pool. Of what it names, whoever opens it owns what was not open yet:
a store that was given as a path, a model that was not given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import JsonValue

from koda_ray.agent.claude import claude
from koda_ray.agent.whereabouts import here
from koda_ray.events import EPHEMERAL_KEPT
from koda_ray.llm.base import ModelProvider
from koda_ray.prices import Price, Prices
from koda_ray.state.charges import Release
from koda_ray.state.records import Batch, SessionRecord
from koda_ray.state.store import Store
from koda_ray.state.stores import store_at
from koda_ray.types import Budget, NodeState, now

__all__ = ["HELD", "OpenRuntime", "Openable", "Runtime"]

HELD = timedelta(days=3650)
"""How long who opens an agent or a room has it: nobody takes it over for its age."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """What agents run on.

    Args:
        provider: Answers requests; Claude by ``ANTHROPIC_API_KEY`` when None.
        store: Where they are remembered: a SQLite file's path, a database's URL, ``json:PATH`` for a folder that one
            process has at a time, or a store that is open.
        user: Whose they are.
        budget: How many tokens and dollars the model calls of each agent, or of a room's members together, may use in
            all; without limit when None. It warns (``budget_warning``), then pauses and asks: see `Agent.extend`.
        prices: What models cost that koda_ray does not know, or other than it knows.
    """

    provider: ModelProvider | None = None
    store: Store | Path | str = "agents.db"
    user: str = "local"
    budget: Budget | None = None
    prices: Mapping[str, Price] | None = None


class Openable(ABC):
    """What is opened, and closed however far that came; a context manager."""

    @abstractmethod
    async def open(self) -> None:
        """Open what it works with."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of it; may be called twice, and where it was not opened, or not wholly."""

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class OpenRuntime:
    """A runtime in use, with what of it is its own.

    Args:
        given: What it is; nothing is opened yet.

    Raises:
        InvalidInput: ``json:`` names no folder.
    """

    def __init__(self, given: Runtime) -> None:
        self.given = given
        self.user = given.user
        self.prices = Prices(given.prices)
        self.store: Store = store_at(given.store) if isinstance(given.store, Path | str) else given.store
        self._own_store = isinstance(given.store, Path | str)
        self._own_provider: ModelProvider | None = None

    @property
    def shared(self) -> Runtime:
        """The same for others, which run on its store as it is open."""
        return replace(self.given, store=self.store)

    async def open(self) -> ModelProvider:
        """Open what is its own, and return who answers.

        Raises:
            Missing: No provider was given and ``ANTHROPIC_API_KEY`` is not set.
            StorageError: The store cannot be opened.
        """
        provider = self.given.provider or self._own_provider
        if provider is None:
            provider = self._own_provider = claude()
        await self.open_store()
        return provider

    async def open_store(self) -> None:
        """Open the store where it is its own, and nothing else. Raises StorageError."""
        if self._own_store:
            await self.store.open()
            await self.store.prune_events(now() - EPHEMERAL_KEPT)  # nobody else does

    async def take(
        self, state: NodeState, *, key: str, body: dict[str, JsonValue], lease: timedelta = HELD
    ) -> SessionRecord:
        """Find an agent's or a room's row, or make it, and take it; what a dead process had reserved is given back.

        Args:
            state: What a new one is.
            key: Names it.
            body: As a store's `create_session` takes it.
            lease: How long it counts as held.
        """
        row, _ = await self.store.create_session(state, key=key, body=body)
        row = await self.store.activate(row.id, host=here(), lease_until=now() + lease)
        if any(account.held for account in await self.store.accounts(self.user, [row.id])):
            dead = Release(kinds=("model",), reason="its process ended")
            await self.store.commit(row.id, row.epoch, Batch(charges=[dead]))
        return row

    async def close(self) -> None:
        """Let go of what is its own; may be called twice."""
        if self._own_store:
            await self.store.close()
        provider, self._own_provider = self._own_provider, None
        if provider is not None:
            await provider.close()
