from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, APIWebSocketRoute

from koda_ray.render.presets import PRESET_NAMES
from koda_ray.serve.api import create_app
from koda_ray.wire import Problem

from .world import world

OPERATIONS = {
    "createSession": ("post", "/v1/sessions"),
    "createTakes": ("post", "/v1/takes"),
    "listSessions": ("get", "/v1/sessions"),
    "getSession": ("get", "/v1/sessions/{session_id}"),
    "labelSession": ("patch", "/v1/sessions/{session_id}"),
    "deleteSession": ("delete", "/v1/sessions/{session_id}"),
    "restoreSession": ("post", "/v1/sessions/{session_id}/restore"),
    "answer": ("post", "/v1/sessions/{session_id}/answer"),
    "accept": ("post", "/v1/sessions/{session_id}/accept"),
    "reject": ("post", "/v1/sessions/{session_id}/reject"),
    "requestChanges": ("post", "/v1/sessions/{session_id}/changes"),
    "editPlan": ("post", "/v1/sessions/{session_id}/plan"),
    "sendMessage": ("post", "/v1/sessions/{session_id}/messages"),
    "takeBack": ("delete", "/v1/sessions/{session_id}/messages/{command_id}"),
    "cancel": ("post", "/v1/sessions/{session_id}/cancel"),
    "rewind": ("post", "/v1/sessions/{session_id}/rewind"),
    "fork": ("post", "/v1/sessions/{session_id}/fork"),
    "listVersions": ("get", "/v1/sessions/{session_id}/versions"),
    "labelVersion": ("patch", "/v1/sessions/{session_id}/versions/{version_id}"),
    "openVersion": ("post", "/v1/sessions/{session_id}/versions/{version_id}/player"),
    "compareVersions": ("get", "/v1/sessions/{session_id}/compare"),
    "compareFrames": ("get", "/v1/sessions/{session_id}/compare/differences"),
    "diffVersion": ("get", "/v1/sessions/{session_id}/versions/{version_id}/diff"),
    "createShare": ("post", "/v1/sessions/{session_id}/shares"),
    "listShares": ("get", "/v1/sessions/{session_id}/shares"),
    "getShare": ("get", "/v1/sessions/{session_id}/shares/{share_id}"),
    "deleteShare": ("delete", "/v1/sessions/{session_id}/shares/{share_id}"),
    "getShared": ("get", "/v1/shares/{token}"),
    "getSharedVideo": ("get", "/v1/shares/{token}/video"),
    "getSharedThumbnail": ("get", "/v1/shares/{token}/thumbnail"),
    "comment": ("post", "/v1/shares/{token}/comments"),
    "listMessages": ("get", "/v1/sessions/{session_id}/messages"),
    "listPictures": ("get", "/v1/sessions/{session_id}/pictures"),
    "getHistory": ("get", "/v1/sessions/{session_id}/history"),
    "retry": ("post", "/v1/sessions/{session_id}/retry"),
    "render": ("post", "/v1/sessions/{session_id}/render"),
    "setBudget": ("post", "/v1/sessions/{session_id}/budget"),
    "getSessionUsage": ("get", "/v1/sessions/{session_id}/usage"),
    "getUsage": ("get", "/v1/usage"),
    "signIn": ("post", "/v1/login"),
    "getLogin": ("get", "/v1/login"),
    "signOut": ("delete", "/v1/login"),
    "getCapabilities": ("get", "/v1/capabilities"),
    "listPlugins": ("get", "/v1/plugins"),
    "getPlugin": ("get", "/v1/plugins/{plugin_id}"),
    "getCluster": ("get", "/v1/cluster"),
    "listApprovals": ("get", "/v1/sessions/{session_id}/approvals"),
    "approve": ("post", "/v1/sessions/{session_id}/approvals/{approval_id}/approve"),
    "refuse": ("post", "/v1/sessions/{session_id}/approvals/{approval_id}/reject"),
    "setPermissions": ("post", "/v1/sessions/{session_id}/permissions"),
    "followEvents": ("get", "/v1/sessions/{session_id}/events"),
    "followNodeEvents": ("get", "/api/nodes/{node_id}/events"),
    "followAllEvents": ("get", "/v1/events"),
    "openPreview": ("post", "/v1/sessions/{session_id}/preview"),
    "takeStill": ("post", "/v1/sessions/{session_id}/stills"),
    "listFiles": ("get", "/v1/sessions/{session_id}/files"),
    "getSource": ("get", "/v1/sessions/{session_id}/source.zip"),
    "readFile": ("get", "/v1/sessions/{session_id}/files/{path}"),
    "getVideo": ("get", "/v1/sessions/{session_id}/video"),
    "getThumbnail": ("get", "/v1/sessions/{session_id}/thumbnail"),
    "getMedia": ("get", "/v1/sessions/{session_id}/media"),
    "getVideoByAddress": ("get", "/v1/media/{token}/video"),
    "getThumbnailByAddress": ("get", "/v1/media/{token}/thumbnail"),
    "getPicture": ("get", "/v1/sessions/{session_id}/pictures/{digest}"),
    "getFrame": ("get", "/v1/sessions/{session_id}/jobs/{job_id}/frames/{frame}.jpg"),
    "getSprite": ("get", "/v1/sessions/{session_id}/jobs/{job_id}/sprite.jpg"),
    "deleteFinal": ("delete", "/v1/sessions/{session_id}/finals/{job_id}"),
    "listJobs": ("get", "/v1/sessions/{session_id}/jobs"),
    "getJob": ("get", "/v1/jobs/{job_id}"),
    "watchJob": ("get", "/v1/jobs/{job_id}/footage"),
    "cancelJob": ("post", "/v1/jobs/{job_id}/cancel"),
    "renderAgain": ("post", "/v1/jobs/{job_id}/again"),
    "createRender": ("post", "/v1/renders"),
    "createBatch": ("post", "/v1/renders/batches"),
    "getBatch": ("get", "/v1/renders/batches/{batch_id}"),
    "cancelBatch": ("post", "/v1/renders/batches/{batch_id}/cancel"),
    "listRenders": ("get", "/v1/renders"),
    "getRender": ("get", "/v1/renders/{job_id}"),
    "cancelRender": ("post", "/v1/renders/{job_id}/cancel"),
    "deleteRender": ("delete", "/v1/renders/{job_id}"),
    "followRender": ("get", "/v1/renders/{job_id}/events"),
    "getRenderVideo": ("get", "/v1/renders/{job_id}/video"),
    "getRenderThumbnail": ("get", "/v1/renders/{job_id}/thumbnail"),
    "getRenderSheet": ("get", "/v1/renders/{job_id}/sheet"),
    "getRenderFrame": ("get", "/v1/renders/{job_id}/frames/{frame}.jpg"),
    "getRenderSprite": ("get", "/v1/renders/{job_id}/sprite.jpg"),
    "getRenderReport": ("get", "/v1/renders/{job_id}/report"),
    "uploadAsset": ("post", "/v1/assets"),
    "listOwnAssets": ("get", "/v1/assets"),
    "getAsset": ("get", "/v1/assets/{asset_id}"),
    "getAssetFile": ("get", "/v1/assets/{asset_id}/file"),
    "deleteAsset": ("delete", "/v1/assets/{asset_id}"),
    "listAssets": ("get", "/v1/sessions/{session_id}/assets"),
    "listProjects": ("get", "/v1/projects"),
    "listCanvases": ("get", "/v1/canvases"),
    "getCanvas": ("get", "/v1/canvases/{canvas_id}"),
    "putCanvas": ("put", "/v1/canvases/{canvas_id}"),
    "deleteCanvas": ("delete", "/v1/canvases/{canvas_id}"),
    "createImage": ("post", "/v1/images"),
    "listImages": ("get", "/v1/images"),
    "removeImage": ("delete", "/v1/images/{image}"),
    "createSandbox": ("post", "/v1/sandboxes"),
    "listSandboxes": ("get", "/v1/sandboxes"),
    "getSandbox": ("get", "/v1/sandboxes/{sandbox_id}"),
    "watchSandbox": ("get", "/v1/sandboxes/{sandbox_id}/changes"),
    "openDesktop": ("post", "/v1/sandboxes/{sandbox_id}/desktop"),
    "openPort": ("post", "/v1/sandboxes/{sandbox_id}/ports/{port}"),
    "extendSandbox": ("post", "/v1/sandboxes/{sandbox_id}/extend"),
    "terminateSandbox": ("delete", "/v1/sandboxes/{sandbox_id}"),
    "snapshotSandbox": ("get", "/v1/sandboxes/{sandbox_id}/snapshot"),
    "restoreSandbox": ("put", "/v1/sandboxes/{sandbox_id}/snapshot"),
    "buildSandbox": ("post", "/v1/sandboxes/{sandbox_id}/build"),
    "exportBundle": ("get", "/v1/sandboxes/{sandbox_id}/bundle"),
    "takePicture": ("post", "/v1/sandboxes/{sandbox_id}/screenshot"),
    "previewSandbox": ("post", "/v1/sandboxes/{sandbox_id}/preview"),
    "listSandboxFiles": ("get", "/v1/sandboxes/{sandbox_id}/files"),
    "readSandboxFile": ("get", "/v1/sandboxes/{sandbox_id}/files/{path}"),
    "writeSandboxFile": ("put", "/v1/sandboxes/{sandbox_id}/files/{path}"),
    "removeSandboxFile": ("delete", "/v1/sandboxes/{sandbox_id}/files/{path}"),
    "runCommand": ("post", "/v1/sandboxes/{sandbox_id}/commands"),
    "launchProcess": ("post", "/v1/sandboxes/{sandbox_id}/processes"),
    "listProcesses": ("get", "/v1/sandboxes/{sandbox_id}/processes"),
    "getProcess": ("get", "/v1/sandboxes/{sandbox_id}/processes/{name}"),
    "readProcessOutput": ("get", "/v1/sandboxes/{sandbox_id}/processes/{name}/output"),
    "followProcess": ("get", "/v1/sandboxes/{sandbox_id}/processes/{name}/events"),
    "killProcess": ("delete", "/v1/sandboxes/{sandbox_id}/processes/{name}"),
    "health": ("get", "/v1/health"),
    "ready": ("get", "/v1/ready"),
}


@pytest.fixture
async def described(tmp_path: Path) -> dict[str, Any]:
    async with world(tmp_path, serve=False) as koda:
        return create_app(koda.deps).openapi()


async def test_every_operation_has_its_name(described: dict[str, Any]) -> None:
    found = {
        operation["operationId"]: (method, path)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }
    assert found == OPERATIONS


async def test_every_error_is_a_problem_document(described: dict[str, Any]) -> None:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"] and operation["description"], path
            for status, response in operation["responses"].items():
                if int(status) < 400 or path == "/v1/ready":
                    continue
                content = response["content"]
                assert list(content) == ["application/problem+json"], (method, path, status)
                assert content["application/problem+json"]["schema"]["$ref"].endswith("/Problem")
            if "{session_id}" in path:
                assert {"401", "404", "422"} <= set(operation["responses"]), (method, path)


async def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    models = described["components"]["schemas"]

    def walk(node: object) -> None:
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str):
                assert reference.removeprefix("#/components/schemas/") in models, reference
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(described)
    assert {"Envelope", "NodeState", "Problem", "CommandAccepted"} <= set(models)
    assert set(models["Problem"]["properties"]) == set(Problem.model_json_schema()["properties"])
    assert "HTTPValidationError" not in models


async def test_names_on_the_wire_are_camel_case(described: dict[str, Any]) -> None:
    for name, model in described["components"]["schemas"].items():
        for field in model.get("properties", {}):
            assert "_" not in field, (name, field)


async def test_commands_answer_202_and_take_a_key(described: dict[str, Any]) -> None:
    for name in ("answer", "accept", "reject", "requestChanges", "sendMessage", "cancel", "retry", "render"):
        method, path = OPERATIONS[name]
        operation = described["paths"][path][method]
        assert "202" in operation["responses"] and "409" in operation["responses"]
        assert "idempotency-key" in [parameter["name"] for parameter in operation["parameters"]]
    for name in ("createShare", "comment"):
        method, path = OPERATIONS[name]
        operation = described["paths"][path][method]
        assert "409" in operation["responses"]
        assert "idempotency-key" in [parameter["name"] for parameter in operation["parameters"]]


async def test_keys_are_described(described: dict[str, Any]) -> None:
    assert described["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    for path in ("/v1/health", "/v1/shares/{token}", "/v1/media/{token}/video"):
        assert "security" not in described["paths"][path]["get"]
    assert {"key": []} in described["paths"]["/v1/sessions"]["post"]["security"]


async def test_every_option_of_a_render_is_described(described: dict[str, Any]) -> None:
    options = described["components"]["schemas"]["PageOptions"]["properties"]
    assert not [name for name, option in options.items() if not option.get("description")]
    for name in PRESET_NAMES:
        assert name in options["preset"]["description"]


async def test_no_request_goes_through_a_thread_to_find_what_it_depends_on(tmp_path: Path) -> None:
    async with world(tmp_path, serve=False) as koda:
        routes = [route for route in create_app(koda.deps).routes if isinstance(route, APIRoute | APIWebSocketRoute)]
        called = {call for route in routes for call in _called(route.dependant)}
    assert len(called) > len(OPERATIONS)
    assert [call.__name__ for call in called if not _is_awaited(call)] == []


def _called(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    if dependant.call is not None:
        yield dependant.call
    for each in dependant.dependencies:
        yield from _called(each)


def _is_awaited(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)
