"""Which commands may be asked for; pure rules, shared by every provider.

They are about intent and good messages, not the boundary: that is the isolation around every process, so a command that
slips past the list below finds no network, no credentials and nothing to harm.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise

from koda_ray.errors import CommandBlocked, InvalidInput
from koda_ray.sandbox.egress.rules import EgressRules

__all__ = ["check_command"]

_PRIVILEGED = re.compile(
    r"sudo|su|doas|pkexec|mount|umount|chroot|nsenter|unshare|insmod|rmmod|modprobe|reboot|shutdown|"
    r"poweroff|halt|mkfs(?:\..*)?|fdisk|swapon|swapoff|sysctl|iptables|nft|systemctl"
)
_NETWORK = re.compile(r"curl|wget|nc|ncat|netcat|socat|ssh|scp|sftp|rsync|telnet|ftp|nmap|dig|nslookup")
_SHELLS = re.compile(r"sh|bash|dash|zsh|ash|ksh")
_WRAPPERS = re.compile(r"env|nohup|setsid|time|nice|exec|command|xargs|timeout|stdbuf|busybox")
_SYSTEM = ("/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/proc", "/sys", "/var", "/root", "/opt")
_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero"})
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]", "::1", "0.0.0.0"})
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/@]*@)?(\[[^\]]*\]|[^/:?#]+)", re.IGNORECASE)
_OPERATORS = frozenset({";", "&", "&&", "|", "||", "|&", "(", ")", "\n", "{", "}", "!"})
_KEYWORDS = frozenset({"then", "do", "else", "if", "while", "until", "elif", "for"})
_WRITERS = re.compile(r"cp|mv|ln|tee|touch|chmod|chown|truncate|install|sed|dd|mkdir|shred")
_MAX_NESTING = 4


def check_command(argv: Sequence[str], *, egress: EgressRules) -> None:
    """Refuse commands that no animation needs: privileges, system files, other hosts, removing everything.

    A list of names is advice to a model that errs, not a wall against one that attacks; see above.

    Args:
        argv: The command as an argument list; the text of ``("sh", "-c", text)`` is looked into.
        egress: The hosts that it may name.

    Raises:
        InvalidInput: INVALID_INPUT when there is no command, or an argument holds a NUL character.
        CommandBlocked: COMMAND_BLOCKED, naming the part and the rule.
    """
    if not argv or not argv[0]:
        raise InvalidInput("there is no command to run; give at least a program's name")
    if any("\0" in word for word in argv):
        raise InvalidInput("a command's arguments cannot hold a NUL character; remove it")
    _check_simple(list(argv), egress, depth=0)


def _blocked(words: Sequence[str], rule: str, reason: str) -> CommandBlocked:
    shown = shlex.join(words)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}..."
    return CommandBlocked(
        f"`{shown}` is not run in a sandbox ({rule}): {reason}", context={"command": shown, "rule": rule}
    )


def _check_text(text: str, egress: EgressRules, *, depth: int) -> None:
    if depth > _MAX_NESTING:
        raise _blocked(
            [text], "nesting", f"shells are nested more than {_MAX_NESTING} deep; write the commands plainly"
        )
    for words in _simple_commands(text):
        _check_simple(words, egress, depth=depth)


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


def _check_simple(words: list[str], egress: EgressRules, *, depth: int) -> None:
    while words and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=.*", words[0], re.DOTALL):
        words = words[1:]
    if not words:
        return
    program = words[0].rsplit("/", 1)[-1]
    if _WRAPPERS.fullmatch(program):
        rest = [word for word in words[1:] if not word.startswith("-") and not word.replace(".", "").isdigit()]
        if rest:
            _check_simple(rest, egress, depth=depth)
        return
    if _PRIVILEGED.fullmatch(program):
        reason = f"{program} needs rights that a sandbox does not have; do without: what is in the project is yours"
        raise _blocked(words, "privilege", reason)
    if _SHELLS.fullmatch(program):
        for flag, text in pairwise(words):
            if re.fullmatch(r"-[a-z]*c", flag):
                _check_text(text, egress, depth=depth + 1)
                return
    if program == "rm" and any(re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--recursive", word) for word in words[1:]):
        for target in words[1:]:
            if (target.rstrip("/*") == "" and target.startswith("/")) or target in ("~", "~/", "*", ".", ".."):
                raise _blocked(words, "remove-all", f"{target} is everything; name the files to remove")
    if _NETWORK.fullmatch(program) or (
        program == "git" and words[1:2] and words[1] in ("clone", "fetch", "pull", "push")
    ):
        _check_hosts(words, egress)
    _check_system_files(program, words)


def _check_hosts(words: Sequence[str], egress: EgressRules) -> None:
    hosts = {host.lower() for word in words[1:] for host in _URL.findall(word)}
    plain = {word.split("/", 1)[0].rsplit(":", 1)[0].lower() for word in words[1:] if not word.startswith("-")}
    beyond = {host for host in hosts - _LOCAL if not egress.lists(host)}
    if beyond or not (hosts or plain & _LOCAL):
        named = ", ".join(sorted(beyond)) or "other hosts"
        raise _blocked(
            words,
            "network",
            f"a sandbox reaches only what SANDBOX_EGRESS_HOSTS lists, so not {named}; use the project's files",
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
