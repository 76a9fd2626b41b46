"""Which addresses no sandbox may ever be connected to, whatever name led there: all that are not public.

A list of what is refused is never whole, so for IPv6 it is the other way round: only global unicast space is let
through, less what is set aside in it. An IPv4 address can hide in an IPv6 one (mapped, NAT64, 6to4, Teredo); NAT64 is
how a network without IPv4 reaches it, so there the hidden address is judged, and the others are refused as they are.

Source: the IANA special-purpose address registries for IPv4 and IPv6; RFC 6052 for NAT64's well-known prefix.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

__all__ = ["Address", "Network", "own_networks", "why_forbidden"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_SPECIAL_V4 = {
    "0.0.0.0/8": "this host",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "carrier-grade NAT",
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "a cloud's metadata service",  # Azure's, in the middle of public space
    "169.254.0.0/16": "link-local, where clouds keep metadata",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "set aside for protocols",
    "192.0.2.0/24": "for documentation",
    "192.88.99.0/24": "a 6to4 relay",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "for benchmarks",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_SPECIAL_V6 = {
    "::/128": "this host",
    "::1/128": "loopback",
    "::ffff:0:0/96": "IPv4 in disguise",
    "::/96": "IPv4 in disguise",
    "64:ff9b:1::/48": "a local NAT64",
    "2001::/23": "set aside for protocols",
    "2001:db8::/32": "for documentation",
    "2002::/16": "6to4, which is IPv4 in disguise",
    "3fff::/20": "for documentation",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
}
_V4 = tuple((IPv4Network(text), why) for text, why in _SPECIAL_V4.items())
_V6 = tuple((IPv6Network(text), why) for text, why in _SPECIAL_V6.items())
_NAT64 = IPv6Network("64:ff9b::/96")
_GLOBAL_V6 = IPv6Network("2000::/3")


def why_forbidden(address: Address, denied: Iterable[Network] = ()) -> str | None:
    """Say why nothing may be connected to an address; None when it is public and not denied.

    Args:
        address: As it came out of a look-up, or was written in a request.
        denied: The networks of this installation: what the sandbox must not reach although it is public.
    """
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return "link-local"
    if any(address in network for network in denied):
        return "this installation's own"
    if isinstance(address, IPv4Address):
        return next((why for network, why in _V4 if address in network), None)
    if address in _NAT64:
        return why_forbidden(IPv4Address(int(address) & 0xFFFFFFFF), denied)
    why = next((why for network, why in _V6 if address in network), None)
    return why or (None if address in _GLOBAL_V6 else "not global unicast")


def own_networks() -> tuple[Network, ...]:
    """The addresses that this machine's own interfaces have now: a public one leads to its services as well."""
    import psutil  # whoever only writes rules needs none of it

    found: dict[Network, None] = {}
    for addresses in psutil.net_if_addrs().values():
        for entry in addresses:
            try:
                found[ip_network(ip_address(entry.address.partition("%")[0]))] = None
            except ValueError:  # a hardware address
                continue
    return tuple(found)
