"""The next model of a list, where the one that was asked is overloaded or gone, or has what error a list is there for.

What another model would answer no better is not passed on: a refusal, and, where no list is for that, a bad request, a
wrong key, a conversation that is too long. An answer whose first words were read begins anew elsewhere only for readers
that said they forget those words. Readers hear of every switch, in the stream, and a model that was given up is asked
last for a while, so that not each call of a session waits for it again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import cast

from koda_ray.errors import ModelError
from koda_ray.llm.base import Completed, CountsTokens, ModelEvent, ModelProvider, ModelRequest, ModelSwitched
from koda_ray.llm.retry import RETRY_AFTER
from koda_ray.model_names import Fallbacks, usual_fallbacks

__all__ = ["FallbackProvider"]

_LONGEST_REST_S = 900.0
_OF_ONE_REQUEST = {"MODEL_CONTEXT_OVERFLOW", "MODEL_ERROR"}
"""What says nothing about the model's next answer."""


class FallbackProvider:
    """Answers with the model that is asked for, or with the first of a list that can.

    Args:
        provider: Answers for each of the models; its own retries come first.
        models: What is asked next, in order, by the code of the error that leads there; a plain list is for those of
            overload, of no connection, and of an answer that breaks off.
        rest_s: For how long a model that was given up is asked last; longer where it asks for longer.
        clock: Tells the time, in seconds.
    """

    def __init__(
        self,
        provider: ModelProvider,
        models: Sequence[str] | Fallbacks,
        *,
        rest_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._provider = provider
        self._models = models if isinstance(models, Mapping) else usual_fallbacks(models)
        self._rest_s = rest_s
        self._clock = clock
        self._resting: dict[str, tuple[float, str]] = {}

    @property
    def name(self) -> str:
        """The provider's."""
        return self._provider.name

    @property
    def substitutes(self) -> Sequence[str]:
        """The models that may be asked next."""
        return list(dict.fromkeys(model for models in self._models.values() for model in models))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer a request; `ModelSwitched` comes before the first event of another model than was asked for.

        Raises:
            ModelError: As the provider raises it; of the last model where all failed, with ``tried`` in its context.
        """
        from koda_ray.logs import get_logger

        self._wake()
        failed, code = request.model, self._resting.get(request.model, (0.0, ""))[1]
        tried: list[str] = []
        waiting = self._in_turn([request.model, *self._models.get(code, ())])
        while True:
            model = waiting.pop(0)
            tried.append(model)
            if model != failed:
                get_logger(__name__).warning("model_switched", agent=request.agent, failed=failed, to=model, code=code)
                yield ModelSwitched(failed=failed, model=model, code=code)
            began = False
            try:
                async with aclosing(self._asked(request, model)) as events:
                    async for event in events:
                        began = True
                        yield event
                return
            except ModelError as error:
                if not self._models.get(error.code):
                    raise
                self._rest(model, error)
                waiting = self._in_turn([m for m in (*waiting, *self._models[error.code]) if m not in tried])
                if not waiting or (began and not request.discards):
                    error.context["tried"] = ", ".join(tried)
                    raise
                failed, code = model, error.code

    async def count(self, request: ModelRequest) -> int | None:
        """Count a prompt's tokens as the model that is asked for does."""
        return await self._provider.count(request) if isinstance(self._provider, CountsTokens) else None

    async def close(self) -> None:
        """Close the provider."""
        await self._provider.close()

    def _wake(self) -> None:
        now = self._clock()
        self._resting = {model: rest for model, rest in self._resting.items() if rest[0] > now}

    def _in_turn(self, models: Sequence[str]) -> list[str]:
        """Put models in the order in which they are asked: as written, but those that were just given up last."""
        self._wake()
        return sorted(dict.fromkeys(models), key=lambda model: model in self._resting)

    async def _asked(self, request: ModelRequest, model: str) -> AsyncGenerator[ModelEvent, None]:
        stream = cast("AsyncGenerator[ModelEvent, None]", self._provider.stream(replace(request, model=model)))
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, Completed):
                    self._resting.pop(model, None)
                    yield replace(event, model=model) if model != request.model else event
                    return
                yield event

    def _rest(self, model: str, error: ModelError) -> None:
        if error.code in _OF_ONE_REQUEST:
            return
        asked = error.context.get(RETRY_AFTER)
        rest_s = max(self._rest_s, float(asked)) if isinstance(asked, int | float) else self._rest_s
        self._resting[model] = (self._clock() + min(rest_s, _LONGEST_REST_S), error.code)
