"""Which paths and processes may be named; pure rules, shared by every provider and by the helper inside a sandbox.

The rules are about intent and good messages: a path that breaks one is refused before anything is touched, and a model
reads why. They are not the boundary: that is the isolation around every process and the race-free opening of files
(``beneath.py``).
"""

from __future__ import annotations

import posixpath
import re
import unicodedata

from koda_ray.errors import InvalidInput, InvalidPath

__all__ = [
    "MAX_COMPONENT_BYTES",
    "MAX_PATH_BYTES",
    "PLAIN_FOLDER_MODE",
    "PLAIN_MODE",
    "PROJECT_ROOT",
    "TEMPLATE_OWNED",
    "WRITABLE_PREFIXES",
    "check_process_name",
    "invalid_path",
    "is_process_name",
    "is_storable",
    "is_template_owned",
    "kept_folder_mode",
    "kept_mode",
    "leads_out",
    "readable",
    "storable",
    "writable",
]

PROJECT_ROOT = "/home/user/project"
"""Where the project lies for whoever looks from inside a sandbox, whatever the provider."""

PLAIN_MODE = 0o644
"""The permission bits of a file of which nothing else is said."""

PLAIN_FOLDER_MODE = 0o755
"""The same of a folder."""

MAX_COMPONENT_BYTES = 255
MAX_PATH_BYTES = 1024
WRITABLE_PREFIXES = ("src", "public", "scripts")
TEMPLATE_OWNED = (
    "src/koda/",
    "src/main.tsx",
    "src/hooks/",
    "src/utils/",
    "src/vite-env.d.ts",
    "index.html",
    "package",
    "tsconfig",
    "vite",
    "node_modules/",
    "dist/",
)
"""What generated code must leave alone, by prefix: the page contract, the clock and the build under them."""
_ROOT_FILE = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\.[A-Za-z][A-Za-z0-9_.-]*)\.(?:json|html|js|cjs|mjs|ts|mts|cts|css|md|toml|ya?ml|lock|lockb)"
    r"|\.(?:gitignore|npmrc|prettierrc|eslintrc|editorconfig|browserslistrc|env)"
)
_OWN = (posixpath.dirname(PROJECT_ROOT), "/tmp", "/dev/shm")
_DRIVE = re.compile(r"[A-Za-z]:")
_PROCESS_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def invalid_path(path: str, rule: str, reason: str) -> InvalidPath:
    """Make the INVALID_PATH error that names the path, the rule it breaks and the way out."""
    shown = path if len(path) <= 200 else f"{path[:200]}..."
    return InvalidPath(
        f"{shown!r} is not a path of this project ({rule}): {reason}; "
        "name a file relative to the project's root, such as 'src/App.tsx'",
        context={"path": shown.encode("utf-8", "backslashreplace").decode(), "rule": rule},
    )


def _parts(path: str) -> list[str]:
    if not path:
        raise invalid_path(path, "empty", "it is empty")
    try:
        encoded = path.encode("utf-8")
    except UnicodeEncodeError:
        raise invalid_path(path, "encoding", "it is not valid UTF-8") from None
    if "\0" in path:
        raise invalid_path(path, "nul", "it holds a NUL character")
    if any(unicodedata.category(char) == "Cc" for char in path):
        raise invalid_path(path, "control", "it holds a control character")
    if "\\" in path or _DRIVE.match(path):
        raise invalid_path(path, "separator", "it uses Windows separators or a drive letter; use '/'")
    if len(encoded) > MAX_PATH_BYTES + len(PROJECT_ROOT) + 1:
        raise invalid_path(path, "length", f"it has {len(encoded)} bytes, more than {MAX_PATH_BYTES}")
    if path.startswith("/"):
        if path != PROJECT_ROOT and not path.startswith(f"{PROJECT_ROOT}/"):
            raise invalid_path(path, "absolute", f"it is absolute and not inside {PROJECT_ROOT}")
        below = path[len(PROJECT_ROOT) + 1 :]
    else:
        below = path
    parts = [part for part in below.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise invalid_path(path, "parent", "it contains '..'")
    for part in parts:
        if len(part.encode()) > MAX_COMPONENT_BYTES:
            raise invalid_path(path, "component", f"one of its names is longer than {MAX_COMPONENT_BYTES} bytes")
    if len("/".join(parts).encode()) > MAX_PATH_BYTES:
        raise invalid_path(path, "length", f"it is longer than {MAX_PATH_BYTES} bytes")
    return parts


def readable(path: str) -> str:
    """Check a path that will be read or listed.

    Args:
        path: Relative, or absolute inside the project as the agent sees it (``/home/user/project/...``).

    Returns:
        The path relative to the project's root, normalised; ``"."`` for the root.

    Raises:
        InvalidPath: INVALID_PATH, naming the rule in ``context["rule"]``.
    """
    parts = _parts(path)
    if "node_modules" in parts:
        raise invalid_path(path, "node_modules", "installed packages are not part of the project")
    return "/".join(parts) or "."


def storable(path: str) -> str:
    """Check a path that may be written or removed, and that a checkpoint may hold: any file of the project.

    Raises:
        InvalidPath: INVALID_PATH, naming the rule in ``context["rule"]``.
    """
    name = readable(path)
    if name == ".":
        raise invalid_path(path, "directory", "it names the project itself, not a file in it")
    return name


def is_storable(path: str) -> bool:
    """Whether a path is one that a checkpoint may hold, and written as it would be there."""
    try:
        return storable(path) == path
    except InvalidPath:
        return False


def leads_out(path: str, target: str) -> bool:
    """Whether a symbolic link names what is not the sandbox's own, by its words alone.

    What it names may lead on through other links: these are looked at where they lie.

    Args:
        path: The link's, relative to the project.
        target: What it holds.
    """
    named = posixpath.normpath(posixpath.join(PROJECT_ROOT, posixpath.dirname(path), target))
    return not any(named == own or named.startswith(f"{own}/") for own in _OWN)


def kept_mode(mode: int) -> int:
    """Return what is kept of a file's mode: permission bits, none that lend rights, readable to its owner at least.

    A file that its own owner cannot read would be in no checkpoint of the sandbox that it is restored into.
    """
    return mode & 0o777 | 0o400


def kept_folder_mode(mode: int) -> int:
    """Return what is kept of a folder's mode, as of a file's: its owner can look into it and change what is there."""
    return mode & 0o777 | 0o700


def writable(path: str) -> str:
    """Check a path that an agent wants to write: of what a sandbox takes, what an animation's code is made of.

    Only files below ``src/``, ``public/`` and ``scripts/`` and configuration files in the root are an agent's to write.

    Returns:
        The path relative to the project's root, normalised.

    Raises:
        InvalidPath: INVALID_PATH, naming the rule in ``context["rule"]``.
    """
    name = storable(path)
    first, _, rest = name.partition("/")
    if rest and first in WRITABLE_PREFIXES:
        return name
    if not rest and first not in WRITABLE_PREFIXES and _ROOT_FILE.fullmatch(first):
        return name
    raise invalid_path(
        path,
        "prefix",
        "only files below src/, public/ and scripts/, and configuration files in the root, can be written",
    )


def is_template_owned(path: str) -> bool:
    """Whether a file belongs to the template; ``path`` is relative to the project's root and normalised."""
    return path.startswith(TEMPLATE_OWNED)


def is_process_name(name: str) -> bool:
    """Whether a background process may have this name."""
    return _PROCESS_NAME.fullmatch(name) is not None


def check_process_name(name: str) -> str:
    """Check a background process's name: lower-case letters, digits, ``-`` and ``_``, at most 63.

    Raises:
        InvalidInput: INVALID_INPUT with the name.
    """
    if not is_process_name(name):
        raise InvalidInput(
            f"{name[:80]!r} cannot name a background process; use up to 63 lower-case letters, digits, '-' and '_'"
        )
    return name
