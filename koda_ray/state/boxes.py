"""What is kept of sandboxes, and of the images and processes of those that people make for themselves.

A row says what was asked for and by whom. Whether it still is there, its provider says, and a process's own tmux: a
machine that was turned off tells nobody.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

__all__ = ["THIS", "BoxStore", "ImageRecord", "ProcessRecord", "SandboxRecord", "new_deployment"]

THIS = "this"
"""The one row of the table of deployments."""


def new_deployment() -> str:
    """Make a database's name: short, because it is part of the paths of sockets."""
    return f"dep_{secrets.token_hex(6)}"


@dataclass(frozen=True, kw_only=True)
class SandboxRecord:
    """A sandbox that was asked for: the row is written before the sandbox is made.

    ``session_id`` is None for one that a person made for themselves; only those have an image and processes of theirs.

    Attributes:
        expires_at: While it is being made, until when its maker is taken to be at it, who renews this; once it is ready
            and a person's own, after when whoever finds it ends it.
        place: Which machine and folder, engine or cloud it is in, as the provider says (``Location.id``); empty in rows
            of an older koda_ray.
        host: The same for people (``Location.words``).
        ended: Why it ended, in words, where nobody terminated it.
        unused_s: How long after its last use its provider ends it, also before ``expires_at``; None where it does not.
    """

    id: str
    session_id: str | None
    user_id: str
    provider: str
    provider_id: str | None
    status: Literal["creating", "ready", "destroyed"]
    created_at: datetime
    expires_at: datetime | None = None
    image_id: str | None = None
    network: bool = False
    place: str = ""
    host: str = ""
    ended: str = ""
    unused_s: int | None = None

    def expired_at(self, at: datetime) -> bool:
        """Whether its time is over."""
        return self.status == "ready" and self.expires_at is not None and self.expires_at <= at

    @property
    def time_over(self) -> str:
        """Say that its time is over, as ``ended`` does."""
        return "" if self.expires_at is None else f"its time was over at {self.expires_at:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, kw_only=True)
class ImageRecord:
    """What sandboxes start from; ``provider_id`` is what the provider calls it (a folder, a Docker tag).

    ``expires_at``, ``place`` and ``host`` are as a sandbox's.
    """

    id: str
    user_id: str
    name: str
    provider: str
    provider_id: str | None
    source: str
    digest: str
    size_bytes: int
    status: Literal["creating", "ready", "removed"]
    created_at: datetime
    expires_at: datetime | None = None
    place: str = ""
    host: str = ""


@dataclass(frozen=True, kw_only=True)
class ProcessRecord:
    """A process with a terminal; its name is unique in its sandbox, ``run`` tells it from earlier ones of that name."""

    sandbox_id: str
    name: str
    user_id: str
    command: str
    run: str
    created_at: datetime
    ended_at: datetime | None = None
    exit_code: int | None = None


class BoxStore(Protocol):
    """The rows of sandboxes that people make for themselves. Reads of another user's are NotFound, as everywhere."""

    async def deployment(self) -> str:
        """Name this database among all (``dep_`` and 12 hexadecimal digits): made once, and the same ever after.

        Whatever is made outside of it carries this name, so that nobody takes what is another's.
        """
        ...

    async def add_image(self, image: ImageRecord, *, most: int) -> bool:
        """Insert the row of an image that is to be made; its user is made with it.

        Args:
            image: The row.
            most: How many that were not removed its user may have in its place, this one among them. It holds however
                many ask at once.

        Returns:
            False where there are that many: nothing is written then.
        """
        ...

    async def put_image(self, image: ImageRecord) -> bool:
        """Insert an image's row, or write it anew; its user is made with it.

        Returns:
            False where it was removed meanwhile, which is final: nothing is written then.
        """
        ...

    async def get_image(self, image_id: str, *, user_id: str) -> ImageRecord:
        """Read an image's row; NotFound also for one that was removed."""
        ...

    async def images(self, *, user_id: str | None = None) -> list[ImageRecord]:
        """Read the images of one user or of all that were not removed, oldest first."""
        ...

    async def add_sandbox(self, sandbox: SandboxRecord, *, most: int) -> bool:
        """Insert the row of a sandbox that is to be made, without a session; the same as `add_image`."""
        ...

    async def put_sandbox(self, sandbox: SandboxRecord) -> bool:
        """Insert the row of a sandbox without a session, or write it anew; its user is made with it.

        Returns:
            False where it was destroyed meanwhile, which is final: nothing is written then.
        """
        ...

    async def get_sandbox(self, sandbox_id: str, *, user_id: str) -> SandboxRecord:
        """Read the row of a sandbox without a session, also of one that was destroyed."""
        ...

    async def own_sandboxes(self, *, user_id: str | None = None, live: bool = True) -> list[SandboxRecord]:
        """Read the rows of sandboxes without a session, of one user or of all, oldest first."""
        ...

    async def put_process(self, process: ProcessRecord) -> bool:
        """Insert a process's row, or write it anew.

        Returns:
            False where its sandbox was destroyed, and its processes with it: nothing is written then.
        """
        ...

    async def end_process(self, process: ProcessRecord) -> None:
        """Write down how a process ended, where its row is there and of the same run: it may be forgotten meanwhile."""
        ...

    async def sandbox_processes(self, sandbox_id: str) -> list[ProcessRecord]:
        """Read a sandbox's processes by name."""
        ...

    async def forget_process(self, sandbox_id: str, name: str) -> None:
        """Remove a process's row; nothing happens when it is not there."""
        ...
