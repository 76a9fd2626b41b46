"""Hearing from a cloud that it takes this machine away: AWS says so two minutes before, Google Cloud half a minute.

Both tell it to the machine alone, at an address that every machine has for itself. It is asked there twice a second.
Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html,
https://cloud.google.com/compute/docs/instances/create-use-spot
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Protocol

import httpx

from koda_ray.errors import Missing
from koda_ray.logs import get_logger

__all__ = [
    "FIND_S",
    "AwsMetadata",
    "GoogleMetadata",
    "Metadata",
    "Notice",
    "find_metadata",
    "metadata_client",
    "wait_for_notice",
]

FIND_S = 30.0
"""How long a machine is asked whose it is, in seconds: one that has just started may have no network yet."""
ASK_S = 0.5
"""Between two questions, in seconds."""
_METADATA = "http://169.254.169.254"
_ANSWER_S = 2.0
_TOKEN_S = 21_600
_GOOGLE_NOTICE_S = 30.0
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Notice:
    """That this machine is taken away.

    Attributes:
        cloud: By whom.
        left_s: In how many seconds.
    """

    cloud: str
    left_s: float


class Metadata(Protocol):
    """What a cloud tells a machine about itself."""

    cloud: str

    async def is_here(self) -> bool:
        """Whether this machine is that cloud's."""
        ...

    async def notice(self) -> Notice | None:
        """Return the notice, once it is given.

        Raises:
            httpx.HTTPError: It does not answer, or not so.
        """
        ...


class AwsMetadata:
    """EC2's instance metadata, version 2: each question carries a token.

    Args:
        client: Asks.
        endpoint: Where; as AWS's own SDKs do, ``AWS_EC2_METADATA_SERVICE_ENDPOINT`` says it where it is another.
    """

    cloud = "aws"

    def __init__(self, client: httpx.AsyncClient, endpoint: str | None = None) -> None:
        self._client = client
        self._latest = f"{(endpoint or _METADATA).rstrip('/')}/latest"
        self._token: str | None = None

    async def is_here(self) -> bool:
        """Whether it gives a token."""
        try:
            await self._new_token()
        except httpx.HTTPError:
            return False
        return True

    async def notice(self) -> Notice | None:
        """Return what ``spot/instance-action`` says; raises as `Metadata.notice`."""
        answer = await self._ask()
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            self._token = None
            answer = await self._ask()
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return None
        answer.raise_for_status()
        at = datetime.fromisoformat(answer.json()["time"])
        return Notice(self.cloud, max(0.0, (at - datetime.now(UTC)).total_seconds()))

    async def _ask(self) -> httpx.Response:
        token = self._token or await self._new_token()
        url = f"{self._latest}/meta-data/spot/instance-action"
        return await self._client.get(url, headers={"X-aws-ec2-metadata-token": token})

    async def _new_token(self) -> str:
        lives = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_S)}
        answer = await self._client.put(f"{self._latest}/api/token", headers=lives)
        answer.raise_for_status()
        self._token = answer.text
        return self._token


class GoogleMetadata:
    """Compute Engine's metadata.

    Args:
        client: Asks.
        host: Where; as Google's own libraries do, ``GCE_METADATA_HOST`` says it where it is another.
    """

    cloud = "gcp"

    def __init__(self, client: httpx.AsyncClient, host: str | None = None) -> None:
        self._client = client
        origin = f"http://{host}" if host else _METADATA
        self._preempted = f"{origin}/computeMetadata/v1/instance/preempted"

    async def is_here(self) -> bool:
        """Whether it says about itself that it is Google's."""
        try:
            return (await self._ask()).headers.get("Metadata-Flavor") == "Google"
        except httpx.HTTPError:
            return False

    async def notice(self) -> Notice | None:
        """Return what ``instance/preempted`` says; raises as `Metadata.notice`."""
        answer = await self._ask()
        answer.raise_for_status()
        return Notice(self.cloud, _GOOGLE_NOTICE_S) if answer.text.strip() == "TRUE" else None

    async def _ask(self) -> httpx.Response:
        return await self._client.get(self._preempted, headers={"Metadata-Flavor": "Google"})


async def find_metadata(client: httpx.AsyncClient, *, within_s: float = FIND_S) -> Metadata:
    """Find out whose machine this is; the clouds' own variables may say another address.

    Args:
        client: Asks.
        within_s: After how long nothing more is asked, in seconds.

    Raises:
        Missing: Neither AWS nor Google Cloud answers.
    """
    clouds: tuple[Metadata, ...] = (
        AwsMetadata(client, os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT")),
        GoogleMetadata(client, os.environ.get("GCE_METADATA_HOST")),
    )
    until = time.monotonic() + within_s
    while True:
        for metadata in clouds:
            if await metadata.is_here():
                return metadata
        if time.monotonic() >= until:
            break
        await asyncio.sleep(ASK_S)
    raise Missing(
        f"neither AWS nor Google Cloud answers at {_METADATA}: only machines that one of them may take away are given "
        "notice there; leave this command out of others"
    )


async def wait_for_notice(metadata: Metadata) -> Notice:
    """Ask until there is a notice; what is not answered is asked again."""
    answered = True
    while True:
        try:
            notice = await metadata.notice()
        except (httpx.HTTPError, ValueError, KeyError) as error:
            if answered:
                _log.warning("the cloud does not say whether it takes this machine away", error=repr(error))
            answered = False
        else:
            answered = True
            if notice is not None:
                return notice
        await asyncio.sleep(ASK_S)


def metadata_client() -> httpx.AsyncClient:
    """Return what asks: never by way of a proxy, and never for long."""
    return httpx.AsyncClient(timeout=_ANSWER_S, trust_env=False)
