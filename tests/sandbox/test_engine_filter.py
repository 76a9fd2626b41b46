"""The engine's filter that leaves calls to ours: as strict as the engine's own, and only in place of that."""

from __future__ import annotations

import io
import json
import os
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_folders import container_name
from koda_ray.sandbox.docker_plan import ContainerPlan
from koda_ray.sandbox.engine import Engine
from koda_ray.sandbox.engine_filter import asking_profile
from tests import dockerd
from tests.sandbox.leftovers import DockerLeftovers

pytestmark = [pytest.mark.full, pytest.mark.sandbox, pytest.mark.needs("docker")]

_LEFT = (  # ptrace, mount, unshare and clone of CLONE_NEWUSER, sockets of AF_VSOCK and AF_ALG, init_module, bpf
    "101, 0, 0, 0, 0", "165, 0, 0, 0, 0, 0", "272, 0x10000000", "56, 0x10000011, 0, 0, 0, 0", "41, 40, 1, 0",
    "41, 38, 5, 0", "175, 0, 0, 0", "321, 0, 0, 0",
)  # fmt: skip
_REFUSED = ("425, 8, 0", "312, 1, 1, 0, 0, 0")  # io_uring_setup, kcmp
_LET = ("39", "41, 2, 1, 0", "41, 1, 1, 0", "41, 16, 3, 0", "57")  # getpid, sockets of TCP, Unix and netlink, fork


async def test_what_is_left_to_our_filter_is_refused_without_it(docker_address: str, docker_image: str) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86_64")
    calls = (*_LEFT, *_REFUSED, *_LET)
    tries = [f"$! = 0; $r = syscall({call}); exit 0 if !$r; print $r, ' ', $!+0, qq(\\n);" for call in calls]
    engine = Engine(docker_address)

    def run(api: Any) -> str:
        options = api.create_host_config(
            cap_drop=["ALL"], network_mode="none", security_opt=["no-new-privileges", f"seccomp={asking_profile()}"]
        )
        made = api.create_container(
            docker_image, ["perl", "-e", f"$| = 1; {' '.join(tries)}"], entrypoint=[], user="1000:1000",
            host_config=options,
        )  # fmt: skip
        try:
            api.start(made)
            api.wait(made)
            return bytes(api.logs(made)).decode()
        finally:
            api.remove_container(made, force=True)

    try:
        told = engine.use(run, doing="run a container").splitlines()
    finally:
        await engine.close()
    said = dict(zip(calls, told, strict=True))
    assert {call: said[call] for call in _LEFT} == dict.fromkeys(_LEFT, "-1 38")  # ENOSYS
    assert {call: said[call] for call in _REFUSED} == dict.fromkeys(_REFUSED, "-1 1")  # EPERM
    assert [call for call in _LET if said[call].startswith("-1")] == []


async def test_an_image_of_ones_own_keeps_the_engines_filter(
    docker_provider: DockerProvider, docker_address: str, docker_image: str, docker_leftovers: DockerLeftovers
) -> None:
    engine = Engine(docker_address)
    plain, own = docker_leftovers.new_id(), docker_leftovers.new_id()
    try:
        engine.use(lambda api: api.tag(docker_image, "koda-test/own", "1"), doing="name an image")
        for name, image in ((plain, None), (own, "koda-test/own:1")):
            await docker_provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a", image=image)
        assert engine.use(partial(_options, own), doing="look") == ["no-new-privileges"]
        first, second = engine.use(partial(_options, plain), doing="look")
        assert first == "no-new-privileges" and second.startswith("seccomp={")
    finally:
        for name in (plain, own):
            await docker_provider.destroy(name)
        engine.use(lambda api: api.remove_image("koda-test/own:1"), doing="forget a name")
        await engine.close()


async def test_a_filter_that_somebody_has_set_stays_from_when_the_engine_has_it(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    profile, folder = tmp_path / "profile.json", tmp_path_factory.mktemp("d")
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW"}))
    spec = ContainerPlan().spec("sbx_a", image="empty:1", secret="", labels={}, folder="/tmp", known=True)
    assert spec.asks
    engine: Engine | None = None
    ids: set[str] = set()
    seen: list[list[str]] = []
    try:
        for arguments in ((), ("--seccomp-profile", str(profile)), ()):  # the same engine, started again
            with dockerd.started(folder, *arguments, data=tmp_path / "data") as address:
                engine = engine or Engine(address)
                ids.add((await engine.facts()).id)
                engine.use(_import_empty, doing="import an image")
                await engine.create(spec)
                options = engine.use(partial(_options, "sbx_a"), doing="look")
                seen.append([option.partition("=")[0] for option in options])
                await engine.remove(spec.name)
    finally:
        if engine is not None:
            await engine.close()
    assert seen == [["no-new-privileges", "seccomp"], ["no-new-privileges"], ["no-new-privileges", "seccomp"]]
    assert len(ids) == 1


def _import_empty(api: Any) -> None:
    file = io.BytesIO()
    tarfile.open(fileobj=file, mode="w").close()
    api.import_image_from_data(file.getvalue(), repository="empty", tag="1")


def _options(sandbox_id: str, api: Any) -> list[str]:
    return list(api.inspect_container(container_name(sandbox_id))["HostConfig"]["SecurityOpt"])
