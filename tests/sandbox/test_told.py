from __future__ import annotations

import pytest

from koda_ray.errors import SandboxError
from koda_ray.sandbox.told import checked_modes, checked_skips


def test_modes_are_cut_to_what_a_checkpoint_keeps() -> None:
    told = {"src/a.ts": 0o6200, "src": 0o2075}
    assert checked_modes(told, {"src/a.ts"}) == {"src/a.ts": 0o600, "src": 0o775}


@pytest.mark.parametrize("told", [None, [], {"../out": 0o755}, {"src": "755"}, {"": 0o755}, {"src/a\n": 0o755}])
def test_modes_of_what_no_checkpoint_holds_are_refused(told: object) -> None:
    with pytest.raises(SandboxError, match=r"nonsense.*make another"):
        checked_modes(told, {"src/a.ts"})


def test_what_was_left_out_is_told_with_a_reason_that_is_one() -> None:
    assert checked_skips({"src/\udcff": "name", "src/x": "unreadable"}) == {"src/\udcff": "name", "src/x": "unreadable"}
    for told in (None, ["src/x"], {"src/x": "because"}, {"src/x": 1}):
        with pytest.raises(SandboxError, match=r"nonsense.*make another"):
            checked_skips(told)
