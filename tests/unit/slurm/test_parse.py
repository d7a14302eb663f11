# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import SACCT_COLUMNS, SQUEUE_COLUMNS
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import Gres, Submitted
from tests.unit.slurm.recorded import recorded


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("123\n", Submitted("123")),
        ("123;gpu\n", Submitted("123", "gpu")),
        ("Submitted batch job 123 on cluster x\n", Submitted("123", "x")),
        ("Submitted batch job 123\n", Submitted("123")),
        ("*** Welcome ***\nQuota: 3 of 10\n\n123\n", Submitted("123")),
        ("2024\n123;gpu\nhave a nice day\n", Submitted("123", "gpu")),
        ("sbatch: routed to batch\nSubmitted batch job 5\n77\n", Submitted("5")),
        ("", None),
        ("no id here, job 12 said the wrapper\n", None),
    ],
)
def test_the_job_id_among_noise(text: str, expected: Submitted | None) -> None:
    assert parse.parse_submitted(text) == expected


def test_names_with_every_character_survive_squeue() -> None:
    rows, warnings = parse.parse_records(recorded("squeue.txt"), SQUEUE_COLUMNS)
    names = {row["JobArrayID"]: row["Name"] for row in rows}
    assert warnings == []
    assert len(rows) == 18
    assert names["18"] == 'we|ird na=me %j "q" Name=x'
    assert names["19"] == "new\nline\x1fsep\ttab"
    assert names["20"] == "ünï"
    assert names["28_[3-5%2]"] == "arr"


def test_names_with_every_character_survive_sacct() -> None:
    rows, warnings = parse.parse_lines(recorded("sacct.txt"), SACCT_COLUMNS)
    names = {row["JobID"]: row["JobName"] for row in rows}
    assert warnings == []
    # sacct 22.05 itself turns double quotes into backticks when it stores a name.
    assert names["18"] == "we|ird na=me %j `q` Name=x"
    assert names["19"] == "new\nline\x1fsep\ttab"
    assert names["34"] == "cancelled"
    assert [row["State"] for row in rows if row["JobID"] == "30"] == ["REQUEUED", "PENDING"]


def test_noise_and_broken_rows_are_warnings() -> None:
    good = parse.FIELD.join("abc") + parse.RECORD + "\n"
    text = f"maintenance on Monday\n{good}one{parse.FIELD}two{parse.RECORD}\n{good}bye\n"
    rows, warnings = parse.parse_records(text, ("x", "y", "z"))
    assert rows == [{"x": "a", "y": "b", "z": "c"}] * 2
    assert [warning.split(":")[0] for warning in warnings] == [
        "ignored unexpected output",
        "ignored a row with 2 of 3 fields",
        "ignored unexpected output",
    ]


def test_noise_before_the_first_line_of_sacct_is_a_warning() -> None:
    rows, warnings = parse.parse_lines(f"banner\n1{parse.FIELD}n\n\n", ("JobID", "JobName"))
    assert rows == [{"JobID": "1", "JobName": "n"}]
    assert len(warnings) == 1


@given(st.text(max_size=200))
def test_no_output_crashes_a_parser(text: str) -> None:
    parse.parse_records(text, SQUEUE_COLUMNS)
    parse.parse_lines(text, SACCT_COLUMNS)
    parse.parse_blocks(text)
    parse.parse_config(text)
    parse.parse_ping(text)
    parse.parse_submitted(text)
    parse.parse_epoch(text)
    parse.parse_duration(text)
    parse.parse_exit(text)
    parse.parse_count(text)
    parse.parse_gres(text)


@given(st.text(st.characters(blacklist_characters=[parse.RECORD], blacklist_categories=["Cs"]), max_size=50))
def test_any_name_comes_back_whole(name: str) -> None:
    row = "7" + parse.FIELD + name + parse.RECORD + "\n"
    rows, warnings = parse.parse_records(row * 2, ("JobID", "Name"))
    assert [r["Name"] for r in rows] == [name.strip(" ")] * 2
    assert warnings == []


def test_blocks_of_scontrol() -> None:
    blocks = parse.parse_blocks(recorded("scontrol_job.txt"))
    by_id = {block["JobId"]: block for block in blocks}
    assert by_id["18"]["JobName"] == 'we|ird na=me %j "q" Name=x'
    assert by_id["18"]["JobState"] == "RUNNING"
    assert by_id["18"]["UserId"] == "root(0)"
    assert by_id["19"]["JobName"] == "new\nline\x1fsep\ttab"
    assert by_id["23"]["ExitCode"] == "3:0"
    assert by_id["23"]["Reason"] == "NonZeroExitCode"
    assert by_id["23"]["WorkDir"] == "/shared"
    assert by_id["23"]["CPUs/Task"] == "1"
    assert by_id["28"]["ArrayTaskId"] == "3-5%2"


def test_blocks_keep_spaces_in_values() -> None:
    text = "JobId=1 JobName=a b=c\n   JobState=RUNNING Reason=None\n   WorkDir=/a dir/x=y z\n   Comment=k=v w\n"
    (block,) = parse.parse_blocks(text)
    assert block["JobName"] == "a b=c"
    assert (block["JobState"], block["Reason"]) == ("RUNNING", "None")
    assert block["WorkDir"] == "/a dir/x=y z"
    assert block["Comment"] == "k=v w"


def test_config_and_ping() -> None:
    config = parse.parse_config(recorded("scontrol_config.txt"))
    assert config["MaxArraySize"] == "5001"
    assert config["KillWait"] == "3 sec"
    assert config["AccountingStorageBackupHost"] == ""
    assert parse.parse_ping(recorded("ping_up.txt")) == [{"role": "primary", "host": "vm", "up": True}]
    assert parse.parse_ping(recorded("ping_down.txt")) == [{"role": "primary", "host": "vm", "up": False}]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30:00", 1800),
        ("1:00:00", 3600),
        ("0:08", 8),
        ("1-00:00:00", 86400),
        ("2-03", 2 * 86400 + 3 * 3600),
        ("2-03:30", 2 * 86400 + 3 * 3600 + 1800),
        ("90", 5400),
        ("infinite", None),
        ("UNLIMITED", None),
        ("n/a", None),
        ("INVALID", None),
        ("x:y", None),
    ],
)
def test_durations(text: str, seconds: int | None) -> None:
    assert parse.parse_duration(text) == seconds


def test_times() -> None:
    assert parse.parse_epoch("1795208711") == 1795208711.0
    for unknown in ("Unknown", "N/A", "None", "0", "", "soon"):
        assert parse.parse_epoch(unknown) is None
    iso = parse.parse_epoch("2026-11-20T21:05:11")
    assert iso is not None and iso == parse.parse_epoch("2026-11-20T21:05:12") - 1.0  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3:0", (3, 0)), ("0:125", (0, 125)), ("768", (3, 0)), ("11", (0, 11)), ("139", (0, 11)), ("N/A", (None, None))],
)
def test_exit_codes(text: str, expected: tuple[int | None, int | None]) -> None:
    assert parse.parse_exit(text) == expected


@pytest.mark.parametrize(("text", "number"), [("8", 8), ("16+", 16), ("2K", 2048), ("infinite", None), ("", None)])
def test_counts(text: str, number: int | None) -> None:
    assert parse.parse_count(text) == number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:8", [Gres("gpu", None, 8)]),
        ("gpu:h100:8(S:0-1)", [Gres("gpu", "h100", 8)]),
        (
            "gpu:a100:2(IDX:0,3),gpu:h100-80gb:4,shard:16",
            [Gres("gpu", "a100", 2), Gres("gpu", "h100-80gb", 4), Gres("shard", None, 16)],
        ),
        ("craynetwork", [Gres("craynetwork", None, 1)]),
        ("(null)", []),
        ("", []),
    ],
)
def test_gres(text: str, expected: list[Gres]) -> None:
    assert parse.parse_gres(text) == expected
