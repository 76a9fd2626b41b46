"""A server that falls silent: what is sent to its port here, and what it sends, is dropped, and nobody is told.

In a name space of networks of one's own, or the whole machine would be cut off.
"""

from __future__ import annotations

import subprocess

__all__ = ["fall_silent", "speak_again"]


def fall_silent(port: int) -> None:
    """Drop the packets of a server that listens at a port of TCP."""
    _rules("-I", port)


def speak_again(port: int) -> None:
    """Let them through again."""
    _rules("-D", port)


def _rules(change: str, port: int) -> None:
    for chain, which in (("INPUT", "--dport"), ("OUTPUT", "--sport")):
        rule = [change, chain, "-p", "tcp", which, str(port), "-j", "DROP"]
        subprocess.run(["iptables", "-w", *rule], check=True)
