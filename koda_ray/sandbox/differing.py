"""Restoring a project that lies elsewhere: only those of its files go there that are not there already.

The sandbox is told the digest of every file, and lists in one answer which of them it lacks; those follow, all in one
message. What is changed there between the two is lacking again, and then everything is sent, so that it ends.

Where that answer comes from hostile code may run, and it may lie. Who says that a file is missing gets what belongs to
its own project anyway; who says that one is there keeps a file of its own as it is, which it could have written in the
next moment just as well. Nothing here is concluded from the answer but what is sent to the same sandbox: the next
checkpoint reads what lies there, whatever was said of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from koda_ray.errors import SandboxError
from koda_ray.sandbox.tree import digest

__all__ = ["send_differing"]


async def send_differing(
    files: Mapping[str, bytes], send: Callable[[Mapping[str, bytes], Mapping[str, str]], Awaitable[object]]
) -> int:
    """Have a sandbox's files made these.

    Args:
        files: All of them.
        send: Sends some of them with the digests of the others, and returns which of the others are missing.

    Returns:
        How many bytes of files were sent.

    Raises:
        SandboxError: PROVIDER_ERROR, the answer is none.
    """
    digests = await asyncio.to_thread(lambda: {path: digest(data) for path, data in files.items()})
    lacking = _checked(await send({}, digests), digests)
    if not lacking:
        return 0
    sent = {path: data for path, data in files.items() if path in lacking}
    sent_bytes = _size(sent)
    left = {path: known for path, known in digests.items() if path not in lacking}
    if _checked(await send(sent, left), left):
        _checked(await send(files, {}), {})
        sent_bytes += _size(files)
    return sent_bytes


def _size(files: Mapping[str, bytes]) -> int:
    return sum(map(len, files.values()))


def _checked(value: object, there: Mapping[str, str]) -> set[str]:
    found = cast("list[object]", value) if isinstance(value, list) else [value]
    missing = {path for path in found if isinstance(path, str)}
    if len(missing) != len(found) or not missing <= there.keys():
        raise SandboxError(
            "the sandbox told nonsense (that files are missing which it was not asked about); make another and restore "
            "the last checkpoint into it"
        )
    return missing
