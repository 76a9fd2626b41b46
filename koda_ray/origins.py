"""Origins of pages that an operator names, as browsers write them: a scheme, a host and a port, and nothing more.

They are compared as text with what a browser says of a page, and become sources of a policy, so each is taken only as
a browser would write it, and only where a policy has words for it: what differs would match nothing and tell nobody.
Chromium (156 is tried) drops a source whose host has ``_`` or is an IPv6 address, and lets no page there frame us.

How a browser writes a name with other letters depends on tables that Python's own ``idna`` codec has not (of 2003, by
which ``straße.de`` is another host), so that is left to a browser.

Source: RFC 6454, sections 6.2 and 7; the URL standard, serialising an origin and "ends in a number"; CSP, host-part.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from urllib.parse import urlsplit

from koda_ray.errors import InvalidInput

__all__ = ["origins_in"]

_USUAL_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?!-)[a-z0-9-]+(?:\.[a-z0-9-]+)*")
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_FORM = "an origin is scheme://host or scheme://host:port"


def origins_in(text: str) -> tuple[str, ...]:
    """Read origins, separated by commas, as ``KODA_ALLOWED_ORIGINS`` has them.

    Raises:
        InvalidInput: One is none, or no browser writes it so. The message has it, and how it is to be written.
    """
    return tuple(dict.fromkeys(_origin(each) for part in text.split(",") if (each := part.strip())))


def _origin(text: str) -> str:
    if "*" in text:
        raise _wrong(text, "name each origin by itself: for all of them there is no word")
    if text == "null":
        raise _wrong(
            text,
            "files and sandboxed frames, whoever made them, are all of this origin: serve the page from an address",
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _wrong(text, f"{_FORM}, such as https://canvas.example.com") from None
    place = parts.netloc.rpartition("@")[2].lower()
    host = place.partition(":")[0]
    if place.startswith("["):
        raise _wrong(text, "no policy of a page names an IPv6 address: serve the page from a name, such as localhost")
    if "_" in host:
        raise _wrong(text, "no policy of a page names a host with '_': serve the page from a name without it")
    if not host.isascii():
        raise _wrong(text, "write it with letters of ASCII (xn--...), as location.origin in the page's console says it")
    if parts.scheme not in _USUAL_PORTS or not _HOST.fullmatch(host) or parts.username is not None:
        raise _wrong(text, f"{_FORM}, such as https://canvas.example.com, with http or https")
    if _NUMBER.fullmatch(host) and not _is_address(host):
        raise _wrong(text, "browsers read its host as an address: write that with four numbers, such as 127.0.0.1")
    as_written = f"{parts.scheme}://{host}" + (f":{port}" if port and port != _USUAL_PORTS[parts.scheme] else "")
    if text != as_written:
        raise _wrong(text, f"{_FORM}, without a path and as browsers write it: {as_written}")
    return text


def _is_address(host: str) -> bool:
    try:
        return str(IPv4Address(host)) == host
    except ValueError:
        return False


def _wrong(text: str, way_out: str) -> InvalidInput:
    shown = re.sub(r"//.*@", "//...@", text)[:200]  # a password has no place in a log
    return InvalidInput(f"KODA_ALLOWED_ORIGINS names {shown!r}: {way_out}; leave it out to let no other origin in")
