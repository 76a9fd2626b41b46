"""What idempotency keys make is called as in every version before: a request that is repeated finds what it made."""

from __future__ import annotations

import pytest

from koda_ray.render.options import JobOptions
from koda_ray.serve.again import new_render
from koda_ray.serve.batches import batch_name
from koda_ray.serve.once import asset_ending, asset_name, comment_name, group_name, share_name

KEY = "Schlüssel-1"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (share_name("ses_1", KEY), "shr_a7ce0afcd7381abacc75558d3b855cf9"),
        (comment_name("shr_1", KEY), "cmt_fab077cd47663d0f6854e6dd73490b87"),
        (asset_ending("ann", KEY), "fa836f8efe2cfb9"),
        (batch_name("ann", KEY), "bat_5508d7a1b7f21faae1015293461"),
        (
            new_render("ann", "default", key=KEY, wanted={}, options=JobOptions()).id,
            "job_4c50672d524bf01dd38b5d5ee3eefc5c",
        ),
        (group_name("local", KEY), "grp_52e78f4ff5440c146b9e28fb1b62815d"),
    ],
)
def test_ids_that_are_made_of_keys_stay_what_they_were(made: str, expected: str) -> None:
    assert made == expected


def test_a_file_is_found_by_the_end_of_its_id() -> None:
    one, other = (asset_name(asset_ending("ann", KEY)) for _ in range(2))
    assert one != other and one.endswith(asset_ending("ann", KEY)) and other.endswith(asset_ending("ann", KEY))
