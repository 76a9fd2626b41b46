"""One trace from a request to each unit of its video, where somebody takes it: OTLP over HTTP, off unless configured.

Spans are OpenTelemetry's; where ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or that for traces alone) names nobody, nothing of it
is imported and nothing is made. A trace goes on in another process, or after a crash, from what its rows say: the W3C
``traceparent`` of what asked for the work. Workers make no spans: who coordinates them knows when they were asked, what
each unit took and where, so a capture needs neither the network nor a clock that agrees.

Spans name sessions, jobs and units, never prompts, files or keys.
"""

from __future__ import annotations

import contextvars
import os
import socket
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

__all__ = ["ENDPOINTS", "Attributes", "ended_span", "flush", "only_the_trace", "span", "trace_id", "trace_parent"]

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""The variables that say who takes traces, as OpenTelemetry has them."""
Attributes: TypeAlias = Mapping[str, str | int | float | bool]

_DELAY_MS = 1_000
_current: contextvars.ContextVar[str | None] = contextvars.ContextVar("koda_trace_parent", default=None)


def trace_parent() -> str | None:
    """Return the span that this runs in, as ``traceparent``: what goes on from here names it."""
    return _current.get()


def trace_id() -> str | None:
    """Return the trace that this runs in, as logs name it."""
    parent = _current.get()
    return None if parent is None else parent.split("-")[1]


def only_the_trace() -> contextvars.Context:
    """Return a context for work that outlives what asked for it: it has the trace, and nothing else."""
    context = contextvars.Context()
    context.run(_current.set, _current.get())
    return context


@contextmanager
def span(name: str, attributes: Attributes | None = None, *, parent: str | None = None) -> Generator[Span | None]:
    """Have what runs in the block be a span; None where nobody takes traces.

    Args:
        name: What it is, of a few.
        attributes: Which.
        parent: A ``traceparent``; that of the block around this one when None.
    """
    provider = _provider()
    if provider is None:
        yield None
        return
    from opentelemetry.trace import Status, StatusCode

    made = _begin(provider, name, attributes, parent or _current.get(), began_ns=time.time_ns())
    before = _current.set(_named(made))
    try:
        yield made
    except BaseException as error:
        made.set_status(Status(StatusCode.ERROR, type(error).__name__))
        raise
    finally:
        _current.reset(before)
        made.end()


def ended_span(name: str, attributes: Attributes, *, took_s: float) -> None:
    """Make a span, below the one that this runs in, of something that ended now and was measured elsewhere."""
    provider = _provider()
    if provider is not None:
        ended_ns = time.time_ns()
        began_ns = ended_ns - int(took_s * 1e9)
        _begin(provider, name, attributes, _current.get(), began_ns=began_ns).end(ended_ns)


def flush() -> None:
    """Send what is made; else that is done each second, and when the process ends in good order."""
    provider = _provider()
    if provider is not None:
        provider.force_flush()


def _begin(
    provider: TracerProvider, name: str, attributes: Attributes | None, parent: str | None, *, began_ns: int
) -> Span:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carried = {} if parent is None else {"traceparent": parent}
    context = TraceContextTextMapPropagator().extract(carried)
    tracer = provider.get_tracer("koda_ray")
    return tracer.start_span(name, context=context, attributes=attributes, start_time=began_ns)


def _named(made: Span) -> str:
    context = made.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


@cache
def _provider() -> TracerProvider | None:
    """Return who makes this process's spans; it ends with the process."""
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        # the variable may be there for others: a cluster may set it for every program
        import structlog  # not through our logs, which name the trace

        structlog.get_logger(__name__).warning(
            "traces are not sent", way_out="pip install 'koda-ray[tracing]'", error=str(error)
        )
        return None
    resource = Resource.create({"service.name": "koda_ray", "host.name": socket.gethostname()})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=_DELAY_MS))
    return provider
