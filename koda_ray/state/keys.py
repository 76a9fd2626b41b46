"""Every key of storage: who may read what is decided by how they are built, here and nowhere else."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias, get_args

from koda_ray.errors import InvalidPath
from koda_ray.state.disk import TEMP_FOLDER

__all__ = [
    "CONTENT_KINDS",
    "ContentKind",
    "asset_key",
    "blob_key",
    "bundle_key",
    "bundle_prefix",
    "check_key",
    "claim_key",
    "comparison_key",
    "content_prefix",
    "film_key",
    "film_prefix",
    "manifest_key",
    "picture_key",
    "pictures_prefix",
    "project_prefix",
    "projects_prefix",
    "proposal_key",
    "render_prefix",
    "renders_prefix",
    "report_key",
    "report_page_key",
    "session_prefix",
    "sessions_prefix",
    "shared_prefixes",
    "sheet_key",
    "sibling_key",
    "siblings_prefix",
    "thumbnail_key",
    "unit_key",
    "unit_meta_key",
    "user_prefix",
    "users_prefix",
    "video_key",
]

MAX_KEY_BYTES = 1024
MAX_COMPONENT_BYTES = 255

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_HASH = re.compile(r"[0-9a-f]{16,128}")
_EXTENSION = re.compile(r"[a-z0-9]{1,8}")


def check_key(key: str) -> str:
    """Return a key that is safe on disk and in a bucket.

    Raises:
        InvalidPath: It is empty, absolute, too long, no Unicode or in the folder of unfinished files, or a component is
            empty, ``.``, ``..`` or too long, or holds a control character or a backslash.
    """

    def refuse(why: str) -> InvalidPath:
        return InvalidPath(f"storage key {key[:200]!r} {why}")

    if not key:
        raise InvalidPath("storage key is empty")
    if key.startswith("/"):
        raise refuse("is absolute; keys are relative to the storage's root")
    try:
        parts = [part.encode() for part in key.split("/")]
    except UnicodeEncodeError as error:
        raise refuse("is not valid Unicode") from error
    if sum(map(len, parts)) + len(parts) - 1 > MAX_KEY_BYTES:
        raise refuse(f"is longer than {MAX_KEY_BYTES} bytes")
    for part in parts:
        if part in (b"", b".", b".."):
            raise refuse("has an empty, '.' or '..' component")
        if len(part) > MAX_COMPONENT_BYTES:
            raise refuse(f"has a component longer than {MAX_COMPONENT_BYTES} bytes")
    if any(ord(character) < 32 or character in "\\\x7f" for character in key):
        raise refuse("has a control character or a backslash")
    if key.split("/", 1)[0] == TEMP_FOLDER:
        raise refuse(f"is in {TEMP_FOLDER}, which holds unfinished files")
    return key


def _id(value: str) -> str:
    if not _ID.fullmatch(value):
        raise InvalidPath(
            f"id {value[:80]!r} cannot be part of a storage key: letters, digits, '-' and '_', at most 64"
        )
    return value


def _hash(value: str) -> str:
    if not _HASH.fullmatch(value):
        raise InvalidPath(
            f"hash {value[:140]!r} cannot be part of a storage key: 16 to 128 lower-case hexadecimal digits"
        )
    return value


def users_prefix() -> str:
    """Everything of everybody; the folders right below are the users' ids."""
    return "users"


def user_prefix(user_id: str) -> str:
    """Everything of one user."""
    return f"{users_prefix()}/{_id(user_id)}"


def projects_prefix(user_id: str) -> str:
    """Everything of a user's projects; the folders right below are the projects' ids."""
    return f"{user_prefix(user_id)}/projects"


def project_prefix(user_id: str, project_id: str) -> str:
    """Everything of one project but its blobs and renders, which are the user's."""
    return f"{projects_prefix(user_id)}/{_id(project_id)}"


def sessions_prefix(user_id: str, project_id: str) -> str:
    """What belongs to a project's sessions; the folders right below are the sessions' ids."""
    return f"{project_prefix(user_id, project_id)}/sessions"


def session_prefix(user_id: str, project_id: str, session_id: str) -> str:
    """What one session stored for itself; its forks name what they have from it by the same keys."""
    return f"{sessions_prefix(user_id, project_id)}/{_id(session_id)}"


def manifest_key(user_id: str, project_id: str, session_id: str, checkpoint_id: str) -> str:
    """A checkpoint's manifest."""
    return f"{session_prefix(user_id, project_id, session_id)}/checkpoints/{_id(checkpoint_id)}.json"


def pictures_prefix(user_id: str, project_id: str, session_id: str) -> str:
    """The pictures of a session's page that agents took."""
    return f"{session_prefix(user_id, project_id, session_id)}/pictures"


def picture_key(user_id: str, project_id: str, session_id: str, digest: str) -> str:
    """A picture of a session's page that an agent took, by the SHA-256 of its bytes."""
    return f"{pictures_prefix(user_id, project_id, session_id)}/{_hash(digest)}.png"


def comparison_key(user_id: str, project_id: str, session_id: str, digest: str) -> str:
    """By how much two videos differ; by a hash of which."""
    return f"{session_prefix(user_id, project_id, session_id)}/comparisons/{_hash(digest)}.json"


def proposal_key(user_id: str, project_id: str, session_id: str, digest: str) -> str:
    """Files that were written for a call which a person has to agree to first; by a hash of the call."""
    return f"{session_prefix(user_id, project_id, session_id)}/proposals/{_hash(digest)}.json"


def blob_key(user_id: str, digest: str) -> str:
    """A file's bytes by their SHA-256; shared by the user's projects, never with another user."""
    return f"{user_prefix(user_id)}/blobs/sha256/{_hash(digest)[:2]}/{digest}"


ContentKind: TypeAlias = Literal["units", "films", "bundles"]
CONTENT_KINDS: tuple[ContentKind, ...] = get_args(ContentKind)
"""What is made from something else, and may be made again."""


def content_prefix(user_id: str, kind: ContentKind) -> str:
    """All of a user's units, films or bundles: a folder for two digits of a hash, in it one for each hash."""
    return f"{user_prefix(user_id)}/{kind}"


def shared_prefixes(user_id: str) -> tuple[str, ...]:
    """What is stored by its content, for all of a user's sessions: blobs, bundles, units and films."""
    return (f"{user_prefix(user_id)}/blobs/sha256", *(content_prefix(user_id, kind) for kind in CONTENT_KINDS))


def asset_key(user_id: str, project_id: str, asset_id: str, name: str) -> str:
    """A file that a person uploaded; ``name`` is its name without folders."""
    if "/" in name:
        raise InvalidPath(f"asset name {name[:200]!r} holds a '/': pass the file's name alone")
    return check_key(f"{project_prefix(user_id, project_id)}/assets/{_id(asset_id)}/{name}")


def bundle_prefix(user_id: str, bundle_hash: str) -> str:
    """Everything of one built bundle."""
    return f"{user_prefix(user_id)}/bundles/{_hash(bundle_hash)[:2]}/{bundle_hash}"


def bundle_key(user_id: str, bundle_hash: str, name: str = "bundle") -> str:
    """One object of a built bundle; ``name`` may hold folders."""
    return check_key(f"{bundle_prefix(user_id, bundle_hash)}/{name}")


def unit_key(user_id: str, unit_hash: str) -> str:
    """One encoded unit of a frame grid, by what decides its pixels."""
    return f"{user_prefix(user_id)}/units/{_hash(unit_hash)[:2]}/{unit_hash}/video"


def unit_meta_key(user_id: str, unit_hash: str) -> str:
    """What is known of a unit: frame hashes, timings."""
    return f"{user_prefix(user_id)}/units/{_hash(unit_hash)[:2]}/{unit_hash}/meta.json"


def film_prefix(user_id: str, film_hash: str) -> str:
    """What is known of one video, by what decides it: which job made it, and which jobs make it now."""
    return f"{user_prefix(user_id)}/films/{_hash(film_hash)[:2]}/{film_hash}"


def film_key(user_id: str, film_hash: str) -> str:
    """Which job made a video last."""
    return f"{film_prefix(user_id, film_hash)}/made.json"


def siblings_prefix(user_id: str, recipe_hash: str) -> str:
    """Which bundles a video was made of, by what decides it apart from its bundle."""
    return f"{film_prefix(user_id, recipe_hash)}/bundles"


def sibling_key(user_id: str, recipe_hash: str, bundle_hash: str) -> str:
    """That a video was made of one bundle."""
    return f"{siblings_prefix(user_id, recipe_hash)}/{_hash(bundle_hash)}"


def claim_key(user_id: str, grid_hash: str, job_id: str) -> str:
    """What a job captures at the moment of one frame grid."""
    return f"{film_prefix(user_id, grid_hash)}/claims/{_id(job_id)}.json"


def renders_prefix(user_id: str) -> str:
    """The results of all of a user's render jobs; the folders right below are the jobs' ids."""
    return f"{user_prefix(user_id)}/renders"


def render_prefix(user_id: str, job_id: str) -> str:
    """Everything of one render job's result."""
    return f"{renders_prefix(user_id)}/{_id(job_id)}"


def video_key(user_id: str, job_id: str, extension: str) -> str:
    """A job's joined video; ``extension`` without the dot."""
    if not _EXTENSION.fullmatch(extension):
        raise InvalidPath(
            f"video extension {extension[:40]!r} is not one: lower-case letters and digits, without the dot"
        )
    return f"{render_prefix(user_id, job_id)}/video.{extension}"


def thumbnail_key(user_id: str, job_id: str) -> str:
    """A job's still picture."""
    return f"{render_prefix(user_id, job_id)}/thumbnail.jpg"


def report_key(user_id: str, job_id: str) -> str:
    """A job's report: probe, timings, fingerprint."""
    return f"{render_prefix(user_id, job_id)}/report.json"


def report_page_key(user_id: str, job_id: str) -> str:
    """The report as a page for people, with the contact sheet in it."""
    return f"{render_prefix(user_id, job_id)}/report.html"


def sheet_key(user_id: str, job_id: str) -> str:
    """A job's contact sheet."""
    return f"{render_prefix(user_id, job_id)}/sheet.jpg"
