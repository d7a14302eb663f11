# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a job when Slurm itself does not see it: a node that is back within seconds, a requeue after the proof.
And what its nodes do before its ranks and after them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.launching import RESULT, UNTIL_GO, Site, log_of, nothing_left, read_json
from tests.cluster.profiles import the_profile_is_not_read

PROGRAM = """
import os, time
rank = os.environ["RANK"]
open("ran", "a").write(rank + "\\n")
while rank != "0" or not os.path.exists("go"):
    time.sleep(0.1)
open("result.json.new", "w").write('{"loss": 1.5}')
os.replace("result.json.new", "result.json")
"""


def test_a_node_that_is_back_within_seconds_does_not_keep_the_job(site: Site) -> None:
    """srun waits for the rank that went with it. The artifact is proven, and rank 0 has ended: that decides. And the
    same job, requeued by an operator afterwards, finds its proof.
    """
    if site.lab.way != "realistic":
        pytest.skip("a node dies as a whole only where it has namespaces of its own")
    job = site.job(
        ["python3", "-c", PROGRAM],
        artifact={"path": "result.json", "require": {"loss": {"lt": 4}}},
        resources={"time": "00:10:00", "nodes": 2},
        # A minute is long for a test.
        setup={"commands": ["export RANKZERO_SHORT_WAIT=3 RANKZERO_LOOK_EVERY=1"]},
    )
    launch = site.launch(job)
    run, job_id = site.run_dir(launch), launch["job_id"]
    site.lab.wait_until(lambda: _ran(run) == ["0", "1"], what="both ranks run")
    node = read_json(run / "started.json")["nodes"][1]
    site.lab.faults.power_off(node)
    site.lab.faults.power_on(node)
    (run / "work" / "go").touch()
    assert site.ended(job_id) == "COMPLETED", log_of(run, job_id)
    outcome = site.outcome(launch)
    assert (outcome["success"], outcome["ended_by"]) == (True, "artifact"), outcome
    assert "1 of 2 tasks had ended, 1 had not; the step was ended after" in outcome["message"]

    assert site.lab.head(["scontrol", "requeue", job_id]).returncode == 0
    said = f"proven already by job {job_id}, attempt 1"
    site.lab.wait_until(lambda: said in log_of(run, job_id), 120, "the requeued job says so")
    assert site.ended(job_id) == "COMPLETED"
    assert (site.outcome(launch), _ran(run)) == (outcome, ["0", "1"])


def test_no_job_reads_a_profile(site: Site) -> None:
    if site.lab.way != "realistic":
        pytest.skip("a node has a profile of its own only where it has namespaces of its own")
    the_profile_is_not_read(site)


#: A rank that waits for the other three.
TOGETHER = "touch done-$RANK; until [ $(ls | grep -c done-) = 4 ]; do sleep 0.1; done"
#: A folder on each node's own disk, with the token of the test.
LOCAL = '"${{TMPDIR:-/tmp}}/rankzero-lines-{}-$SLURMD_NODENAME"'


def test_nodes_stage_in_before_the_ranks_and_copy_out_after_them_also_where_they_fail(site: Site) -> None:
    """What is copied out may be the proof itself."""
    local = LOCAL.format(site.token)
    (site.folder / "code" / "part").write_text("words\n", encoding="utf-8")
    ranks = f'place={local}; cp "$place/part" "$place/seen-$RANK"; (cd "$place"; {RESULT}); {TOGETHER}'
    around = {
        "before_ranks": [f"place={local}", 'mkdir "$place"', 'cp "$RANKZERO_CODE/part" "$place"'],
        "after_ranks": [f"place={local}", 'cp "$place"/seen-* "$place"/result.json .', 'rm -r "$place"', "ls missing"],
    }
    more = {
        "setup": around,
        "resources": {"time": "00:10:00", "nodes": 2},
        "launcher": {"ranks_per_node": 2},
    }
    proven = site.job(ranks, "proven", artifact={"path": "result.json"}, **more)
    failed = site.job(f'{ranks}; [ "$RANK" != 3 ]', "failed", **more)
    for job, state in ((proven, "COMPLETED"), (failed, "FAILED")):
        launch = site.launch(job)
        assert site.ended(launch["job_id"]) == state, log_of(site.run_dir(launch), launch["job_id"])
        outcome, work = site.outcome(launch), site.run_dir(launch) / "work"
        assert outcome["success"] is (state == "COMPLETED"), outcome
        copied = {path.name: path.read_text() for path in work.glob("seen-*")}
        assert copied == {f"seen-{rank}": "words\n" for rank in range(4)}
        # The last line fails, which is said and changes no verdict.
        assert outcome["after_ranks"].startswith("`ls missing` ended with exit code 2 on "), outcome
    for node in site.lab.nodes:
        assert site.token not in site.lab.node(node, ["ls", "/tmp"]).stdout


def test_a_line_that_fails_on_one_node_ends_the_job_before_its_ranks(site: Site) -> None:
    line = '[ "$SLURM_NODEID" != 1 ]'
    job = site.job("touch ran", setup={"before_ranks": [line]}, resources={"time": "00:10:00", "nodes": 2})
    played = site.play(job, wait=True)
    assert played.rc != 0 and not (site.run_dir(played.launch()) / "work" / "ran").exists()
    message = site.outcome(played.launch())["message"]
    assert message.startswith(f"the set-up failed: `{line}` ended with exit code 1 on "), message
    assert message.endswith(" (setup.before_ranks)"), message
    assert "Correct the line of `setup`" in played.output, played.output


def test_a_line_after_the_ranks_that_ignores_term_holds_no_verdict(site: Site) -> None:
    """Slurm kills the batch script after its KillWait, three seconds here. By then the line has seen the verdict."""
    stubborn = f"trap '' TERM; touch at-it; until [ -e ../outcome.json ]; do sleep 0.1; done; touch saw; {UNTIL_GO}"
    job = site.job("true", setup={"after_ranks": [stubborn]}, resources={"time": "00:10:00", "nodes": 2})
    launch = site.launch(job)
    run = site.run_dir(launch)
    site.wait_for(run / "work" / "at-it")
    site.lab.head(["scancel", launch["job_id"]])
    assert site.ended(launch["job_id"]) in ("CANCELLED", "COMPLETED")
    # Slurm may call a job cancelled before its script has ended.
    outcome = site.outcome(launch)
    assert outcome["success"] and outcome["after_ranks"] == "setup.after_ranks was ended by a signal", outcome
    assert (run / "work" / "saw").exists()
    nothing_left(site, launch)


def _ran(run: Path) -> list[str]:
    path = run / "work" / "ran"
    return sorted(path.read_text().split()) if path.exists() else []
