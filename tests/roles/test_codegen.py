from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

pytest.importorskip("openai", reason="the extra openai is not installed")

from koda_ray.agent.hooks import Hook, Hooks, Stop
from koda_ray.errors import KodaError
from koda_ray.events import NewEvent
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.llm.base import Completed, ModelProvider, ModelRequest
from koda_ray.llm.fallback import FallbackProvider
from koda_ray.llm.openai import OpenAIProvider
from koda_ray.llm.registry import ProviderOf
from koda_ray.llm.retry import RetryPolicy
from koda_ray.model_names import Vendor
from koda_ray.roles import codegen
from koda_ray.roles.codegen import CodeGenerator
from koda_ray.roles.folded import Folder
from koda_ray.roles.orchestrator import instructions
from tests.agent.long_session import cached_share
from tests.llm.openai_server import OpenAIWire
from tests.llm.server import ModelServer, ScriptedModel, reply


async def test_files_that_another_model_writes_replace_what_was_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codegen, "COALESCE_S", 0.0)
    begun = json.dumps({"files": [{"path": "a.ts", "content": "the first model's beginning of a long file"}]})
    whole = json.dumps({"files": [{"path": "a.ts", "content": "whole"}], "summary": "done"})
    retry = RetryPolicy(attempts=1)
    seen: list[NewEvent] = []

    async def emit(event: NewEvent) -> None:
        seen.append(event)

    with (
        ModelServer(ScriptedModel([reply(begun, break_after=6)])) as one,
        ModelServer(ScriptedModel([reply(whole)]), wire=OpenAIWire()) as two,
    ):

        def opened(vendor: Vendor) -> ModelProvider:
            if vendor == "anthropic":
                return AnthropicProvider("test-key", base_url=one.base_url, retry=retry)
            return OpenAIProvider("test-key", base_url=f"{two.base_url}/v1", retry=retry)

        provider = FallbackProvider(ProviderOf(opened), ["openai:two"])
        generator = CodeGenerator(provider=provider, model="claude-one", instructions=("Write.",))
        answer = await generator.generate({"task": "a ball"}, emit=emit)
        await provider.close()
    assert [(file.path, file.content) for file in answer.files] == [("a.ts", "whole")]
    shown = ""
    for event in seen:
        offset = event.data["offset"]
        assert isinstance(offset, int) and offset <= len(shown)
        shown = shown[:offset] + str(event.data["delta"])
    assert shown == "whole"
    assert "first model" in "".join(str(event.data["delta"]) for event in seen)


async def test_a_hook_changes_what_is_asked_and_may_stop_it() -> None:
    async def emit(event: NewEvent) -> None:
        pass

    async def briefly(request: ModelRequest) -> ModelRequest:
        return replace(request, system=(*request.system, "Be brief."))

    async def no(request: ModelRequest, completed: Completed) -> Stop:
        return Stop(f"{request.agent} said enough")

    with ModelServer(ScriptedModel(lambda _: reply('{"files": []}'))) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        generator = CodeGenerator(
            provider=provider,
            model="claude-one",
            instructions=("Write.",),
            hooks=Hooks([Hook(name="house", before_model=briefly, after_model=no)], emit),
        )
        with pytest.raises(KodaError, match="code_generator said enough") as stopped:
            await generator.generate({"task": "a ball"}, emit=emit)
        await provider.close()
    assert (stopped.value.code, stopped.value.retryable, len(server.requests)) == ("HOOK_STOPPED", False, 1)
    assert "Be brief." in json.dumps(server.requests[0].json["system"])


SIZES = st.dictionaries(st.sampled_from([f"src/{name}.tsx" for name in "abcdef"]), st.sampled_from(["x", "y"]))


@given(st.lists(SIZES, min_size=1, max_size=20))
def test_a_request_in_pieces_is_the_request(asked: list[dict[str, str]]) -> None:
    folder = Folder()
    for files in asked:
        request: dict[str, JsonValue] = {"task": "a", "files": dict(files), "prompt": "b", "feedback": ["ü"]}
        blocks, settled = folder.fold(request)
        for between in ("", "\n\n"):
            assert json.loads(between.join(block["text"] for block in blocks)) == request
        assert 1 <= settled <= len(blocks) - 1 and all(block["text"].strip() for block in blocks)


@pytest.mark.parametrize("stays", [8, pytest.param(1, marks=pytest.mark.full)])
async def test_changing_one_file_after_the_other_reads_the_others_from_the_cache(stays: int) -> None:
    async def emit(event: NewEvent) -> None:
        pass

    def code(path: str, version: int) -> str:
        return "\n".join(f"export const {path}{n} = move({n}, {version});" for n in range(120))

    paths = [f"scene{n}" for n in range(10)]
    versions = dict.fromkeys(paths, 0)
    plan = {"scenes": ["A dot crosses"] * 5}
    with ModelServer(ScriptedModel(lambda _: reply('{"files": []}'))) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        generator = CodeGenerator(
            provider=provider, model="claude-sonnet-5-5", instructions=instructions("code_generator")
        )
        for turn in range(40):
            versions[paths[turn // stays % len(paths)]] += 1
            files = {f"src/{path}.tsx": code(path, version) for path, version in versions.items()}
            request: dict[str, JsonValue] = {
                "task": "modify_existing",
                "change": f"{turn}",
                "plan": plan,
                "prompt": "x",
            }
            await generator.generate({**request, "files": dict(files)}, emit=emit)
            sent = server.requests[-1].json["messages"][0]["content"]
            assert json.loads("".join(block["text"] for block in sent))["files"] == files  # all of them, whole
            told = sum(len(block["text"]) for block in sent)
            assert told < 2.2 * len(json.dumps({**request, "files": files})), "as much is old as is not, at most"
        await provider.close()
    assert cached_share(server.requests[1:]) > 0.85
    assert cached_share(server.requests[2:8]) > 0.9
