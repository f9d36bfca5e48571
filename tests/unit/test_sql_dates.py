"""SQL's DATE is midnight in the time zone of the node that made it: which day that is."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator

import pytest

from ignite_strategy.topology.sql_dates import to_date

DAY, HOUR = 86_400_000, 3_600_000


@pytest.fixture(params=["UTC", "Europe/Berlin", "Pacific/Auckland", "America/Los_Angeles"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("behind", [0, 1, 2, 5.5, 13, -8, -10.5])
def test_the_day_whatever_the_zones(zone: str, behind: float) -> None:
    day = datetime.date(2020, 1, 15)
    midnight = (day.toordinal() - datetime.date(1970, 1, 1).toordinal()) * DAY
    assert to_date(int(midnight - behind * HOUR)) == day


def test_midnight_here(zone: str) -> None:
    for day in (
        datetime.datetime(1970, 1, 1),
        datetime.datetime(2024, 7, 1),
        datetime.datetime(1901, 12, 31),
    ):
        assert to_date(round(day.timestamp() * 1000)) == day.date()


@pytest.mark.parametrize(
    ("millis", "day"),
    [
        (-12219292800000, datetime.date(1582, 10, 15)),
        (-12219292800000 - DAY, datetime.date(1582, 10, 4)),
        (-62135769600000, datetime.date(1, 1, 1)),  # what Ignite 2.17 answers for DATE '0001-01-01'
        (253402214400000, datetime.date(9999, 12, 31)),
        (253402214400000 + 2 * DAY, 253402214400000 + 2 * DAY),
        (-(2**63), -(2**63)),
    ],
)
def test_days_as_java_counts_them(millis: int, day: object) -> None:
    assert to_date(millis) == day
