"""What a sandbox may reach: names on a list, two ports, and public addresses only.

A name is compared as text before it is looked up, so a name that is not on the list never reaches a name server: asking
for it would already carry data out. What a look-up says is judged by address afterwards (`addresses`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_network
from typing import TYPE_CHECKING, Literal

from koda_ray.errors import InvalidInput
from koda_ray.sandbox.egress.addresses import Address, Network, why_forbidden

if TYPE_CHECKING:
    from koda_ray.config import Settings

__all__ = ["PORTS", "Egress", "EgressLimits", "EgressRules", "RefusalCode", "Refused", "plain_host"]

PORTS = (80, 443)
"""The only ports that are ever connected to."""

RefusalCode = Literal[
    "BAD_REQUEST",
    "HEAD_TOO_LARGE",
    "HOST_NOT_ALLOWED",
    "PORT_NOT_ALLOWED",
    "ADDRESS_NOT_ALLOWED",
    "TLS_NAME_MISMATCH",
    "RESOLVE_FAILED",
    "CONNECT_FAILED",
    "UPSTREAM_BROKEN",
    "TOO_MANY_CONNECTIONS",
    "BYTES_SPENT",
    "TIMED_OUT",
]
_MB = 1024 * 1024
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAX_NAME = 253
_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class EgressLimits:
    """What one sandbox's proxy lets through, and how long it waits.

    Args:
        connections: Open at once.
        sent_bytes: Out of the sandbox, all connections together, for as long as its owner holds it.
        received_bytes: Into it, counted in the same way.
        head_bytes: A request's or a response's head.
        head_timeout_s: From a connection's start, or a request's first byte, to the end of the head.
        connect_timeout_s: For the look-up, and again for the connection to what it found.
        idle_timeout_s: Without a byte in either direction.
        total_timeout_s: For one connection as a whole.
        per_second: Connections and requests that are decided on, on average.
        burst: How many of them may come at once.
    """

    connections: int = 64
    sent_bytes: int = 64 * _MB
    received_bytes: int = 1024 * _MB
    head_bytes: int = 16 * 1024
    head_timeout_s: float = 10.0
    connect_timeout_s: float = 10.0
    idle_timeout_s: float = 60.0
    total_timeout_s: float = 900.0
    per_second: float = 100.0
    burst: int = 1000

    @classmethod
    def of(cls, settings: Settings) -> EgressLimits:
        """Read the limits from settings (SANDBOX_EGRESS_SENT_MB, SANDBOX_EGRESS_RECEIVED_MB)."""
        return cls(
            sent_bytes=settings.sandbox_egress_sent_mb * _MB, received_bytes=settings.sandbox_egress_received_mb * _MB
        )


class Refused(Exception):
    """Why a request does not get through; ends it, and becomes the answer and the audit's event.

    Args:
        code: For programs.
        status: Of the HTTP answer.
        words: For people: what was refused, and how to allow it.
    """

    def __init__(self, code: RefusalCode, status: int, words: str) -> None:
        super().__init__(words)
        self.code: RefusalCode = code
        self.status = status
        self.words = words


@dataclass(frozen=True, kw_only=True)
class EgressRules:
    """The allow-list, and the networks that are denied whatever name leads there. The default lets nothing through.

    Args:
        hosts: Names in lower case: ``example.com`` is that name, ``*.example.com`` any name below it.
        denied: Networks of this installation, such as a cluster's public addresses.
    """

    hosts: tuple[str, ...] = ()
    denied: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, hosts: Iterable[str], denied: Iterable[str] = ()) -> EgressRules:
        """Read rules as a person writes them.

        Raises:
            InvalidInput: INVALID_INPUT, with the entry that is not a host or a network.
        """
        return cls(hosts=tuple(_pattern(text) for text in hosts), denied=tuple(_network(text) for text in denied))

    @classmethod
    def of(cls, settings: Settings) -> EgressRules:
        """Read the rules from settings (SANDBOX_EGRESS_HOSTS, SANDBOX_EGRESS_DENIED).

        Raises:
            InvalidInput: INVALID_INPUT, as for ``parse``.
        """
        return cls.parse(_words(settings.sandbox_egress_hosts), _words(settings.sandbox_egress_denied))

    def check(self, host: str | Address, port: int) -> None:
        """Refuse a host or port that is not allowed, before anything is looked up.

        Raises:
            Refused: PORT_NOT_ALLOWED, ADDRESS_NOT_ALLOWED or HOST_NOT_ALLOWED.
        """
        if port not in PORTS:
            ports = " and ".join(map(str, PORTS))
            raise Refused("PORT_NOT_ALLOWED", 403, f"port {port} cannot be reached from a sandbox, only {ports} can")
        if isinstance(host, str):
            if host == "localhost" or host.endswith(".localhost"):
                raise _not_public(host, "loopback")
        else:
            self.check_addresses(str(host), [host])
        if not self.lists(str(host)):
            raise Refused("HOST_NOT_ALLOWED", 403, f"{host} is not on the list of allowed hosts. {self._way_out(host)}")

    def check_addresses(self, host: str, addresses: Sequence[Address]) -> None:
        """Refuse what a name led to, if any of it is not public: a mixed answer is how a check is got round.

        Raises:
            Refused: ADDRESS_NOT_ALLOWED.
        """
        for address in addresses:
            why = why_forbidden(address, self.denied)
            if why is not None:
                raise _not_public(host if host == str(address) else f"{host} is {address}, which", why)

    def lists(self, host: str) -> bool:
        """Whether a name in lower case is on the list."""
        return any(
            host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern for pattern in self.hosts
        )

    def _way_out(self, host: str | Address) -> str:
        shown = ", ".join(self.hosts[:_SHOWN]) or "none"
        more = f" and {len(self.hosts) - _SHOWN} more" if len(self.hosts) > _SHOWN else ""
        return (
            f"Whoever runs koda_ray can add it to SANDBOX_EGRESS_HOSTS (for example {host}, or *.example.com for all "
            f"names below one). Allowed are: {shown}{more}."
        )


@dataclass(frozen=True, kw_only=True)
class Egress:
    """What one sandbox may reach, and how much of it. The default lets nothing through."""

    rules: EgressRules = field(default_factory=EgressRules)
    limits: EgressLimits = field(default_factory=EgressLimits)

    @classmethod
    def of(cls, settings: Settings) -> Egress:
        """Read both from settings.

        Raises:
            InvalidInput: INVALID_INPUT, as for ``EgressRules.parse``.
        """
        return cls(rules=EgressRules.of(settings), limits=EgressLimits.of(settings))


def plain_host(text: str) -> str | Address:
    """Read a host as it stands in a request: a name in lower case without its last dot, or an address.

    Args:
        text: ``example.com``, ``192.0.2.1`` or ``[2001:db8::1]``.

    Raises:
        Refused: BAD_REQUEST for what is neither, also for numbers that some programs take for an address
            (``2130706433``, ``0x7f.1``, ``0177.0.0.1``): two readers must not read two things.
    """
    shown = text[:_MAX_NAME]
    if text.startswith("[") and text.endswith("]"):
        try:
            return IPv6Address(text[1:-1])
        except AddressValueError:
            raise Refused("BAD_REQUEST", 400, f"{shown} is not an IPv6 address") from None
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return IPv4Address(name)
        except AddressValueError:
            raise Refused(
                "BAD_REQUEST", 400, f"{shown} is a number and no plain IPv4 address; write a host's name"
            ) from None
    if len(name) > _MAX_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise Refused("BAD_REQUEST", 400, f"{shown} is not a host's name; write it in letters, digits, '-' and '.'")
    return name


def _not_public(what: str, why: str) -> Refused:
    return Refused(
        "ADDRESS_NOT_ALLOWED",
        403,
        f"{what} is not a public address ({why}). A sandbox never reaches those, and no setting allows it.",
    )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _pattern(text: str) -> str:
    wild = text.startswith("*.")
    try:
        host = plain_host(text[2:] if wild else text)
    except Refused as error:
        raise InvalidInput(
            f"SANDBOX_EGRESS_HOSTS holds {text[:80]!r}: {error.words} Write names as in registry.npmjs.org or "
            "*.example.com, with commas between them"
        ) from None
    if wild and (not isinstance(host, str) or "." not in host):
        raise InvalidInput(
            f"SANDBOX_EGRESS_HOSTS holds {text[:80]!r}, which allows far too much; name a domain, as in *.example.com"
        )
    return f"*.{host}" if wild else str(host)


def _network(text: str) -> Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise InvalidInput(
            f"SANDBOX_EGRESS_DENIED holds {text[:80]!r}, which is no network; write 198.51.100.0/24 or 2001:db8::/32"
        ) from None
