from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from koda_ray.errors import InvalidPath
from koda_ray.state import keys
from koda_ray.state.keys import check_key
from koda_ray.state.storage import Storage
from koda_ray.types import new_id

HASH = "ab" + "0" * 62

BUILT = {
    "users/u/projects/p": lambda u: keys.project_prefix(u, "p"),
    "users/u/projects/p/sessions/s": lambda u: keys.session_prefix(u, "p", "s"),
    "users/u/projects/p/sessions/s/checkpoints/c.json": lambda u: keys.manifest_key(u, "p", "s", "c"),
    "users/u/projects/p/assets/a/my cat.png": lambda u: keys.asset_key(u, "p", "a", "my cat.png"),
    f"users/u/blobs/sha256/ab/{HASH}": lambda u: keys.blob_key(u, HASH),
    f"users/u/bundles/ab/{HASH}": lambda u: keys.bundle_prefix(u, HASH),
    f"users/u/bundles/ab/{HASH}/assets/i.js": lambda u: keys.bundle_key(u, HASH, "assets/i.js"),
    f"users/u/units/ab/{HASH}/video": lambda u: keys.unit_key(u, HASH),
    f"users/u/units/ab/{HASH}/meta.json": lambda u: keys.unit_meta_key(u, HASH),
    "users/u/renders/j": lambda u: keys.render_prefix(u, "j"),
    "users/u/renders/j/video.mp4": lambda u: keys.video_key(u, "j", "mp4"),
    "users/u/renders/j/thumbnail.jpg": lambda u: keys.thumbnail_key(u, "j"),
    "users/u/renders/j/report.json": lambda u: keys.report_key(u, "j"),
    "users/u": keys.user_prefix,
}


@pytest.mark.parametrize("expected", BUILT)
def test_built_keys(expected: str) -> None:
    assert BUILT[expected]("u") == expected
    assert check_key(expected) == expected


@pytest.mark.parametrize("expected", BUILT)
@pytest.mark.parametrize("user", ["", ".", "..", "a/b", "../x", "a\0", "x" * 65, "ü", "-x", "a b", "a.b"])
def test_no_key_is_built_from_a_strange_id(expected: str, user: str) -> None:
    with pytest.raises(InvalidPath):
        BUILT[expected](user)


def test_real_ids_build_keys() -> None:
    key = keys.manifest_key("local", new_id("prj"), new_id("ses"), new_id("ckp"))
    assert check_key(key) == key


def test_names_and_hashes_are_checked() -> None:
    for name in ("a/b", "..", "", "a\0b", "a\nb", "\ud800", "x" * 256):
        with pytest.raises(InvalidPath):
            keys.asset_key("u", "p", "a", name)
    for digest in ("", "../../..", "AB" * 32, "zz" * 32, "ab"):
        with pytest.raises(InvalidPath):
            keys.blob_key("u", digest)
        with pytest.raises(InvalidPath):
            keys.unit_key("u", digest)
    for extension in ("", ".mp4", "m/p", "MP4"):
        with pytest.raises(InvalidPath):
            keys.video_key("u", "j", extension)
    with pytest.raises(InvalidPath):
        keys.bundle_key("u", HASH, "../../other")


@pytest.mark.parametrize(
    "key",
    ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.", "a\0b", "a\nb", "a\\b", "a/\x7f", "\ud800",
     ".tmp", ".tmp/x", "x" * 256, "/".join(["x" * 200] * 6)],
)  # fmt: skip
def test_refused_keys(key: str) -> None:
    with pytest.raises(InvalidPath):
        check_key(key)


@given(
    st.text(min_size=1, max_size=40)
    | st.lists(st.sampled_from(["a", "..", ".", "", "b c", "é"]), min_size=1).map("/".join)
)
@example("a/..")
@example("a/b")
def test_an_accepted_key_stays_below_the_root(key: str) -> None:
    try:
        check_key(key)
    except InvalidPath:
        return
    path = Storage("/srv/root").local_path(key)
    assert path is not None
    assert Path("/srv/root") in path.parents
    assert ".." not in path.parts
    assert path.relative_to("/srv/root").as_posix() == key == str(PurePosixPath(key))
