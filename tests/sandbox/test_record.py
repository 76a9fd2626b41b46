"""A sandbox's record, written by several threads of one process at once."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from koda_ray.sandbox.record import Owner, Record


def test_threads_that_write_one_record_leave_a_whole_one_at_every_moment(tmp_path: Path) -> None:
    record = Record(
        id="sbx_1", session_id="", user_id="ann", state="ready", disk="directory", user=None, groups=(),
        owner=Owner.this_process(), preview_socket="",
    )  # fmt: skip
    record.write(tmp_path)
    errors: list[BaseException] = []
    over = threading.Event()

    def write(number: int) -> None:
        try:
            for _ in range(200):
                replace(record, user_id=f"ann-{number}").write(tmp_path)
        except BaseException as error:
            errors.append(error)

    def look() -> None:
        while not over.is_set():
            if Record.read(tmp_path) is None:
                errors.append(AssertionError("half a record was seen"))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    reader = threading.Thread(target=look)
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    reader.join()
    assert errors == [] and [path.name for path in tmp_path.iterdir()] == ["sandbox.json"]
