"""Every error koda_ray raises on purpose, as one tree with stable codes.

Codes are API: clients, retries and the specifications' tool contracts match on them, so a code is never renamed.
Every error survives pickle, because errors cross Ray's process boundaries.

    KodaError
    |- InvalidInput            bad value from a person or a model; the message names it and the way out
    |  |- InvalidPath          a path that would leave the project
    |  |- InvalidTransition    a command that the session's phase does not take
    |- NotFound                an id, name or file that is not there, or is another user's
    |- Conflict                an idempotency key used again with another body; what is taken, in use or over
    |- Fenced                  a newer activation of the same session or job owns the row
    |- SandboxError            isolation, files and commands
    |  |- SandboxNotFound | CommandTimeout | CommandBlocked | QuotaExceeded | TemplateNotFound | ServerFailed
    |- RenderError             capture, encoding, joining
    |  |- PageError | PageNotReady | BrowserCrashed | EncodeFailed | QualityRejected
    |- StorageError            reading or writing objects
    |  |- DatabaseAway         the database does not answer
    |  |- BucketAway           the bucket does not answer
    |- ModelError              a model provider
    |  |- ModelOverloaded | ModelStreamBroken | ModelRefused | ModelAuth
    |- Missing                 a program, package or setting that the work needs
    |- Unavailable             whoever holds a session did not answer in time
    |- LimitReached            a user has as much at once as one may have
    |- Cancelled               a person stopped the work
    |- BudgetExceeded          more is wanted than a person or an operator allowed
    |- HookStopped             a hook ended an agent's run
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

__all__ = [
    "BrowserCrashed",
    "BucketAway",
    "BudgetExceeded",
    "Cancelled",
    "CommandBlocked",
    "CommandTimeout",
    "Conflict",
    "DatabaseAway",
    "EncodeFailed",
    "Fenced",
    "HookStopped",
    "InvalidInput",
    "InvalidPath",
    "InvalidTransition",
    "KodaError",
    "LimitReached",
    "Missing",
    "ModelAuth",
    "ModelError",
    "ModelOverloaded",
    "ModelRefused",
    "ModelStreamBroken",
    "NotFound",
    "PageError",
    "PageNotReady",
    "QualityRejected",
    "QuotaExceeded",
    "RenderError",
    "SandboxError",
    "SandboxNotFound",
    "ServerFailed",
    "StorageError",
    "TemplateNotFound",
    "Unavailable",
]


class KodaError(Exception):
    """An expected failure with a stable code.

    Args:
        message: What was wrong, the value seen, and what to do.
        code: Overrides the class's code where a specification names a finer one.
        context: Small JSON values for logs and problem documents; never secrets or file bodies.
        retryable: Whether the same call may succeed later; the class's default when None.
    """

    code: str = "INTERNAL"
    status: ClassVar[int] = 500
    default_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        context: Mapping[str, str | int | float | bool | None] | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.context = dict(context or {})
        self.retryable = self.default_retryable if retryable is None else retryable

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.code, self.context, self.retryable))


def _rebuild(
    cls: type[KodaError],
    message: str,
    code: str,
    context: dict[str, str | int | float | bool | None],
    retryable: bool,
) -> KodaError:
    return cls(message, code=code, context=context, retryable=retryable)


class InvalidInput(KodaError):
    """A value that a person or a model must change; ``field`` in its context says which one, where it is one."""

    code = "INVALID_INPUT"
    status = 422


class InvalidPath(InvalidInput):
    """A path that is absolute, escapes the project, or cannot be a file name."""

    code = "INVALID_PATH"


class InvalidTransition(InvalidInput):
    """A command that the current phase does not take."""

    code = "INVALID_TRANSITION"
    status = 409


class NotFound(KodaError):
    """An id, a name or a file that is not there, or is another user's."""

    code = "NOT_FOUND"
    status = 404


class Conflict(KodaError):
    """What stands in the way: an idempotency key of another request, a name that is taken, what is in use or over."""

    code = "CONFLICT"
    status = 409


class Fenced(KodaError):
    """A write by an activation that a newer one has replaced; stop at once."""

    code = "FENCED"
    status = 409


class SandboxError(KodaError):
    """A sandbox that could not do what it was asked."""

    code = "PROVIDER_ERROR"
    status = 502


class SandboxNotFound(SandboxError):
    """The sandbox is gone: make another and restore into it."""

    code = "SANDBOX_NOT_FOUND"
    default_retryable = True


class CommandTimeout(SandboxError):
    """A command passed its time limit; its whole process tree was ended."""

    code = "TIMEOUT"
    default_retryable = True


class CommandBlocked(SandboxError):
    """A command that policy refuses."""

    code = "COMMAND_BLOCKED"
    status = 422


class QuotaExceeded(SandboxError):
    """Disk, memory, process or sandbox count limit reached."""

    code = "QUOTA_EXCEEDED"
    status = 429


class TemplateNotFound(SandboxError):
    """The template project or its installed dependencies are missing."""

    code = "TEMPLATE_NOT_FOUND"


class ServerFailed(SandboxError):
    """The dev server ended or never answered."""

    code = "SERVER_FAILED"
    default_retryable = True


class RenderError(KodaError):
    """A render that could not be finished."""

    code = "RENDER_FAILED"


class PageError(RenderError):
    """The page threw; the message carries the error, the context its file and line."""

    code = "PAGE_ERROR"


class PageNotReady(RenderError):
    """The page did not become ready in time; the message names what was pending."""

    code = "PAGE_NOT_READY"


class BrowserCrashed(RenderError):
    """The browser ended during capture; another attempt may succeed."""

    code = "BROWSER_CRASHED"
    default_retryable = True


class EncodeFailed(RenderError):
    """FFmpeg refused or ended; the message carries its last lines."""

    code = "ENCODE_FAILED"


class QualityRejected(RenderError):
    """A finished file that did not pass the probe."""

    code = "QUALITY_REJECTED"


class StorageError(KodaError):
    """Objects could not be read or written."""

    code = "STORAGE_FAILED"
    default_retryable = True


class DatabaseAway(StorageError):
    """The database cannot be reached, or fell silent; what it was told last it may have done.

    No work is at fault: what was under way is gone on with once it is there again.
    """

    status = 503


class BucketAway(StorageError):
    """The bucket cannot be reached, or fell silent; what was sent last it may have stored."""

    status = 503


class ModelError(KodaError):
    """A model provider failed in a way that trying again will not mend."""

    code = "MODEL_ERROR"
    status = 502


class ModelOverloaded(ModelError):
    """Rate limited or overloaded (429, 529, 5xx)."""

    code = "MODEL_OVERLOADED"
    default_retryable = True


class ModelStreamBroken(ModelError):
    """The event stream ended before the message did."""

    code = "MODEL_STREAM_BROKEN"
    default_retryable = True


class ModelRefused(ModelError):
    """The model declined to answer."""

    code = "MODEL_REFUSED"


class ModelAuth(ModelError):
    """The key is missing, wrong or not allowed."""

    code = "MODEL_AUTH"


class Missing(KodaError):
    """A program, package or setting is not there; the message names it and how to get it."""

    code = "MISSING"
    status = 503


class Unavailable(KodaError):
    """Whoever holds a session did not answer in time, or is being started anew; the same call may succeed later."""

    code = "UNAVAILABLE"
    status = 503
    default_retryable = True


class LimitReached(KodaError):
    """A user has as much of something as one may have at once; nothing was begun.

    Args:
        message: How much there is, how much may be, and the way out.
        retry_after_s: When the same call may succeed, in seconds.
        code, context, retryable: As every error's.
    """

    code = "LIMIT_REACHED"
    status = 429
    default_retryable = True

    def __init__(
        self,
        message: str,
        *,
        retry_after_s: float = 30.0,
        code: str | None = None,
        context: Mapping[str, str | int | float | bool | None] | None = None,
        retryable: bool | None = None,
    ) -> None:
        context = {"retryAfterS": retry_after_s, **(context or {})}
        super().__init__(message, code=code, context=context, retryable=retryable)


class Cancelled(KodaError):
    """A person stopped the work."""

    code = "CANCELLED"
    status = 409


class HookStopped(KodaError):
    """A hook ended what an agent did, and with it the agent's run."""

    code = "HOOK_STOPPED"


class BudgetExceeded(KodaError):
    """What was wanted does not fit a budget; nothing was begun. Raise the limit, and the same call succeeds."""

    code = "BUDGET_EXCEEDED"
    status = 402
