"""E2B's cloud, or a cluster that speaks E2B: where it is, whose key it is asked with, and what a sandbox is there."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Self

from koda_ray.errors import Missing, TemplateNotFound
from koda_ray.sandbox.base import PreviewEndpoint
from koda_ray.sandbox.cloud_terms import CloudTerms

try:
    import e2b
except ImportError:
    raise Missing("SANDBOX_PROVIDER=e2b needs E2B's package: pip install 'koda-ray[e2b]'") from None

from koda_ray.sandbox.e2b_errors import template_not_found, translated

if TYPE_CHECKING:
    from e2b.connection_config import ApiParams

    from koda_ray.config import Settings

__all__ = ["E2BCloud", "E2BTemplate", "E2BTerms"]


@dataclass(frozen=True, kw_only=True)
class E2BCloud:
    """A cloud that speaks E2B, as one team uses it.

    Args:
        api_key: Of the team that pays (E2B_API_KEY).
        domain: Of the cloud, where it is not E2B's own (E2B_DOMAIN).
        api_url: Of the control plane, where it does not follow from the domain (E2B_API_URL).
        sandbox_url: The one address of all sandboxes, where they have no host names of their own (E2B_SANDBOX_URL).
        retries: How often the SDK repeats a request that E2B put off (429, 502, 503, 504).
        request_timeout_s: For a single request.
        trusted_s: How long a success says that a sandbox is alive: answers are counted there.
    """

    api_key: str = field(repr=False)
    domain: str | None = None
    api_url: str | None = None
    sandbox_url: str | None = None
    retries: int = 3
    request_timeout_s: float = 60.0
    trusted_s: float = 5.0

    @classmethod
    def of(cls, settings: Settings, *, why: str) -> E2BCloud:
        """Read it from settings.

        Args:
            settings: The key and the addresses.
            why: What the message says where there is no key: what needs one.

        Raises:
            Missing: MISSING, there is no key.
        """
        if settings.e2b_api_key is None:
            raise Missing(f"{why} E2B_API_KEY; set the key of your team at E2B")
        return cls(
            api_key=settings.e2b_api_key.get_secret_value(),
            domain=settings.e2b_domain,
            api_url=settings.e2b_api_url,
            sandbox_url=settings.e2b_sandbox_url,
        )

    @property
    def params(self) -> ApiParams:
        """What every call of the SDK is given."""
        return {
            "api_key": self.api_key,
            "domain": self.domain,
            "api_url": self.api_url,
            "sandbox_url": self.sandbox_url,
            "retries": self.retries,
            "request_timeout": self.request_timeout_s,
        }

    def endpoint(self, machine: e2b.AsyncSandbox, port: int) -> PreviewEndpoint:
        """Say where a port of a machine answers, with the token that E2B asks of whoever goes there."""
        token = machine.traffic_access_token
        headers = {"e2b-traffic-access-token": token} if token else {}
        if self.sandbox_url is None:
            return PreviewEndpoint(url=f"https://{machine.get_host(port)}", headers=headers)
        headers |= {"e2b-sandbox-id": machine.sandbox_id, "e2b-sandbox-port": str(port)}
        return PreviewEndpoint(url=self.sandbox_url, headers=headers)

    def translated(
        self, doing: str, *, sandbox_id: str = "", machine: e2b.AsyncSandbox | None = None
    ) -> AbstractContextManager[None]:
        """Turn the SDK's errors of a block into ours, with neither the key in them nor a machine's tokens.

        Args:
            doing: What was tried, for the message ("make a sandbox").
            sandbox_id: Ours.
            machine: Whose tokens the message might show.
        """
        tokens: list[str | None] = [self.api_key]
        if machine is not None:
            headers = machine.connection_config.sandbox_headers
            tokens += [machine.traffic_access_token, headers.get("X-Access-Token")]
        return translated(doing, sandbox_id=sandbox_id, secrets=[token for token in tokens if token])


@dataclass(frozen=True, kw_only=True)
class E2BTerms(CloudTerms):
    """How a sandbox lives at E2B.

    Args:
        on_timeout: What E2B does after the time without use: end it, or pause it, so that it can be resumed for as long
            as E2B keeps it.
    """

    on_timeout: Literal["kill", "pause"] = "kill"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Read them from settings."""
        return replace(super().of(settings), on_timeout=settings.e2b_on_timeout)

    @property
    def unused_s(self) -> int | None:
        """How long one lives after its last use; None where E2B pauses it then."""
        return None if self.on_timeout == "pause" else self.lifetime_s


@dataclass(frozen=True)
class E2BTemplate:
    """What a sandbox started from.

    Args:
        name: Its name at E2B.
        own: Whether it is an image of somebody's own, which holds any project; not the one that E2B_TEMPLATE names.
    """

    name: str
    own: bool

    def unusable(self, why: str) -> TemplateNotFound:
        """Make the error for one that cannot be used, given what is wrong with it."""
        return template_not_found(self.name, why, own=self.own)
