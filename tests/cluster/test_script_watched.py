# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What surrounds a batch script that knows nothing of it: preflight, trackers, the signal before the time limit, a
second launch that adopts it, a stall that the wait says, status, cancellation, the ledger and the report.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.launching import JOB_SECONDS, Site, log_of, nothing_left, rank_logs, read_json
from tests.cluster.test_command import Person
from tests.unit.runtime import mlflow_server

#: A bound of waiting for a stall, which counts from a minute without a step on.
STALL_SECONDS = 300
#: A tracking server on the lab's head, which prints its port.
SERVER = """
import mlflow_server, time
print(mlflow_server.TrackingServer("0.0.0.0").server_port, flush=True)
time.sleep(900)
"""

#: Told of the time limit, it saves and requeues itself; its second attempt goes on from there.
SAVES = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=00:10:00 --requeue --signal=B:USR1@60
trap 'echo 3 > saved; echo told; scontrol requeue "$SLURM_JOB_ID"; sleep 60' USR1
srun bash -c 'echo "rank $SLURM_PROCID of $WANDB_RUN_ID $WANDB_MODE in mlflow $MLFLOW_RUN_ID as $RANKZERO_TRACKER_RUN"'
if [ ! -e saved ]; then
    echo begun
    while :; do sleep 0.1; done
fi
echo '{"steps": '"$(cat saved)"'}' > result.json
"""
#: Its ranks print four steps with their time, and then nothing more.
STANDS = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=00:10:00
srun bash -c 'for step in 1 2 3 4; do
    [ "$SLURM_PROCID" != 0 ] || echo "$(date "+%F %T,000") step $step/100 loss 2.$step"; sleep 1
done; sleep 600'
"""


@pytest.fixture
def tracking(site: Site) -> Iterator[str]:
    """The address of a tracking server on the lab's head."""
    place = site.own(f"{site.state_root}.server")
    (place / "mlflow_server.py").write_text(Path(mlflow_server.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    line = 'cd "$1" && setsid python3 -c "$2" > port 2> errors < /dev/null & echo $!'
    pid = site.lab.head(["sh", "-c", line, "sh", f"{site.state_root}.server", SERVER]).stdout.strip()
    try:
        site.lab.wait_until(lambda: (place / "port").exists() and (place / "port").read_text(), JOB_SECONDS, "a port")
        shown = site.lab.head(["scontrol", "show", "config"]).stdout
        host = re.search(r"^SlurmctldHost\S*\s*=\s*([^\s(]+)", shown, re.M)
        assert host, shown
        yield f"http://{host[1]}:{(place / 'port').read_text().strip()}"
    finally:
        site.lab.head(["kill", "-KILL", "--", f"-{pid}"], check=False)


def script_job(site: Site, text: str, **more: Any) -> dict[str, Any]:
    job = {**site.job("true"), "script": text, **more}
    del job["command"], job["resources"]
    return job


def test_a_script_is_told_of_its_limit_and_goes_on_as_one_run_of_its_trackers(site: Site, tracking: str) -> None:
    trackers = {"wandb": {"offline": True}, "mlflow": {"server": tracking, "project": "gpt"}}
    job = script_job(site, SAVES, trackers=trackers, preflight={"enabled": True}, artifact={"path": "result.json"})
    play = site.start(job, wait=True)
    site.lab.wait_until(lambda: site.runs() and "begun" in rank_logs(site.runs()[0]).get("rank-0000.log", ""), 120)
    (run,) = site.runs()
    job_id = read_json(run / "started.json")["job_id"]
    # Its controller is gone; the same launch again adopts the job.
    play.signal(signal.SIGKILL)
    play.process.wait()
    again = site.start(job, wait=True)
    site.lab.wait_until(lambda: f"job {job_id}" in again.output, JOB_SECONDS, "the second launch follows the job")
    # What Slurm does before the time limit: the signal goes to the batch script alone.
    site.lab.head(["scancel", "--batch", "--signal=USR2", job_id])
    site.lab.wait_until((run / "work" / "saved").exists, JOB_SECONDS, "the script has saved")
    site.lab.wait_until(lambda: site.jobs().get(job_id) in ("PENDING", "RUNNING"), JOB_SECONDS, "it is back")
    site.lab.head(["scontrol", "update", f"JobId={job_id}", "StartTime=now"], check=False)
    played = again.finish()
    assert played.rc == 0, played.output
    assert list(site.jobs()) == [job_id], "one job for both launches"
    outcome = read_json(run / "outcome.json")
    assert (outcome["success"], outcome["attempt"]) == (True, 1), log_of(run, job_id)
    said = [rank_logs(run, attempt)["rank-0000.log"] for attempt in (0, 1)]
    assert "told" in said[0]
    # The same run of each tracker for both ranks of both attempts.
    lines = {line.partition(" of ")[2] for text in said for line in text.splitlines() if line.startswith("rank ")}
    (line,) = lines
    name = f"{run.parents[1].name}-{run.parent.name}-1"
    assert re.fullmatch(rf"\S+ offline in mlflow {1:032x} as {re.escape(name)}", line), line
    nodes = read_json(run / "started.json")["nodes"]
    table = (run / "preflight" / "0" / "table").read_text(encoding="utf-8").splitlines()
    assert {row.split()[0] for row in table} >= {*nodes}, table


# A stall that a wait says: test_hangs.py.
@pytest.mark.more
def test_a_script_that_stands_still_is_said_by_the_wait_and_accounted_for_when_it_is_cancelled(site: Site) -> None:
    person = Person(site)
    path = site.write(script_job(site, STANDS), "job.yml")
    play = site.start(path, wait=True)
    site.lab.wait_until(lambda: "stands still" in play.output, STALL_SECONDS, "the wait says the stall")
    (stalled,) = [line for line in play.output.splitlines() if "stands still" in line][:1]
    assert "no step for" in stalled, stalled
    (active,) = person.asks("ls", "--active")
    assert active["status"]["success"] is False and active["job_id"] in site.left()
    stopped = person.types("cancel", path)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    play.finish()
    assert site.ended(active["job_id"]) == "CANCELLED"
    nothing_left(site, active)
    (why,) = person.asks("why", path)
    parts = {row["part"]: row["node_hours"] for row in why["ledger"]["parts"]}
    assert parts["steps"] and parts["steps"] > 0, parts
    assert sum(hours or 0 for hours in parts.values()) > 2 * 60 / 3600, "two nodes for more than a minute"
    done = person.types("usage", "--by", "name", "--json")
    (row,) = json.loads(done.stdout)["rows"]
    assert row["launches"] == 1 and row["node_hours"] > 2 * 60 / 3600, row
    done = person.types("report", path, "--json")
    (page,) = json.loads(done.stdout)["pages"]
    text = Path(page["page"]).read_text(encoding="utf-8")
    assert page["kind"] == "launch" and active["job_id"] in text
