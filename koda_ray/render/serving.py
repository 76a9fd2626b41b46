"""What a page and its workers ask for: answered from the bundle, or refused; and what of it has not arrived yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from koda_ray.render.bundle import Bundle
from koda_ray.render.cdp import ProtocolSession
from koda_ray.render.inputs import Inputs
from koda_ray.render.problems import Problems

__all__ = ["ORIGIN", "BundleServer"]

ORIGIN = "https://bundle.koda"
"""A secure context, as the live preview's localhost is: without it `crypto.randomUUID` and others are missing."""

# film and sound are read as far as they are played; streams have no end; a ping's answer changes nothing
_NEVER_DONE = frozenset({"Media", "EventSource", "WebSocket", "Ping", "Prefetch", "CSPViolationReport"})
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")
_MAX_URL_CHARS = 300


class BundleServer:
    """Serves a bundle at `ORIGIN` to the targets that are attached to it.

    Args:
        bundle: What there is.
        problems: Hears of what there is not.
        on_journey: Hears which frame is about to go where in the bundle; elsewhere nobody goes.

    Attributes:
        inputs: What was asked for so far.
        begun: How many requests there were so far, of whatever kind.
    """

    def __init__(self, bundle: Bundle, problems: Problems, on_journey: Callable[[str, str], None]) -> None:
        self._files = bundle.files
        self.inputs = Inputs(bundle)
        self._problems = problems
        self._on_journey = on_journey
        self._under_way: dict[str, tuple[str, str, str | None]] = {}
        self.begun = 0

    def attach(self, session: ProtocolSession) -> None:
        """Answer a target's requests from now on; a page's also answers those of its workers."""
        session.on("Fetch.requestPaused", lambda event: self._on_request(session, event))
        session.on("Network.requestWillBeSent", lambda event: self._on_sent(session, event))
        for over in ("Network.loadingFinished", "Network.loadingFailed"):
            session.on(over, self._on_over)
        session.post("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})
        session.post("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0})

    def detach(self, session_id: str) -> None:
        """Wait for nothing of a target that has gone."""
        for request in [number for number, (owner, *_) in self._under_way.items() if owner == session_id]:
            del self._under_way[request]

    @property
    def pending(self) -> list[str]:
        """Names of the requests that are under way."""
        return [f"request {url}" for _, url, _ in self._under_way.values()]

    def arrived(self, frame: str) -> None:
        """Wait for no document of a frame: the one that is there says itself when it is whole."""
        for request in [number for number, (*_, owner) in self._under_way.items() if owner == frame]:
            del self._under_way[request]

    def _on_sent(self, session: ProtocolSession, event: Mapping[str, object]) -> None:
        self.begun += 1
        if event.get("type") not in _NEVER_DONE:
            request = cast("Mapping[str, object]", event["request"])
            frame = str(event.get("frameId")) if event.get("type") == "Document" else None
            self._under_way[str(event["requestId"])] = session.id, str(request["url"])[:_MAX_URL_CHARS], frame

    def _on_over(self, event: Mapping[str, object]) -> None:
        # a worker's script is asked for by its page, and arrives in the worker
        self._under_way.pop(str(event["requestId"]), None)

    def _on_request(self, session: ProtocolSession, event: Mapping[str, object]) -> None:
        request = cast("Mapping[str, Any]", event["request"])
        url, number = str(request["url"]), event["requestId"]
        parts = urlsplit(url)
        path = unquote(parts.path).lstrip("/") or "index.html"
        own = f"{parts.scheme}://{parts.netloc}" == ORIGIN
        if own:
            self.inputs.asked(path, str(event.get("resourceType")))
        body = self._files.get(path) if own else None
        journey = event.get("resourceType") == "Document"
        if own and journey:
            self._on_journey(str(event.get("frameId")), url[:_MAX_URL_CHARS])
        if body is not None:
            headers = {"content-type": Bundle.content_type(path), "access-control-allow-origin": "*"}
            wanted = {name.lower(): str(value) for name, value in request.get("headers", {}).items()}.get("range", "")
            _fulfill(session, number, body, headers, wanted)
        elif own and path == "favicon.ico":
            _fulfill(session, number, b"", {}, status=204)
        elif own:
            self._problems.add("resource", f"{path} is not in the bundle (requested by the page)")
            _fulfill(session, number, b"", {}, status=404)
        else:
            refused = url[:_MAX_URL_CHARS]
            self._problems.add("resource", f"{refused} was refused: a render has no network; bundle the file")
            # a frame that may not go somewhere stays as it is, instead of showing the browser's words for that
            reason = "Aborted" if journey else "BlockedByClient"
            session.post("Fetch.failRequest", {"requestId": number, "errorReason": reason})


def _fulfill(
    session: ProtocolSession,
    request: object,
    body: bytes,
    headers: Mapping[str, str],
    wanted: str = "",
    *,
    status: int = 200,
) -> None:
    """Answer a request; a part of the body where one is wanted, which seeking in a film is made of."""
    part = memoryview(body)
    ranged = _RANGE.fullmatch(wanted)
    if ranged and int(ranged[1]) < len(body):
        first, last = int(ranged[1]), min(int(ranged[2] or len(body)), len(body) - 1)
        headers = {**headers, "accept-ranges": "bytes", "content-range": f"bytes {first}-{last}/{len(body)}"}
        status, part = 206, part[first : last + 1]
    answer: dict[str, object] = {
        "requestId": request,
        "responseCode": status,
        "responseHeaders": [{"name": name, "value": value} for name, value in headers.items()],
    }
    session.post_body("Fetch.fulfillRequest", answer, part)
