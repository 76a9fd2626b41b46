"""What every sandbox provider must do, whatever stands behind it; each provider's tests inherit all of it.

A provider's test module defines the fixtures ``provider`` and ``leftovers`` (ids, and what is left of them) and a class
that inherits ``SandboxConformance``. The template it uses holds ``src/App.tsx``, ``src/scenes/one.tsx``,
``public/logo.svg`` and a ``package.json`` with the script ``hello``; ``node_modules`` holds ``left-pad``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from koda_ray.sandbox.base import Sandbox, SandboxProvider
from tests.sandbox.conformance.checkpoints import Checkpoints
from tests.sandbox.conformance.commands import Commands
from tests.sandbox.conformance.files import FileConformance
from tests.sandbox.conformance.lives import Lives
from tests.sandbox.leftovers import Leftovers

__all__ = ["SandboxConformance"]


class SandboxConformance(Lives, FileConformance, Checkpoints, Commands):
    """The suite."""

    @pytest.fixture
    async def box(self, provider: SandboxProvider, leftovers: Leftovers) -> AsyncIterator[Sandbox]:
        made = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_a", user_id="usr_a")
        yield made
        await made.destroy()
