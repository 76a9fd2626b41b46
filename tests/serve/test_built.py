"""A build of the page, and what is given away of those before it."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx

from koda_ray.serve.api import create_app
from koda_ray.serve.built import BuiltPage, builds_of

from .world import serving, world


def put(folder: Path, number: int, **parts: str) -> None:
    """Put a build in a folder's place, as set-up does: parts by name, with `index` for the page itself."""
    build = folder.with_name(f"{folder.name}.builds") / str(number)
    (build / "page").mkdir(parents=True)
    (build / "index.html").write_text(parts.pop("index"))
    (build / "koda.svg").write_text(f"<svg>{number}</svg>")
    for name, words in parts.items():
        (build / "page" / f"{name}.js").write_text(words)
    folder.unlink(missing_ok=True)
    folder.symlink_to(build)


def test_a_build_is_read_with_the_hashed_files_that_only_those_before_it_had(tmp_path: Path) -> None:
    folder = tmp_path / "web"
    put(folder, 1, index="one", oldest="1")
    put(folder, 2, index="two", old="2", shared="as it is")
    put(folder, 3, index="three", new="3", shared="as it is")
    built = BuiltPage.read(folder)
    assert built.index is not None and built.index.body == b"three"
    assert set(built.files) == {"koda.svg", "page/new.js", "page/shared.js"}
    assert set(built.before) == {"page/oldest.js", "page/old.js"}
    assert [build.name for build in builds_of(folder)] == ["1", "2", "3"]


def test_a_plain_folder_is_a_build_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "web"
    (tmp_path / "other" / "page").mkdir(parents=True)  # whatever else lies beside it
    (tmp_path / "other" / "page" / "secret.js").touch()
    assert BuiltPage.read(folder) == BuiltPage()
    folder.mkdir()
    (folder / "index.html").write_text("page")
    built = BuiltPage.read(folder)
    assert built.index is not None and (built.files, built.before) == ({}, {})


async def test_a_page_that_stays_open_gets_its_parts_as_long_as_they_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "web"
    put(folder, 1, index="one", old="console.log('one')")
    async with world(tmp_path, serve=False, KODA_WEB_PATH=folder, KODA_API_KEYS="k" * 32) as koda:
        put(folder, 2, index="two", new="console.log('two')")
        async with serving(koda.app) as url, httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
            assert (await client.get("/")).text == "one"  # a server that runs gives one build
            assert (await client.get("/page/new.js")).status_code == 404
        koda.deps.draining.clear()
        async with (
            serving(create_app(koda.deps)) as url,
            httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client,
        ):
            assert (await client.get("/")).text == "two"
            assert (await client.get("/koda.svg")).text == "<svg>2</svg>"
            for name, words in (("old", "one"), ("new", "two")):
                part = await client.get(f"/page/{name}.js")
                assert part.text == f"console.log('{words}')" and "immutable" in part.headers["cache-control"]
                assert part.headers["content-type"].startswith("text/javascript")
            shutil.rmtree(builds_of(folder)[0])
            gone = await client.get("/page/old.js", headers={"Accept": "text/html,*/*"})
            assert gone.status_code == 404 and gone.json()["code"] == "NOT_FOUND"
            assert gone.headers["cache-control"] == "no-store"
