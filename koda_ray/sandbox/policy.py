"""Which paths may be named and which commands may be asked for; pure rules, shared by every provider.

The rules are about intent and good messages: a path that breaks one is refused before anything is touched, and a model
reads why. They are not the boundary. That is the isolation around every process and the race-free opening of files
(``beneath.py``), so a command that slips past the list below finds no network, no credentials and nothing to harm.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise

from koda_ray.errors import CommandBlocked, InvalidInput, InvalidPath

__all__ = [
    "MAX_COMPONENT_BYTES",
    "MAX_PATH_BYTES",
    "PROJECT_ROOT",
    "WRITABLE_PREFIXES",
    "check_command",
    "check_process_name",
    "invalid_path",
    "readable",
    "storable",
    "writable",
]

PROJECT_ROOT = "/home/user/project"
"""Where the project lies for whoever looks from inside a sandbox, whatever the provider."""

MAX_COMPONENT_BYTES = 255
MAX_PATH_BYTES = 1024
WRITABLE_PREFIXES = ("src", "public", "scripts")
_ROOT_FILE = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\.[A-Za-z][A-Za-z0-9_.-]*)\.(?:json|html|js|cjs|mjs|ts|mts|cts|css|md|toml|ya?ml|lock|lockb)"
    r"|\.(?:gitignore|npmrc|prettierrc|eslintrc|editorconfig|browserslistrc|env)"
)
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
    """Check a path that a checkpoint may hold: any file of the project, wherever a command has put it.

    Raises:
        InvalidPath: INVALID_PATH, naming the rule in ``context["rule"]``.
    """
    name = readable(path)
    if name == ".":
        raise invalid_path(path, "directory", "it names the project itself, not a file in it")
    return name


def writable(path: str) -> str:
    """Check a path that will be written or removed.

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


def check_process_name(name: str) -> str:
    """Check a background process's name: lower-case letters, digits, ``-`` and ``_``, at most 63.

    Raises:
        InvalidInput: INVALID_INPUT with the name.
    """
    if not _PROCESS_NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:80]!r} cannot name a background process; use up to 63 lower-case letters, digits, '-' and '_'"
        )
    return name


_PRIVILEGED = re.compile(
    r"sudo|su|doas|pkexec|mount|umount|chroot|nsenter|unshare|insmod|rmmod|modprobe|reboot|shutdown|"
    r"poweroff|halt|mkfs(?:\..*)?|fdisk|swapon|swapoff|sysctl|iptables|nft|systemctl"
)
_NETWORK = re.compile(r"curl|wget|nc|ncat|netcat|socat|ssh|scp|sftp|rsync|telnet|ftp|nmap|dig|nslookup")
_SHELLS = re.compile(r"sh|bash|dash|zsh|ash|ksh")
_WRAPPERS = re.compile(r"env|nohup|setsid|time|nice|exec|command|xargs|timeout|stdbuf|busybox")
_SYSTEM = ("/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/proc", "/sys", "/var", "/root", "/opt")
_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero"})
_REGISTRIES = frozenset(
    {"registry.npmjs.org", "registry.yarnpkg.com", "npm.jsr.io", "pypi.org", "files.pythonhosted.org"}
)
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]", "::1", "0.0.0.0"})
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/@]*@)?(\[[^\]]*\]|[^/:?#]+)", re.IGNORECASE)
_OPERATORS = frozenset({";", "&", "&&", "|", "||", "|&", "(", ")", "\n", "{", "}", "!"})
_KEYWORDS = frozenset({"then", "do", "else", "if", "while", "until", "elif", "for"})
_WRITERS = re.compile(r"cp|mv|ln|tee|touch|chmod|chown|truncate|install|sed|dd|mkdir|shred")
_MAX_NESTING = 4


def check_command(argv: Sequence[str]) -> None:
    """Refuse commands that no animation needs: privileges, system files, other hosts, removing everything.

    A list of names is advice to a model that errs, not a wall against one that attacks; see the module's docstring.

    Args:
        argv: The command as an argument list; the text of ``("sh", "-c", text)`` is looked into.

    Raises:
        InvalidInput: INVALID_INPUT when there is no command, or an argument holds a NUL character.
        CommandBlocked: COMMAND_BLOCKED, naming the part and the rule.
    """
    if not argv or not argv[0]:
        raise InvalidInput("there is no command to run; give at least a program's name")
    if any("\0" in word for word in argv):
        raise InvalidInput("a command's arguments cannot hold a NUL character; remove it")
    _check_simple(list(argv), depth=0)


def _blocked(words: Sequence[str], rule: str, reason: str) -> CommandBlocked:
    shown = shlex.join(words)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}..."
    return CommandBlocked(
        f"`{shown}` is not run in a sandbox ({rule}): {reason}", context={"command": shown, "rule": rule}
    )


def _check_text(text: str, *, depth: int) -> None:
    if depth > _MAX_NESTING:
        raise _blocked(
            [text], "nesting", f"shells are nested more than {_MAX_NESTING} deep; write the commands plainly"
        )
    for words in _simple_commands(text):
        _check_simple(words, depth=depth)


def _simple_commands(text: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for token in lexer:
            if token in _OPERATORS or (token in _KEYWORDS and not words):
                if words:
                    yield words
                words = []
            else:
                words.append(token)
    except ValueError:
        pass  # an unclosed quote: the shell itself will say so
    if words:
        yield words


def _check_simple(words: list[str], *, depth: int) -> None:
    while words and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=.*", words[0], re.DOTALL):
        words = words[1:]
    if not words:
        return
    program = words[0].rsplit("/", 1)[-1]
    if _WRAPPERS.fullmatch(program):
        rest = [word for word in words[1:] if not word.startswith("-") and not word.replace(".", "").isdigit()]
        if rest:
            _check_simple(rest, depth=depth)
        return
    if _PRIVILEGED.fullmatch(program):
        raise _blocked(words, "privilege", f"{program} needs rights that a sandbox does not have")
    if _SHELLS.fullmatch(program):
        for flag, text in pairwise(words):
            if re.fullmatch(r"-[a-z]*c", flag):
                _check_text(text, depth=depth + 1)
                return
    if program == "rm" and any(re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--recursive", word) for word in words[1:]):
        for target in words[1:]:
            if (target.rstrip("/*") == "" and target.startswith("/")) or target in ("~", "~/", "*", ".", ".."):
                raise _blocked(words, "remove-all", f"{target} is everything; name the files to remove")
    if _NETWORK.fullmatch(program) or (
        program == "git" and words[1:2] and words[1] in ("clone", "fetch", "pull", "push")
    ):
        _check_hosts(words)
    _check_system_files(program, words)


def _check_hosts(words: Sequence[str]) -> None:
    hosts = {host.lower() for word in words[1:] for host in _URL.findall(word)}
    plain = {word.split("/", 1)[0].rsplit(":", 1)[0].lower() for word in words[1:] if not word.startswith("-")}
    if hosts - _LOCAL - _REGISTRIES or not (hosts or plain & _LOCAL):
        named = ", ".join(sorted(hosts - _LOCAL - _REGISTRIES)) or "other hosts"
        raise _blocked(
            words, "network", f"a sandbox has no network, so {named} cannot be reached; use the project's files"
        )


def _check_system_files(program: str, words: Sequence[str]) -> None:
    targets = [after for redirect, after in pairwise(words) if redirect in (">", ">>", ">|", "&>")]
    if _WRITERS.fullmatch(program):
        in_place = program != "sed" or any(word.startswith("-i") for word in words[1:])
        targets += [word.removeprefix("of=") for word in words[1:] if in_place and not word.startswith("-")][-1:]
    if program == "rm":
        targets += [word for word in words[1:] if not word.startswith("-")]
    for target in targets:
        if target in _DEVICES:
            continue
        if any(target == root or target.startswith(f"{root}/") for root in (*_SYSTEM, "/dev")):
            raise _blocked(words, "system-files", f"{target} belongs to the system; write inside the project")
