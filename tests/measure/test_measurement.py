import json
from dataclasses import replace

from metol.measure import Measurement, Status

ROW = Measurement("harris", "metol", Status.OK, 1.5, 0.5, 3.25, (3.0, 3.25, 3.5), True, "fine", (3.1, 3.4))


def test_to_row_has_exactly_the_fields_of_a_result_file() -> None:
    assert json.loads(json.dumps(ROW.to_row())) == {
        "app": "harris",
        "scheduler": "metol",
        "status": "ok",
        "schedule_seconds": 1.5,
        "compile_seconds": 0.5,
        "run_ms": 3.25,
        "run_ms_samples": [3.0, 3.25, 3.5],
        "verified": True,
        "detail": "fine",
        "interval_ms": [3.1, 3.4],
    }


def test_from_row_is_the_inverse_of_to_row() -> None:
    assert Measurement.from_row(json.loads(json.dumps(ROW.to_row()))) == ROW


def test_a_row_of_an_earlier_metol_has_no_interval() -> None:
    row = ROW.to_row()
    del row["interval_ms"]
    assert Measurement.from_row(row) == replace(ROW, interval_ms=None)


def test_failed_row_is_not_verified() -> None:
    failed = ROW.with_failure(Status.WRONG_RESULT, "7 elements differ")
    assert not failed.verified
    assert not failed.is_ok
