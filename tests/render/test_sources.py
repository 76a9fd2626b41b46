"""Folders, zips, built projects and HTML files become bundles; what is no page says so."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from koda_ray.errors import InvalidInput, InvalidPath, NotFound
from koda_ray.render.bundle import Bundle
from koda_ray.render.sources import read_page, unpack_page

HTML = "<h1>page</h1>"
VITE = '<script type="module" src="/src/main.tsx"></script>'


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def zipped(root: Path, files: dict[str, str]) -> Path:
    path = root / "page.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_a_folder_without_what_no_page_is_made_of(tmp_path: Path) -> None:
    files = {"index.html": HTML, "a/b.js": "1", ".git/config": "secret", "node_modules/x/y.js": "", ".env": "KEY=1"}
    put(tmp_path / "page", files)
    (tmp_path / "outside.txt").write_text("not yours")
    (tmp_path / "page/link.txt").symlink_to(tmp_path / "outside.txt")
    page = read_page(tmp_path / "page")
    assert (set(page.bundle.files), page.entry) == ({"index.html", "a/b.js"}, "index.html")


def test_the_only_page_of_a_folder_is_the_page_and_one_of_many_is_named(tmp_path: Path) -> None:
    put(tmp_path, {"intro.html": HTML, "x.css": ""})
    assert read_page(tmp_path).entry == "intro.html"
    put(tmp_path, {"outro.html": HTML})
    with pytest.raises(InvalidInput, match=r"one of intro\.html, outro\.html"):
        read_page(tmp_path)
    assert read_page(tmp_path, entry="outro.html").entry == "outro.html"
    with pytest.raises(
        InvalidInput, match=r"has no page 'nothing\.html': give as its entry one that it has, intro\.html"
    ):
        read_page(tmp_path, entry="nothing.html")


def test_a_built_project_is_its_dist_and_one_that_is_not_built_says_so(tmp_path: Path) -> None:
    put(tmp_path, {"index.html": VITE, "package.json": "{}", "src/main.tsx": ""})
    with pytest.raises(InvalidInput, match=r"not built yet.*vite build"):
        read_page(tmp_path)
    put(tmp_path, {"dist/index.html": HTML, "dist/assets/x.js": ""})
    assert set(read_page(tmp_path).bundle.files) == {"index.html", "assets/x.js"}
    assert read_page(tmp_path).bundle == read_page(tmp_path / "dist").bundle


@pytest.mark.parametrize("prefix", ["", "my-page/"])
def test_a_zip_and_a_zip_of_a_folder_are_the_same_page(tmp_path: Path, prefix: str) -> None:
    files = {"index.html": HTML, "a.js": "1"}
    extra = {"__MACOSX/._index.html": "junk"} if prefix else {}
    path = zipped(tmp_path, {**{prefix + name: text for name, text in files.items()}, **extra})
    assert read_page(path).bundle == read_page(put(tmp_path / "folder", files)).bundle


def test_a_zip_of_a_project_is_its_dist(tmp_path: Path) -> None:
    for source in (VITE, "<script type=module src=/src/main.tsx></script>", '<script src="/src/main.js"></script>'):
        project = {"p/index.html": source, "p/package.json": "{}", "p/dist/index.html": HTML}
        assert unpack_page(zipped(tmp_path, project).read_bytes()).bundle.files == {"index.html": HTML.encode()}
    for source in ("<script type=module src=/src/main.tsx>", "<script type=module src='/src/main.jsx?v=1'>"):
        with pytest.raises(InvalidInput, match="not built yet"):
            unpack_page(zipped(tmp_path, {"index.html": source}).read_bytes())


def test_an_html_file_brings_what_it_names_and_what_that_names(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "intro.html": '<link href="css/a.css?v=2"><script src="./app.js"></script><img src="my%20pic.png">'
            "<img class=a src=bare.png width=9><img src=end.png>",
            "bare.png": "png",
            "end.png": "png",
            "css/a.css": "@font-face{src:url('../fonts/x.woff2')} body{background:url(bg.png)}",
            "css/bg.png": "png",
            "fonts/x.woff2": "font",
            "app.js": "fetch(`data/rows.json`); import('./lib/more.mjs'); pic.src = `frames/${n}.png`; x('clips/' + n)",
            "frames/0.png": "png",
            "frames/1.png": "png",
            "clips/a.webm": "clip",
            "data/rows.json": '{"next": "deep.json"}',
            "data/deep.json": "[]",
            "lib/more.mjs": "",
            "my pic.png": "png",
            "tax-return.pdf": "private",
            "other/big.bin": "0" * 1000,
        },
    )
    (tmp_path.parent / "up.js").write_text("")
    page = read_page(tmp_path / "intro.html")
    assert page.entry == "intro.html"
    assert set(page.bundle.files) == {
        "intro.html", "css/a.css", "css/bg.png", "fonts/x.woff2", "app.js", "data/rows.json", "data/deep.json",
        "lib/more.mjs", "my pic.png", "bare.png", "end.png", "frames/0.png", "frames/1.png", "clips/a.webm",
    }  # fmt: skip


def test_an_html_file_reaches_nothing_outside_its_folder(tmp_path: Path) -> None:
    put(
        tmp_path, {"secret.txt": "s", "page/x.html": '<a href="../secret.txt"> "/etc/passwd" "link/secret.txt" "l.txt"'}
    )
    (tmp_path / "page/link").symlink_to(tmp_path)
    (tmp_path / "page/l.txt").symlink_to(tmp_path / "secret.txt")
    assert set(read_page(tmp_path / "page/x.html").bundle.files) == {"x.html"}


def test_what_is_no_page_says_so(tmp_path: Path) -> None:
    put(tmp_path, {"notes.txt": "x", "empty/.keep": ""})
    with pytest.raises(InvalidInput, match="not a page"):
        read_page(tmp_path / "notes.txt")
    with pytest.raises(NotFound, match="there is no"):
        read_page(tmp_path / "missing")
    with pytest.raises(InvalidInput, match=r"has no index\.html"):
        read_page(tmp_path / "empty")
    with pytest.raises(InvalidPath):
        read_page(zipped(tmp_path, {"index.html": HTML, "../up.html": HTML}))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("again", ["<script ", "<script src=", "src=", "src=a.ts", "<script src=a.ts?"])
def test_a_large_page_takes_no_longer_to_look_at(again: str) -> None:
    """It is a stranger's, and read by whoever serves everybody: 160 KB of scripts without an end took 18 s."""
    page = Bundle({"index.html": f"<script {again * (4_000_000 // len(again))}".encode()})
    with suppress(InvalidInput):  # where a tag of it loads sources
        unpack_page(page.pack())


@pytest.mark.parametrize(
    ("tag", "is_built"),
    [
        ('<script type="module" src="/src/main.tsx">', False),
        ("<SCRIPT defer SRC = main.jsx?v=1 async>", False),
        ("<script src='a.b.ts'></script>", False),
        ('<script data-src="main.tsx">', True),
        ('<script src="/assets/index.js?from=main.ts">', True),
        ("<script>const src = 'main.ts'</script>", True),
    ],
)
def test_a_page_that_loads_sources_is_not_built(tag: str, is_built: bool) -> None:
    page = Bundle({"index.html": f"<!doctype html>{tag}".encode()}).pack()
    if is_built:
        assert unpack_page(page).entry == "index.html"
    else:
        with pytest.raises(InvalidInput, match="not built yet"):
            unpack_page(page)
