"""What Ray's launcher makes of `own-machines.yaml` over SSH: ``python -m tests.cluster.launched``, in name spaces.

Three machines (`tests.cluster.own_machines`) have an sshd and an engine of containers each; PostgreSQL and SeaweedFS
are behind their network. Somebody who is on none of them does what `cluster/README.md` says. The file is the one that
is shipped: its names are those of the machines here, its image is there under its name, so it is not pulled, and its
containers mount what is too large to be copied into that (`tests.cluster.node_image`).

What became of it is printed as JSON. All of it ends with the process, which is the first of a name space of processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import resource
import sys
import time
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import yaml

from koda_ray.config import REPO_ROOT
from koda_ray.deploy.rules import OPEN_FILES
from koda_ray.types import new_id
from tests import postgres, seaweed
from tests.cluster.asking import KEY
from tests.cluster.machines import BUCKET, HERE, NETWORK, Door, network, reach
from tests.cluster.node_image import import_image, mounts
from tests.cluster.own_machines import Launcher, SshMachine
from tests.cluster.waiting import NotInTimeError, comes_true
from tests.cluster.work import PAGES, RENDERED_S, USER

FILE = REPO_ROOT / "cluster" / "own-machines.yaml"
_README = REPO_ROOT / "cluster" / "README.md"
_PORT, _TIMEOUT_S = 8000, 60.0
_PULLED, _OPTION = "  pull_before_run: true\n", "    - --ulimit nofile=65536:65536\n"
_SHOWN = 6000
_OTHER_KEY = "fedcba9876543210" * 2


class StepFailedError(Exception):
    """A command of the launcher's did not do what it is for."""


class Launched:
    """The cluster, as who starts it sees it.

    Args:
        launcher: Who that is.
        machines: The head's, and the workers'.
    """

    def __init__(self, launcher: Launcher, machines: list[SshMachine]) -> None:
        self.launcher = launcher
        self.machines = machines
        self.urls = [f"http://{machine.address}:{_PORT}" for machine in machines[1:]]

    async def do(self, *words: str) -> str:
        """Run a command; return what it says.

        Raises:
            StepFailedError: It fails.
        """
        began = time.monotonic()
        done = await asyncio.to_thread(self.launcher.run, *words)
        sys.stderr.write(f"== {' '.join(words)}: {done.returncode}, {time.monotonic() - began:.0f} s\n")
        if done.returncode != 0:
            raise StepFailedError(f"{' '.join(words)} ends with {done.returncode}:\n{done.stdout[-_SHOWN:]}")
        return done.stdout

    async def fails(self, *words: str) -> bool:
        """Whether a command fails."""
        return (await asyncio.to_thread(self.launcher.run, *words)).returncode != 0

    async def report(self) -> dict[str, Any]:
        """What `koda cluster status` says to who starts it."""
        words = [sys.executable, "-P", "-m", "koda_ray", "cluster", "status", "--json", "--server", self.urls[0]]
        done = await asyncio.to_thread(
            self.launcher.run, *words, env={"KODA_API_KEY": KEY, "PYTHONPATH": str(REPO_ROOT)}
        )
        return json.loads(done.stdout) if done.returncode == 0 else {"problem": done.stdout[-_SHOWN:]}

    async def all_known(self) -> dict[str, Any]:
        """What that says once it knows of all machines, and of a janitor."""
        seen: dict[str, Any] = {}

        async def whole() -> bool:
            seen.clear()
            seen.update(await self.report())
            return seen.get("problem") is None and seen["janitor"] is not None and len(seen["nodes"]) == 3

        await comes_true(whole, "the head knows all machines")
        return seen

    def set(self, name: str, value: str) -> None:
        """Add a setting to those that are copied to all nodes; the last one holds."""
        with (self.launcher.home / ".koda-cluster" / "koda.env").open("a") as file:
            file.write(f"{name}={value}\n")

    async def healthy(self) -> bool:
        """Whether each worker answers."""
        with contextlib.suppress(httpx.HTTPError):
            found = [await self._ask(url, "GET", "/v1/health") for url in self.urls]
            return all(answer.status_code == 200 for answer in found)
        return False

    async def knows(self, key: str) -> bool:
        """Whether each worker lets somebody in by a key."""
        with contextlib.suppress(httpx.HTTPError):
            found = [await self._ask(url, "GET", "/v1/sessions", key=key) for url in self.urls]
            return all(answer.status_code == 200 for answer in found)
        return False

    async def render(self, seed: int, duration_s: float = 2.0) -> str:
        """Ask for a page's video, and return the job's id."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for path in sorted((PAGES / "plain").rglob("*")):
                archive.write(path, path.relative_to(PAGES / "plain"))
        options = {"width": 320, "height": 180, "fps": 30, "duration": duration_s, "seed": seed}
        files = {"file": ("page.zip", buffer.getvalue(), "application/zip")}
        answer = await self._ask(
            self.urls[0], "POST", "/v1/renders", files=files, data={"options": json.dumps(options)}
        )
        return answer.raise_for_status().json()["id"]

    async def rendered(self, job_id: str) -> dict[str, Any]:
        """Wait for a video; return how it went, and on which machines."""
        seen: dict[str, Any] = {}

        async def over() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                seen.update((await self._ask(self.urls[0], "GET", f"/v1/renders/{job_id}")).raise_for_status().json())
            return seen.get("status") not in (None, "queued", "running")

        await comes_true(over, "the render is over", within_s=RENDERED_S)
        if seen["status"] != "succeeded":
            return {"status": seen["status"], "error": seen.get("error")}
        report = (await self._ask(self.urls[0], "GET", f"/v1/renders/{job_id}/report")).raise_for_status().json()
        video = await self._ask(self.urls[0], "GET", f"/v1/renders/{job_id}/video")
        on = sorted({unit["worker"].partition(":")[0] for unit in report["units"]})
        return {"status": seen["status"], "frames": report["frames"], "on": on, "video": len(video.content)}

    async def _ask(self, url: str, method: str, path: str, *, key: str = KEY, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": new_id("cmd")}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT_S, trust_env=False) as http:
            return await http.request(method, path, **more)


async def prepare(launched: Launched, settings: dict[str, str]) -> None:
    """Do what the README says is done before the first time, and write down what is of these machines."""
    (block,) = re.findall(r"```sh\n(pip install 'koda-ray\[launcher\]'.*?)```", _README.read_text(), re.DOTALL)
    _, steps = block.split("\n", 1)  # it is installed
    await launched.do("sh", "-ec", f"ln -s {REPO_ROOT}/cluster cluster\n{steps}")
    for name, value in settings.items():
        launched.set(name, value)
    (launched.launcher.home / FILE.name).write_text(written(FILE.read_text()))


def written(text: str) -> str:
    """Write the image of these machines into the file, and how many files may be open on them where that is less."""
    for old in (_PULLED, _OPTION):
        assert text.count(old) == 1, f"{FILE.name} has no {old!r} any more"
    mounted = "".join(f"    - {option}\n" for option in mounts())
    text = text.replace(_PULLED, _PULLED.replace("true", "false")).replace(_OPTION, _OPTION + mounted)
    may = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return text if not 0 <= may < OPEN_FILES else text.replace(str(OPEN_FILES), str(may))


async def launch(launched: Launched) -> dict[str, Any]:
    """Start the cluster, have it work, start it again with the same and with other settings, end it, and once more."""
    up, down = (["ray", each, "--yes", FILE.name] for each in ("up", "down"))
    await launched.do(*up)
    await comes_true(launched.healthy, "both workers answer", within_s=RENDERED_S)
    report = await launched.report()
    first = await launched.rendered(await launched.render(1))
    status = await launched.do("ray", "exec", FILE.name, "serve status")
    refused = [
        await launched.fails("ray", "exec", FILE.name, f"RAY_AUTH_TOKEN={token} RAY_AUTH_TOKEN_PATH= ray status")
        for token in ("0" * 64, "''")
    ]
    told = await launched.do("ray", "exec", FILE.name, "ray status")
    logged = await launched.do("ray", "exec", FILE.name, "cat /tmp/ray/session_latest/logs/dashboard*.log")

    under_way = await launched.render(2, duration_s=24.0)
    await launched.do(*up)
    again = await launched.rendered(under_way)
    known = await launched.all_known()

    launched.set("KODA_API_KEYS", f"{USER}={KEY},bob={_OTHER_KEY}")
    before = await launched.knows(_OTHER_KEY)
    await launched.do(*up)
    await comes_true(lambda: launched.knows(_OTHER_KEY), "the workers have the other settings", within_s=RENDERED_S)
    had = [machine.containers for machine in launched.machines]
    await launched.do(*down)
    left, answers_still = [machine.containers for machine in launched.machines], await launched.healthy()

    await launched.do(*up)
    await comes_true(launched.healthy, "both workers answer after an end", within_s=RENDERED_S)
    last = await launched.rendered(await launched.render(3))
    await launched.do(*down)
    return {
        "nodes": nodes(report),
        "problem": report.get("problem"),
        "render": first,
        "statuses": sorted(set(re.findall(r"^\s+status: (\w+)", status, re.MULTILINE))),
        "without_token_refused": refused,
        "ray_status": "Active" in told,
        "reports": re.findall(r"Usage reporting is (\w+)", logged),
        "render_meanwhile": again,
        "nodes_again": nodes(known),
        "same_workers": ids(report)[1:] == ids(known)[1:],
        "known_before": before,
        "containers": had,
        "left": left,
        "answers_still": answers_still,
        "render_after_an_end": last,
    }


def nodes(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return what each node of a report offers beside memory, by its address."""
    found = sorted(report.get("nodes") or [], key=lambda node: node["address"])
    return {
        node["address"]: {
            name: amount["total"] for name, amount in node["resources"].items() if not name.endswith("memory")
        }
        for node in found
    }


def ids(report: dict[str, Any]) -> list[str]:
    """Return the ids of its nodes, in the order of their addresses."""
    return [node["id"] for node in sorted(report.get("nodes") or [], key=lambda node: node["address"])]


def _logs(launched: Launched) -> str:
    """What the nodes of a cluster have to say about why something did not come to be."""
    found: list[str] = []
    for machine in launched.machines:
        tail = "tail -n 60 /tmp/ray/session_latest/logs/monitor*.log /tmp/ray/session_latest/logs/monitor*.out"
        said = machine.docker("exec", "koda", "bash", "-c", tail, check=False)
        found.append(f"-- {machine.name}: {machine.containers}\n{machine.log}\n{said.stdout}{said.stderr}")
    return "\n".join(found)


async def main() -> None:
    """Start it all, and print what was seen; it ends with this process."""
    network()
    launcher = Launcher()
    with ExitStack() as stack:
        server = stack.enter_context(postgres.serve(HERE, NETWORK))
        bucket = stack.enter_context(seaweed.serve())
        door = Door(BUCKET, lambda: asyncio.open_connection("127.0.0.1", bucket.port))
        await door.open()
        machines = [SshMachine(number, launcher.public_key) for number in range(3)]
        image = str(yaml.safe_load(FILE.read_text())["docker"]["image"])
        for machine in machines:
            await asyncio.to_thread(machine.wait)
            await asyncio.to_thread(import_image, image, machine.socket, Path("/run/own"))
        launched = Launched(launcher, machines)
        kept = {name: value for name, value in reach(bucket).items() if name != "STORAGE_PROVIDER"}
        settings = {
            "DATABASE_URL": server.url_at(HERE, server.create()),
            **kept,
            "KODA_API_KEYS": f"{USER}={KEY}",
            "KODA_OPERATORS": USER,
            "KODA_PREVIEW_ORIGIN": "https://previews.example",
        }
        try:
            await prepare(launched, settings)
            seen = await launch(launched)
        except (NotInTimeError, StepFailedError) as error:
            sys.stderr.write(f"{_logs(launched)}\n{error}\n")
            sys.stderr.flush()
            os._exit(1)
        sys.stdout.write(json.dumps(seen) + "\n")
        sys.stdout.flush()
        os._exit(0)  # and all that it started with it


if __name__ == "__main__":
    asyncio.run(main())
