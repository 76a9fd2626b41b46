"""A collector that speaks OTLP over HTTP, and keeps the spans that it is sent."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from koda_ray import tracing

__all__ = ["Collector", "KeptSpan", "collecting"]


@dataclass(frozen=True)
class KeptSpan:
    """A span as it was sent."""

    name: str
    trace: str
    id: str
    parent: str
    took_s: float
    attributes: dict[str, str | int | bool]


@dataclass
class Collector:
    """What was sent so far."""

    url: str
    spans: list[KeptSpan] = field(default_factory=list)

    def named(self, name: str) -> list[KeptSpan]:
        """Find spans, after what is made was sent."""
        tracing.flush()
        return [span for span in self.spans if span.name == name]

    def under(self, span: KeptSpan) -> list[str]:
        """Name the spans that one is in, the nearest first."""
        known, names = {each.id: each for each in self.spans}, list[str]()
        while (above := known.get(span.parent)) is not None:
            names.append(above.name)
            span = above
        return names


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    collector.spans += map(_kept, scope.spans)
            said = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _kept(span: object) -> KeptSpan:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    assert isinstance(span, Span)
    attributes = {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in span.attributes}
    took_s = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
    ids = (each.hex() for each in (span.trace_id, span.span_id, span.parent_span_id))
    return KeptSpan(span.name, *ids, took_s, attributes)
