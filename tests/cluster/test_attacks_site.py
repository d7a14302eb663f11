# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A second user on profile `site`, on the login node and on the nodes of somebody else's job while it runs: what he can
read of it, write into it, and do to it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from tests.cluster.attack import ATTACKER
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import RESULT, UNTIL_GO, Site

AS_STRANGER = ["setpriv", f"--reuid={ATTACKER.uid}", f"--regid={ATTACKER.uid}", "--clear-groups", "env", "HOME=/tmp"]
#: Looks for a value in everything that whoever runs it can read below some folders, and of all processes.
SEARCH = r"""
import json, os, sys
value, *places = json.load(sys.stdin)
seen, found = 0, []
for place in places:
    for folder, below, names in os.walk(place):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and not os.path.islink(path):
                    with open(path, "rb") as stream:
                        seen += 1
                        if value.encode() in stream.read(1 << 22):
                            found.append(path)
            except OSError:
                continue
for pid in filter(str.isdigit, os.listdir("/proc")):
    for part in ("cmdline", "environ"):
        try:
            with open(f"/proc/{pid}/{part}", "rb") as stream:
                if value.encode() in stream.read():
                    found.append(f"/proc/{pid}/{part}")
        except OSError:
            continue
print(json.dumps([seen, found]))
"""


@pytest.fixture
def site(site_lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(site_lab, tmp_path, request.node.name)
    made.cluster["resources"] = {"account": profile.ACCOUNT}
    yield made
    made.close()


def test_a_second_user_reads_no_secret_and_neither_writes_nor_ends_the_launch(site: Site) -> None:
    lab, value = site.lab, secrets.token_hex(20)
    job = site.job(
        f"echo begun; {UNTIL_GO}; {RESULT}",
        secrets={"TOKEN": {"from_env": "MY_TOKEN"}},
        resources={"nodes": 2, "time": "00:05:00", "memory": "300M"},
        artifact={"require": {"loss": {"lt": 2}}},
    )
    play = site.start(job, wait=True, env={"MY_TOKEN": value})
    begun = lambda: [run for run in site.runs() if (run / "started.json").exists()]  # noqa: E731
    lab.wait_until(lambda: begun() or play.process.poll() is not None, 120, "the ranks begin")
    assert begun(), play.output
    (run,) = begun()
    inside = f"{site.state_root}/runs/{'/'.join(run.parts[-3:])}"
    search = [*AS_STRANGER, "python3", "-c", SEARCH]
    # /tmp of the head is this machine's.
    asked = {"head": [value, site.state_root], "nodes": [value, site.state_root, "/tmp", "/dev/shm"]}
    looks = [lab.head(search, input=json.dumps(asked["head"]))]
    looks += [lab.node(node, search, input=json.dumps(asked["nodes"])) for node in lab.nodes]
    for look in looks:
        seen, where = json.loads(look.stdout)
        assert seen > 0 and where == [], "what is not secret can be read, and the value is in none of it"
    (job_id,) = site.jobs()
    tries = {
        "a file in the run": f"touch {inside}/work/go",
        "another outcome": f"echo '{{}}' > {inside}/outcome.json",
        "no claim": f"rm -f {inside}/claim && [ ! -e {inside}/claim ]",
        "a link for the state": f"mv {site.state_root} {site.state_root}.away",
        "the end of the job": f"scancel {job_id}",
        "a requeue": f"scontrol requeue {job_id}",
        "a step in the job": f"srun --jobid={job_id} --overlap --ntasks=1 true",
    }
    done = {name: lab.head([*AS_STRANGER, "sh", "-c", line], check=False).returncode for name, line in tries.items()}
    assert all(done.values()), done
    assert lab.head([*AS_STRANGER, "squeue", "--noheader"]).stdout == ""
    # Whatever Slurm answers here.
    shown = lab.head([*AS_STRANGER, "scontrol", "write", "batch_script", job_id, "-"], check=False)
    assert value not in shown.stdout + shown.stderr
    (run / "work" / "go").touch()
    played = play.finish()
    assert played.rc == 0, played.output
    assert (run / "outcome.json").exists() and value not in played.output
