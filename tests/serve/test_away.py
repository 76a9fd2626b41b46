"""What a request is told when what it needs does not answer."""

from __future__ import annotations

import json

import pytest

from koda_ray.errors import BucketAway, DatabaseAway, KodaError, StorageError, Unavailable
from koda_ray.serve.problem import error_response


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (DatabaseAway("it does not answer"), 503, "STORAGE_FAILED"),
        (BucketAway("it does not answer"), 503, "STORAGE_FAILED"),
        (Unavailable("the head does not answer"), 503, "UNAVAILABLE"),
    ],
)
def test_what_does_not_answer_now_says_when_to_ask_again(error: KodaError, status: int, code: str) -> None:
    answer = error_response(error, "/v1/sessions/ses_1")
    told = json.loads(bytes(answer.body))
    assert (answer.status_code, told["code"], told["retryable"]) == (status, code, True)
    assert int(answer.headers["Retry-After"]) > 0


def test_what_failed_for_another_reason_does_not() -> None:
    assert "Retry-After" not in error_response(StorageError("no such bucket"), "/v1/sessions").headers
