"""What goes wrong at E2B, in this program's words and codes: each says what to do, and none holds a key or a token."""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager

import e2b
import httpx
from connectrpc.errors import ConnectError

from koda_ray.errors import KodaError, QuotaExceeded, SandboxError, SandboxNotFound, TemplateNotFound

__all__ = ["not_found", "template_not_found", "translated"]

_MAX_CHARS = 300


@contextmanager
def translated(doing: str, *, sandbox_id: str, secrets: Collection[str]) -> Generator[None]:
    """Turn the SDK's errors of a block into ours; the cause is left out, since it may show a key.

    Args:
        doing: What was tried, for the message ("be created", "read files").
        sandbox_id: Ours.
        secrets: Texts that no message may hold.

    Raises:
        SandboxNotFound: SANDBOX_NOT_FOUND, it was ended or its lifetime is over.
        QuotaExceeded: QUOTA_EXCEEDED, too many requests or sandboxes for the plan.
        SandboxError: TIMEOUT, WRITE_FAILED (the disk is full) or PROVIDER_ERROR.
    """
    try:
        yield
    except (e2b.SandboxException, e2b.AuthenticationException, e2b.ServiceBusyException) as error:
        raise _translate(error, doing, sandbox_id, secrets) from None
    except httpx.TimeoutException as error:
        raise _late(error, doing, secrets) from None
    except (httpx.TransportError, ConnectError, OSError) as error:
        raise _unreachable(error, doing, secrets) from None
    except KodaError:
        raise
    except Exception as error:
        # the SDK raises bare exceptions where an answer has no body or a stream no end
        if type(error) is not Exception:
            raise
        raise _unreachable(error, doing, secrets) from None


def not_found(sandbox_id: str) -> SandboxNotFound:
    """Make the error for a sandbox that is not there any more."""
    return SandboxNotFound(
        f"there is no sandbox {sandbox_id[:80]!r} at E2B: it was ended, or its lifetime is over; make another and "
        "restore the last checkpoint into it",
        context={"sandbox_id": sandbox_id[:80]},
    )


def template_not_found(template: str, why: str, *, own: bool = False) -> TemplateNotFound:
    """Make the error for a template that cannot be used.

    Args:
        template: Its name.
        why: What is wrong with it.
        own: Whether it is an image of somebody's own, not the one that E2B_TEMPLATE names.
    """
    way = "Build it with `koda image build --provider e2b`, under the name that E2B_TEMPLATE holds"
    return TemplateNotFound(
        f"the E2B template {template!r} cannot be used: {why}. "
        f"{'Make the image again with `koda image create --provider e2b`' if own else way}",
        context={"template": template},
    )


def _translate(error: Exception, doing: str, sandbox_id: str, secrets: Collection[str]) -> SandboxError:
    said = _said(error, secrets)
    match error:
        case e2b.SandboxNotRunningException() | e2b.SandboxNotFoundException():
            return not_found(sandbox_id)
        case e2b.RateLimitException():
            return QuotaExceeded(
                f"E2B refuses to {doing} because a limit of the plan is reached ({said}); wait a little, end sandboxes "
                "that nobody needs, or raise the plan's limits",
                retryable=True,
            )
        case e2b.NotEnoughSpaceException():
            return SandboxError(
                f"E2B could not {doing}: the sandbox's disk is full ({said}); remove files that are not needed, or "
                "build the template with a larger disk",
                code="WRITE_FAILED",
                context={"reason": "disk_full"},
            )
        case e2b.AuthenticationException():
            return SandboxError(f"E2B refused the key in E2B_API_KEY ({said}); set a valid one of your team")
        case e2b.ServiceBusyException():
            return SandboxError(
                f"E2B is too busy to {doing} ({said}); nothing was changed, try again in a moment", retryable=True
            )
        case e2b.SandboxUnreachableException():
            return _unreachable(error, doing, secrets)
        case e2b.TimeoutException():
            return _late(error, doing, secrets)
        case e2b.SandboxException(status_code=int(status)):
            again = status >= 500
            advice = "it is E2B's fault: try again" if again else "see what it says, and the settings E2B_*"
            return SandboxError(f"E2B could not {doing} ({said}); {advice}", retryable=again)
        case _:
            return SandboxError(
                f"E2B could not {doing} ({said}); try again, and look at its status page", retryable=True
            )


def _late(error: Exception, doing: str, secrets: Collection[str]) -> SandboxError:
    return SandboxError(
        f"E2B did not {doing} in time ({_said(error, secrets)}); try again", code="TIMEOUT", retryable=True
    )


def _unreachable(error: Exception, doing: str, secrets: Collection[str]) -> SandboxError:
    return SandboxError(
        f"the connection to E2B broke before it could {doing} ({_said(error, secrets)}); it may or may not have been "
        "done: look, and try again. Is this machine online, and are E2B_DOMAIN and E2B_API_URL right?",
        retryable=True,
    )


def _said(error: Exception, secrets: Collection[str]) -> str:
    text = " ".join(str(error).split())
    for secret in secrets:
        text = text.replace(secret, "***")
    text = text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
