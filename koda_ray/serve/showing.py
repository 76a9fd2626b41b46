"""What stands around a preview: a page of ours, in whose frame the hostile page is shown under a passing address.

A page that has a window to itself can leave it for anywhere, with its own address in hand. In our frame it cannot: the
policy of the page around it (``frame-src 'self'``) holds for wherever the frame would go. And the address that it has
there is not the one that was handed out: it is good only while that page around it is open, and says so over a socket
which takes the token. So what it may show of it, it could as well show itself. No cookie binds it to the browser that
looks: for a frame without an origin only its document comes with one, its scripts come with none or with what any site
may have sent (`SameSite=None`), and modules, of which Vite's pages are made, never. No service worker stands before
such a frame, and what a browser says of where a request comes from (`Sec-Fetch-Site`) is the same for another site's.
What is left is the network: where nobody stands in front, who asks is where the token came from.

Where one of our pages shows it in turn, messages pass between the two: requests to play and to seek, and where the page
is (the template's ``src/koda/bridge.ts``). Who may show it is this page's policy; what a hostile page tells is for them
to doubt.

Source: Content Security Policy Level 3, ``frame-src`` and ``frame-ancestors``.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
import secrets
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from koda_ray.serve.signing import Forbidden, Grant
from koda_ray.types import now

__all__ = ["GRACE_S", "REFUSED", "Showing", "page_around"]

GRACE_S = 30.0
"""How long a page is shown that nobody is known to look at, in seconds: until its socket is there, or there again."""
_ADDRESS = re.compile(r"[A-Za-z0-9_-]{22,64}")
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Preview</title>
<style nonce="{nonce}">
  html, body {{ margin: 0; height: 100%; overflow: hidden; }}
  iframe {{ display: block; width: 100%; height: 100%; border: 0; }}
</style>
<iframe title="The page" sandbox="allow-scripts"></iframe>
<script nonce="{nonce}">
  const given = JSON.parse({given});
  const frame = document.querySelector('iframe');
  const hold = () => {{
    const socket = new WebSocket(location.origin.replace(/^http/, 'ws') + given.hold);
    socket.onclose = ({{ code }}) => code === {refused} || setTimeout(hold, 1000);
  }};
  hold();
  // requests of whoever shows us go in, and what the page tells goes out; nothing else passes
  addEventListener('message', ({{ source, data }}) => {{
    if (parent === window || data?.koda !== 1) return;
    if (source === frame.contentWindow) parent.postMessage(data, '*');
    else if (source === parent) frame.contentWindow.postMessage(data, '*');
  }});
  frame.src = given.shown + location.hash;
  frame.onload = () => parent === window && frame.focus(); // shown by another page it takes the keyboard from nobody
</script>
"""
REFUSED = 4403
"""How a socket ends that holds nothing: its page is not to ask again."""


@dataclass
class _Shown:
    grant: Grant
    peers: set[str | None]
    holders: int = 0
    left_at: float = 0.0
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Showing:
    """Which pages somebody looks at now, by the passing address of each.

    Args:
        grace_s: How long one is there that nobody is known to look at, in seconds.
    """

    def __init__(self, *, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._shown: dict[str, _Shown] = {}

    def begin(self, grant: Grant, *, peer: str | None) -> str:
        """Make a passing address for what a grant shows; ``peer`` is as of `held`."""
        address = secrets.token_urlsafe(16)
        with self.held(address, grant, peer=peer):  # let go of at once: until its page says that it is there
            return address

    def grant(self, address: str, *, peer: str | None) -> Grant:
        """Return what is shown at a passing address, to a peer that has held it.

        Raises:
            Forbidden: Nobody looks there any more, or from elsewhere, or what was granted is over.
        """
        found = self._shown.get(address)
        if found is None or peer not in found.peers or found.grant.expires_at <= now():
            raise Forbidden("nobody looks at this preview any more; open its own address again", code="NOT_SHOWN")
        return found.grant

    @contextmanager
    def held(self, address: str, grant: Grant, *, peer: str | None) -> Generator[None]:
        """Have a passing address be good for as long as the block runs, and a while longer.

        Whoever has the grant may: a page that is open when a server is started again brings its address along.

        Args:
            address: The passing address.
            grant: What is shown there.
            peer: Where on the network whoever holds it is; None where that cannot be told.

        Raises:
            Forbidden: It is no such address, or somebody else's.
        """
        found = self._shown.setdefault(address, _Shown(grant, {peer})) if _ADDRESS.fullmatch(address) else None
        if found is None or found.grant != grant:
            raise Forbidden("this address shows something else; open the preview's own address again", code="NOT_SHOWN")
        found.peers.add(peer)
        found.holders += 1
        try:
            yield
        finally:
            found.holders, found.left_at = found.holders - 1, time.monotonic()
            asyncio.get_running_loop().call_later(self._grace_s, self._look, address, found.left_at)

    async def over(self, address: str) -> None:
        """Wait until nobody looks there any more."""
        if (found := self._shown.get(address)) is not None:
            await found.over.wait()

    def _look(self, address: str, left_at: float) -> None:
        found = self._shown.get(address)
        if found is not None and found.holders == 0 and found.left_at <= left_at:
            del self._shown[address]
            found.over.set()


def page_around(*, shown: str, hold: str, sockets: str, parents: str) -> tuple[str, dict[str, str]]:
    """Return the page around what is shown, and its headers.

    Args:
        shown: The path that is shown, with its query, escaped as in addresses.
        hold: The path of the socket that the page keeps open.
        sockets: Where sockets of this proxy are, as sources of a policy.
        parents: Which pages may show the page in a frame, as sources of a policy.
    """
    nonce = secrets.token_urlsafe(16)
    given = json.dumps(json.dumps({"shown": shown, "hold": hold})).replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; frame-src 'self'; "
        f"connect-src 'self' {sockets}; base-uri 'none'; form-action 'none'; frame-ancestors {parents}"
    )
    headers = {
        "content-security-policy": policy,
        "referrer-policy": "no-referrer",  # the framed page would read the token there
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-robots-tag": "noindex",
    }
    return _PAGE.format(nonce=html.escape(nonce), given=given, refused=REFUSED), headers
