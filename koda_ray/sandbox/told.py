"""What a sandbox tells of its own snapshot, looked at before it is believed: hostile code may have said it."""

from __future__ import annotations

from collections.abc import Container
from typing import cast, get_args

from koda_ray.errors import SandboxError
from koda_ray.sandbox import policy
from koda_ray.sandbox.base import Skip

__all__ = ["checked_modes", "checked_skips"]

_SKIPS: dict[str, Skip] = {why: why for why in get_args(Skip)}


def checked_modes(value: object, files: Container[str]) -> dict[str, int]:
    """Read permission bits of files and folders.

    Args:
        value: What was told.
        files: Which paths are files; any other is a folder's.

    Raises:
        SandboxError: PROVIDER_ERROR, they are none.
    """
    modes: dict[str, int] = {}
    for path, mode in _mapped(value).items():
        if not isinstance(mode, int) or not policy.is_storable(path):
            raise _nonsense("modes of what no checkpoint can hold")
        modes[path] = policy.kept_mode(mode) if path in files else policy.kept_folder_mode(mode)
    return modes


def checked_skips(value: object) -> dict[str, Skip]:
    """Read what was left out, and why.

    Raises:
        SandboxError: PROVIDER_ERROR, it does not say so.
    """
    skips: dict[str, Skip] = {}
    for path, why in _mapped(value).items():
        if not isinstance(why, str) or why not in _SKIPS:
            raise _nonsense("files that were left out for no known reason")
        skips[path] = _SKIPS[why]
    return skips


def _mapped(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _nonsense("a list in place of paths with what is said of each")
    return cast("dict[str, object]", value)


def _nonsense(what: str) -> SandboxError:
    return SandboxError(f"the sandbox told nonsense ({what}); make another and restore the last checkpoint into it")
