"""Origins of pages that an operator names, as browsers write them: a scheme, a host and a port, and nothing more.

They are compared as text with what a browser says of a page, and become sources of a policy, so each is taken only as
a browser would write it: what differs would match nothing and tell nobody.

Source: RFC 6454, sections 6.2 and 7; the URL standard, serialising an origin.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from urllib.parse import urlsplit

from koda_ray.errors import InvalidInput

__all__ = ["origins_in"]

_USUAL_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?!-)[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:]+\]")
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
        host, port = _host(parts.netloc), parts.port
    except ValueError:
        raise _wrong(text, f"{_FORM}, such as https://canvas.example.com") from None
    if parts.scheme not in _USUAL_PORTS or not _HOST.fullmatch(host) or parts.username is not None:
        raise _wrong(text, f"{_FORM}, such as https://canvas.example.com, with http or https")
    as_written = f"{parts.scheme}://{host}" + (f":{port}" if port and port != _USUAL_PORTS[parts.scheme] else "")
    if text != as_written:
        raise _wrong(text, f"{_FORM}, without a path and as browsers write it: {as_written}")
    return text


def _host(netloc: str) -> str:
    """Return a name or address as browsers write it; ValueError where it is none."""
    name = netloc.rpartition("@")[2].lower()
    if name.startswith("["):
        return f"[{IPv6Address(name[1:].partition(']')[0])}]"
    return name.partition(":")[0].encode("idna").decode("ascii") if name.partition(":")[0] else ""


def _wrong(text: str, way_out: str) -> InvalidInput:
    shown = re.sub(r"//.*@", "//...@", text)[:200]  # a password has no place in a log
    return InvalidInput(f"KODA_ALLOWED_ORIGINS names {shown!r}: {way_out}; leave it out to let no other origin in")
