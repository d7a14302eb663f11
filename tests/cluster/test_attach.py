# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inside an allocation that is there already: launches beside each other, exactly once, and a shell by hand."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.lab_user import LabUser
from tests.cluster.launching import CLOSING, JOB_SECONDS, RESULT, UNTIL_GO, Site, log_of, rank_logs, read_json

#: Cancels the launch of a job file.
ABSENT = """
- hosts: all
  gather_facts: false
  tasks:
    - rankzero.slurm.job: {job: "{{ job }}", cluster: "{{ launch_cluster }}", state: absent}
"""
#: Waits as the role does, but not as long for an outcome that a network file system may still hide.
WAIT = """
- hosts: all
  gather_facts: false
  tasks:
    - rankzero.slurm.job_wait: {run_dir: "{{ launch_run_dir }}", outcome_grace: 2}
"""


def allocate(lab: LabCluster, nodes: int, become: Sequence[str] | None = None) -> str:
    """An allocation as salloc gives it to a person, the tests' user or another; the id of its job."""
    given = [
        *(LabUser(lab).become() if become is None else become),
        "salloc",
        "--no-shell",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
    ]
    done = lab.head([*given, "--cpus-per-task=4", "--gres=gpu:2", "--time=00:20:00"])
    granted = re.search(r"Granted job allocation (\d+)", done.stderr)
    assert granted, done.stderr
    return granted[1]


@pytest.fixture(scope="module")
def allocation(lab: LabCluster) -> Iterator[str]:
    job_id = allocate(lab, 3)
    yield job_id
    lab.head(["scancel", job_id], check=False)


def steps(lab: LabCluster, job_id: str) -> dict[str, str]:
    """Step id -> name of the steps that run in a job."""
    listed = lab.head(["squeue", "--steps", "--noheader", f"--jobs={job_id}", "--Format=StepID:30,StepName:200"]).stdout
    return dict(line.split() for line in listed.splitlines())


def nodes_of(lab: LabCluster, job_id: str) -> list[str]:
    listed = lab.head(["squeue", "--noheader", f"--jobs={job_id}", "--Format=NodeList:200"]).stdout.strip()
    return lab.head(["scontrol", "show", "hostnames", listed]).stdout.split()


def inside(site: Site, job_id: str, program: str, name: str = "", nodes: int = 2, **launcher: Any) -> dict[str, Any]:
    wanted = {"inside_job": job_id, "ranks_per_node": 2, **launcher}
    return site.job(
        program,
        name,
        resources={"nodes": nodes, "time": "00:10:00", "partition": "batch"},
        launcher=wanted,
        artifact={"require": {"loss": {"lt": 2}}},
    )


def test_two_launches_beside_each_other_each_exactly_once(site: Site, allocation: str) -> None:
    """Fewer nodes than there are, and those of the user's choice; the ranks' surroundings; adoption; a proven end."""
    lab = site.lab
    first, second, third = nodes_of(lab, allocation)
    # Not by a shell's own word: it would set some of these itself.
    say = '/usr/bin/python3 -c \'import os; print("\\n".join(map("=".join, os.environ.items())))\''
    leak = {"SLURM_CPU_BIND": "rank_ldom", "SBATCH_QOS": "leaked", "LEAKED_TOKEN": "of the login node"}
    one = inside(site, allocation, f"{say}; {UNTIL_GO}; {RESULT}", "one")
    two = inside(site, allocation, f"{say}; {UNTIL_GO}; {RESULT}", "two", 1, inside_nodes=[third])
    # The rest of the test is the same for both.
    variables = " ".join(f"{name}='{value}'" for name, value in leak.items())
    shell = site.shell("leaking", f'exec env {variables} "$LAB_SHELL" "$@"')
    played = site.play(one, ansible_shell_executable=shell)
    assert played.rc == 0, played.output
    assert f"inside job {allocation}" in played.output, "and that the partition is not asked for"
    launches = [played.launch(), site.launch(two)]
    ids = [launch["job_id"] for launch in launches]
    assert all(step.startswith(f"{allocation}.") for step in ids) and ids[0] != ids[1]
    runs = [site.run_dir(launch) for launch in launches]
    for run, step in zip(runs, ids):
        site.wait_for(run / "started.json")
        assert (run / "claim").read_text().split() == ["1", lab.cluster_name, step]
    started = [read_json(run / "started.json") for run in runs]
    assert [one["nodes"] for one in started] == [[first, second], [third]]
    assert [one["world_size"] for one in started] == [4, 2]
    processes = lab.head(["ps", "-eo", "args"]).stdout.splitlines()
    left = [line for line in processes if "srun" in line.split()[0] and "/attach.sh" in line and site.token in line]
    assert not left, "nothing is left on the login node, for anybody to end"

    again = site.launch(one)
    assert (again["submission"], again["job_id"], again["changed"]) == ("adopted", ids[0], False)
    for run in runs:
        site.wait_for(run / "work")
    seen = {}
    site.lab.wait_until(lambda: len(rank_logs(runs[0])) == 4, JOB_SECONDS, "four ranks")
    site.lab.wait_until(lambda: "WORLD_SIZE=4\n" in rank_logs(runs[0])["rank-0003.log"], JOB_SECONDS, "the last speaks")
    for line in rank_logs(runs[0])["rank-0003.log"].splitlines():
        name, _equals, value = line.partition("=")
        seen[name] = value
    assert (seen["RANK"], seen["LOCAL_RANK"], seen["NODE_RANK"], seen["WORLD_SIZE"]) == ("3", "1", "1", "4")
    assert (seen["SLURM_JOB_ID"], seen["SLURM_NNODES"], seen["SLURM_NODEID"]) == (allocation, "2", "1")
    # srun says itself what it binds the ranks to.
    assert not [name for name in leak if leak[name] in seen.get(name, "")], "nothing of the login node"
    assert "CUDA_VISIBLE_DEVICES" not in seen or seen["CUDA_VISIBLE_DEVICES"] == "NoDevFiles", "no GPU was asked for"

    waiting = site.start(one, wait=True)
    site.lab.wait_until(lambda: "adopted" in waiting.output, JOB_SECONDS, "it attaches")
    for launch in launches:
        site.go(launch)
    done = waiting.finish()
    assert done.rc == 0, done.output
    assert re.search(rf"job +{re.escape(ids[0])}, generation 1, (COMPLETED|{'|'.join(CLOSING)})", done.output)
    assert site.outcome(launches[1])["success"]
    assert lab.head(["squeue", "--noheader", f"--jobs={allocation}", "--Format=State"]).stdout.strip() == "RUNNING"
    assert site.launch(one)["submission"] == "unchanged"
    assert len(site.runs()) == 2


def test_the_launch_is_cancelled_and_the_allocation_is_not(site: Site, allocation: str) -> None:
    """By us its ranks have time to save themselves. By somebody's scancel they are left behind, and seen to."""
    lab = site.lab
    # Exit code 0: of ranks that hear of it at different times, one that fails would take the others with it. A loop:
    # Slurm tells each process of a rank, and a rank that only waits for its child would end with that, untold. `wait`:
    # a child that began after Slurm had counted hears nothing, and bash heeds its trap when such a child has ended.
    job = inside(
        site, allocation, 'trap "sleep 1; echo saved; exit 0" TERM; echo ready; while :; do sleep 600 & wait; done'
    )
    launch = site.launch(job)
    run = site.run_dir(launch)
    lab.wait_until(lambda: sum("ready" in text for text in rank_logs(run).values()) == 4, JOB_SECONDS, "all ranks run")
    (site.folder / "absent.yml").write_text(ABSENT)
    cancelled = site.play(job, playbook="absent.yml")
    assert cancelled.launch()["changed"], cancelled.output
    outcome = site.outcome(launch)
    assert (outcome["success"], outcome["ended_by"], outcome["message"]) == (False, "signal", "cancelled")
    assert all("saved" in text for text in rank_logs(run).values()), rank_logs(run)

    second = site.launch(job)
    assert (second["submission"], second["generation"]) == ("submitted", 2)
    run = site.run_dir(second)
    lab.wait_until(lambda: sum("ready" in text for text in rank_logs(run).values()) == 4, JOB_SECONDS, "all ranks run")
    (site.folder / "wait.yml").write_text(WAIT)
    waiting = site.start(None, playbook="wait.yml", launch_run_dir=second["run_dir"])
    lab.wait_until(lambda: "waiting; Ctrl-C" in waiting.output, JOB_SECONDS, "it waits")
    lab.head(["scancel", second["job_id"]], check=False)
    (ended,) = waiting.finish().results("rankzero.slurm.job_wait")
    assert (ended["completed"], ended["success"], ended["slurm_state"]) == (True, False, "CANCELLED")
    assert f"step {second['job_id']} ended without writing its outcome: CANCELLED" in ended["message"]
    left = [step for step, name in steps(lab, allocation).items() if name.endswith(".ranks")]
    assert left, "Slurm ends a step and not what its script has started"
    third = site.launch(job)
    assert third["generation"] == 3
    assert not set(left) & set(steps(lab, allocation)), "two generations never run at once"
    site.play(job, playbook="absent.yml")
    assert site.outcome(third)["ended_by"] == "signal"
    assert lab.head(["squeue", "--noheader", f"--jobs={allocation}", "--Format=State"]).stdout.strip() == "RUNNING"


def test_a_module_killed_right_after_the_start_is_followed_by_an_adoption(site: Site, allocation: str) -> None:
    job = inside(site, allocation, f"{UNTIL_GO}; {RESULT}")
    # The parent of srun is the module. What is left of it then is the journal's intent, and srun itself.
    kill = site.fake("srun", 'kill -9 "$PPID"; exec /usr/bin/srun "$@"')
    killed = site.play(job, ansible_shell_executable=kill)
    assert killed.rc != 0
    (run,) = site.runs()
    site.wait_for(run / "started.json")
    again = site.launch(job)
    step = read_json(run / "started.json")["job_id"]
    assert (again["submission"], again["job_id"], again["generation"]) == ("adopted", step, 1)
    mine = [name for name in steps(site.lab, allocation).values() if site.token in name]
    assert sorted(mine) == sorted({*mine}), "one script, one step of ranks"
    site.go(again)
    assert site.outcome(again)["success"]
    assert f"job {step} attempt 0 on" in log_of(run, step)


def test_where_nothing_can_be_started_is_said_before_anything_is(site: Site, allocation: str) -> None:
    lab = site.lab
    ended = allocate(lab, 1)
    lab.head(["scancel", ended])
    site.ended(ended)
    others = allocate(lab, 1, ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
    waits = site.head(["sbatch", "--parsable", "--hold", "--wrap=true"]).stdout.strip()
    wanted = {
        "unknown": ("999999", 1, "Slurm does not know it"),
        "ended": (ended, 1, "it has ended (CANCELLED"),
        "waits": (waits, 1, "it waits in the queue: held by its owner"),
        "others": (others, 1, "it belongs to another user, nobody"),
        "small": (allocation, 4, f"resources.nodes: 4 asked, job {allocation} has 3: "),
        "narrow": (allocation, 1, f"resources.cpus_per_rank: 8 CPUs a node asked, job {allocation} has 4 on "),
    }
    jobs = {
        host: {"launch_job": inside(site, job_id, "true", host, nodes, ranks_per_node=8 if host == "narrow" else 2)}
        for host, (job_id, nodes, _said) in wanted.items()
    }
    try:
        played = site.play_many(jobs)
        for host, (_job_id, _nodes, said) in wanted.items():
            # The code is not there yet, and yet the job is looked at first.
            assert said in played.refused(host), played.refused(host)
    finally:
        lab.head(["scancel", others, waits], check=False)
    assert site.runs() == []


def test_the_end_of_the_allocation_is_an_end_with_an_explanation(site: Site) -> None:
    job_id = allocate(site.lab, 1)
    launch = site.launch(inside(site, job_id, "echo ready; sleep 600", nodes=1))
    lab, run = site.lab, site.run_dir(launch)
    lab.wait_until(lambda: "ready" in "".join(rank_logs(run).values()), JOB_SECONDS, "it runs")
    lab.head(["scancel", job_id])
    assert site.outcome(launch)["ended_by"] == "signal"
    site.ended(job_id)
    refused = site.play(inside(site, job_id, "echo ready; sleep 600", nodes=1)).refused()
    assert "it has ended (CANCELLED" in refused


class Terminal:
    """A terminal of 40 lines and 123 columns with a command at it."""

    def __init__(self, argv: Sequence[str], cwd: Path) -> None:
        self.text = ""
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execv(argv[0], list(argv))
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 123, 0, 0))

    def expect(self, pattern: str, seconds: float = JOB_SECONDS) -> str:
        """Read until a pattern has come; forgets what was read."""
        until = time.monotonic() + seconds
        while not re.search(pattern, self.text, re.DOTALL):
            ready, _none, _nothing = select.select([self.end], [], [], 0.5)
            if ready:
                try:
                    data = os.read(self.end, 65536)
                except OSError:
                    data = b""
                if not data:
                    pytest.fail(f"it ended before {pattern!r} came:\n{self.text}")
                self.text += data.decode("utf-8", "replace")
            if time.monotonic() > until:
                pytest.fail(f"{pattern!r} did not come:\n{self.text}")
        before, self.text = self.text, ""
        return before

    def type(self, line: str) -> None:
        os.write(self.end, line.encode() + b"\r")

    def close(self) -> int:
        """Wait for the end; the exit code."""
        while True:
            try:
                if not os.read(self.end, 65536):
                    break
            except OSError:
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


#: Values between marks that the typed line itself does not hold.
LOOK = 'echo "@""@$(uname -n)|$SLURM_JOB_ID|$GREETING|$FROM_SETUP$FROM_SRUN|$(pwd)|$(ls)|$(stty size)|$(tty)@""@"'
PROMPT = r"\] /\S+ [#$] $"


def test_a_shell_by_hand_and_one_that_the_playbook_opens(site: Site, allocation: str) -> None:
    """The printed command is typed at a terminal; with run=true the playbook's own terminal is the shell's."""
    (site.folder / "code" / "train.py").write_text("print('train')\n")
    prolog = f"{site.state_root}.prolog"
    site.program(Path(prolog).name, "echo export FROM_SRUN=also", site.host_path(prolog).parent)
    srun = {"task-prolog": prolog, "label": True}
    spec = {
        "command": ["train.py"],
        "launcher": {"srun": srun},
        "env": {"GREETING": 'it\'s "quoted" $HOME'},
        "setup": {"commands": ["export FROM_SETUP=set"]},
        "resources": {"nodes": 2, "time": "00:05:00"},
    }
    job = {**site.job("true"), **spec}
    attached = {**job, "launcher": {"inside_job": allocation, "srun": srun}}
    shown = site.play(attached, playbook="rankzero.slurm.shell", run=False)
    assert shown.rc == 0, shown.output
    session = shown.results("rankzero.slurm.job_shell")[-1]
    (typed,) = session["commands"]
    assert not session["allocate"] and f"--jobid={allocation}" in typed

    def used(terminal: Terminal, job_id: str | None) -> str:
        terminal.expect(PROMPT)
        terminal.type(LOOK)
        (_before, seen, _after) = terminal.expect(r"@@.*@@.*" + PROMPT).split("@@")
        host, own_job, greeting, from_setup, folder, listed, size, tty = seen.replace("\r\n", " ").split("|")
        assert host in site.lab.nodes
        assert job_id in (None, own_job)
        assert (greeting, from_setup) == ('it\'s "quoted" $HOME', "setalso")
        assert folder == f"{session['folder']}/work"
        assert listed.split() == ["README", "train.py"]
        assert size == "40 123"
        assert tty.startswith("/dev/pts/"), "a terminal of its own"
        terminal.type("sh -c 'echo goes\"\"on; exec sleep 600'")
        terminal.expect("goeson")
        os.write(terminal.end, b"\x03")
        # Ctrl-C is the program's, and not the playbook's.
        terminal.expect(PROMPT)
        terminal.type("exit 0")
        return own_job

    head = Terminal([str(site.lab.dir / "bin" / "head"), *site.user.become(), "/bin/bash", "-c", typed], site.folder)
    used(head, allocation)
    assert head.close() == 0

    variables = site.folder / ".extra-0.json"
    begin = site.plays[0].argv[: site.plays[0].argv.index("-e")]
    begin += ["-e", json.dumps(site.direct())]
    playbook = [*begin, "-e", f"@{variables}", "-e", f"job={site.write(job)}", "-e", "run=true"]
    own = Terminal(playbook, site.folder)
    job_id = used(own, None)
    said = own.expect("PLAY RECAP")
    assert f"Relinquishing job allocation {job_id}" in said
    assert job_id != allocation
    assert own.close() == 0

    refused = {**job, "resources": {"nodes": 2, "time": "00:05:00", "reservation": "no-such-reservation"}}
    own = Terminal([*playbook[:-4], "-e", f"job={site.write(refused)}", "-e", "run=true"], site.folder)
    message = own.expect("PLAY RECAP")
    assert re.search(r"no allocation was granted.*[Rr]equested reservation is invalid", message, re.DOTALL), message
    assert own.close() == 2
    without = site.play(job, playbook="rankzero.slurm.shell", run=True)
    assert without.rc == 2
    assert "no terminal" in without.results("rankzero.slurm.job_shell")[-1]["msg"]
