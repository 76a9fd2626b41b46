"""Modal as one workspace uses it: the app that sandboxes belong to, what each is made from, and how it lives there."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from koda_ray.errors import Missing, QuotaExceeded, SandboxError, SandboxNotFound, TemplateNotFound
from koda_ray.sandbox.cloud_terms import CloudTerms

try:
    import modal
    from modal import exception as wrong
except ImportError:
    raise Missing("SANDBOX_PROVIDER=modal needs Modal's package: pip install 'koda-ray[modal]'") from None

if TYPE_CHECKING:
    from koda_ray.config import Settings

__all__ = ["ImageAtModal", "ModalApp", "ModalTerms", "not_found", "published", "translated"]

_OWN = "koda-img-"
_MAX_CHARS = 300


class ModalApp:
    """An app of one workspace at Modal, which is looked up when it is first used, and made where it is not there.

    Args:
        name: Its name (MODAL_APP).
        token_id: Of the workspace that pays (MODAL_TOKEN_ID).
        token_secret: Its secret (MODAL_TOKEN_SECRET).
    """

    def __init__(self, name: str, *, token_id: str, token_secret: str) -> None:
        self.name = name
        self._token = token_id, token_secret
        self._opened: tuple[modal.Client, modal.App] | None = None
        self._opening = asyncio.Lock()

    @classmethod
    def of(cls, settings: Settings, *, why: str) -> ModalApp:
        """Read it from settings.

        Args:
            settings: The token, and the app's name.
            why: What the message says where there is no token: what needs one.

        Raises:
            Missing: MISSING, there is no token.
        """
        if settings.modal_token_id is None or settings.modal_token_secret is None:
            raise Missing(f"{why} MODAL_TOKEN_ID and MODAL_TOKEN_SECRET; `modal token new` makes one")
        return cls(
            settings.modal_app,
            token_id=settings.modal_token_id.get_secret_value(),
            token_secret=settings.modal_token_secret.get_secret_value(),
        )

    async def open(self) -> tuple[modal.Client, modal.App]:
        """Return the client and the app.

        Raises:
            SandboxError: PROVIDER_ERROR, Modal refused the token or could not be reached.
        """
        async with self._opening:
            if self._opened is None:
                with self.translated("open the app"):
                    client = await modal.Client.from_credentials.aio(*self._token)
                    app = await modal.App.lookup.aio(self.name, client=client, create_if_missing=True)
                self._opened = client, app
            return self._opened

    def translated(self, doing: str, *, sandbox_id: str = "") -> AbstractContextManager[None]:
        """Turn the SDK's errors of a block into ours, with no token in them; as ``translated``."""
        return translated(doing, sandbox_id=sandbox_id, secrets=self._token)


@dataclass(frozen=True, kw_only=True)
class ModalTerms(CloudTerms):
    """How a sandbox lives at Modal.

    Args:
        memory_mb: Of each (SANDBOX_MEMORY_MB).
        cpus: Of each.
    """

    memory_mb: int = 2048
    cpus: float = 2.0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Read them from settings."""
        return replace(super().of(settings), memory_mb=settings.sandbox_memory_mb)


@dataclass(frozen=True)
class ImageAtModal:
    """What a sandbox started from.

    Args:
        name: Its id there, or the name of one of somebody's own.
    """

    name: str

    @property
    def own(self) -> bool:
        """Whether it is one of somebody's own, which holds any project; not the one that MODAL_IMAGE names."""
        return self.name.startswith(_OWN)

    def of(self, client: modal.Client) -> modal.Image:
        """Return Modal's."""
        return modal.Image.from_name(self.name, client=client) if self.own else modal.Image.from_id(self.name, client)

    def unusable(self, why: str) -> TemplateNotFound:
        """Make the error for one that cannot be used, given what is wrong with it."""
        way = "Build it with `koda image build --provider modal` and set MODAL_IMAGE to the id that it prints"
        return TemplateNotFound(
            f"the image {self.name!r} cannot be used at Modal: {why}. "
            f"{'Make it again with `koda image create --provider modal`' if self.own else way}",
            context={"template": self.name},
        )


def published(image_id: str) -> str:
    """Return the name at Modal of an image of somebody's own, by our id of it."""
    return f"{_OWN}{image_id.removeprefix('img_')}"


def not_found(sandbox_id: str) -> SandboxNotFound:
    """Make the error for a sandbox that is not there any more."""
    return SandboxNotFound(
        f"there is no sandbox {sandbox_id[:80]!r} at Modal: it was ended, or nobody used it for too long; make another "
        "and restore the last checkpoint into it",
        context={"sandbox_id": sandbox_id[:80]},
    )


@contextmanager
def translated(doing: str, *, sandbox_id: str, secrets: Collection[str]) -> Generator[None]:
    """Turn the SDK's errors of a block into ours; the cause is left out, since it may show a token.

    Args:
        doing: What was tried, for the message ("make a sandbox").
        sandbox_id: Ours.
        secrets: Texts that no message may hold.

    Raises:
        SandboxNotFound: SANDBOX_NOT_FOUND, it was ended.
        QuotaExceeded: QUOTA_EXCEEDED, a limit of the workspace.
        SandboxError: TIMEOUT or PROVIDER_ERROR.
    """
    try:
        yield
    except (wrong.Error, OSError, TimeoutError) as error:
        said = " ".join(str(error).split())[:_MAX_CHARS]
        for secret in secrets:
            said = said.replace(secret, "***")
        raise _translate(error, doing, sandbox_id, f"{type(error).__name__}: {said}") from None


def _translate(error: Exception, doing: str, sandbox_id: str, said: str) -> SandboxError:
    match error:
        case wrong.NotFoundError() | wrong.SandboxTerminatedError() | wrong.SandboxTimeoutError() if sandbox_id:
            return not_found(sandbox_id)
        case wrong.ResourceExhaustedError():
            return QuotaExceeded(
                f"Modal refuses to {doing} because a limit of the workspace is reached ({said}); wait a little, end "
                "sandboxes that nobody needs, or raise the limit",
                retryable=True,
            )
        case wrong.AuthError() | wrong.PermissionDeniedError():
            return SandboxError(f"Modal refused MODAL_TOKEN_ID and MODAL_TOKEN_SECRET ({said}); set valid ones")
        case wrong.TimeoutError() | TimeoutError():
            return SandboxError(f"Modal did not {doing} in time ({said}); try again", code="TIMEOUT", retryable=True)
        case wrong.ConnectionError() | OSError():
            return SandboxError(
                f"the connection to Modal broke before it could {doing} ({said}); it may or may not have been done: "
                "look, and try again",
                retryable=True,
            )
        case _:
            return SandboxError(f"Modal could not {doing} ({said}); see what it says, and the settings MODAL_*")
