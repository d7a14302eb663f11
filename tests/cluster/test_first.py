# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster that starts first (`rankzero run --first`), on two labs: one runs the launch, whoever watches or dies."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import LabCluster, booted, instance_name, lab_of
from tests.cluster.launching import FINAL, JOB_SECONDS, Site, read_json
from tests.repository import CACHE

#: What is drawn for the launches that meet a fault.
SEED = os.environ.get("RANKZERO_TEST_SEED", "1")
#: A command that is killed twice, and two commands whose clocks are apart, meet what the last two are: `make test-all`
#: runs these, too.
KINDS = ("killed twice", "cut", "late", "clocks", "killed", "twice")
FIRST = "--first=alpha,beta"
SECONDS = 240
#: The command, which kills itself at a line of its own (argument 1; 0: not at all), with its clock ahead (argument 2).
COMMAND = """
import os, signal, sys, time
last, ahead = int(sys.argv[1]), float(sys.argv[2])
clock, seen = time.time, 0
time.time = lambda: clock() + ahead

def line(frame, event, _argument):
    global seen
    seen += event == "line"
    if last and seen >= last:
        os.kill(os.getpid(), signal.SIGKILL)
    return line

def call(frame, _event, _argument):
    return line if frame.f_code.co_filename.endswith("/rankzero/first.py") else None

from rankzero.command import main
sys.settrace(call)
code = main(sys.argv[3:])
sys.settrace(None)
print("lines:", seen)
sys.exit(code)
"""
#: Each line in the file is a start of the program, by its first rank.
PROGRAM = "[ $RANK != 0 ] || { echo $SLURM_JOB_ID >> $RAN/$NUMBER; echo '{}' > result.json; }"


@pytest.fixture(scope="module")
def labs() -> Iterator[dict[str, LabCluster]]:
    alpha, beta = (lab_of(instance_name(name), nodes=2, accounting="none") for name in ("first-a", "first-b"))
    with booted(alpha) as one, booted(beta) as other:
        yield {"alpha": one, "beta": other}


class Clusters:
    """A user with two clusters. `shells`: what leads to each login node."""

    def __init__(self, folder: Path, labs: dict[str, LabCluster]) -> None:
        self.folder, self.sites, self.shells = folder, {}, {}
        hosts = {}
        for name, lab in labs.items():
            (folder / name).mkdir()
            site = self.sites[name] = Site(lab, folder / name, name)
            site.token = self.sites["alpha"].token
            enter = shlex.join([str(lab.lab.path("bin", "head")), *site.user.become(), "/bin/sh"])
            self.shells[name] = folder / name / "reached"
            self.shells[name].touch()
            shell = site.program("shell", f'[ -e {self.shells[name]} ] || exit 255\nexec {enter} "$@"')
            self.ran(name).mkdir(parents=True, exist_ok=True)
            site.user.give(self.ran(name))
            hosts[name] = {
                "ansible_connection": "local",
                "ansible_shell_executable": shell,
                "ansible_python_interpreter": "/usr/bin/python3",
                "launch_cluster": {**site.cluster, "env": {"RAN": f"{site.state_root}.ran"}},
            }
        (folder / "inventory").mkdir()
        content = {"slurm_login": {"hosts": hosts}}
        (folder / "inventory" / "hosts.json").write_text(json.dumps(content), encoding="utf-8")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "RANKZERO_")) and k != "CI"}
        self.environment = {
            **kept,
            "ANSIBLE_COLLECTIONS_PATH": str(CACHE / "collections"),
            "XDG_CACHE_HOME": str(folder / ".cache"),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def ran(self, cluster: str) -> Path:
        site = self.sites[cluster]
        return site.host_path(f"{site.state_root}.ran")

    def job(self, number: str, **spec: Any) -> str:
        site = self.sites["alpha"]
        job = site.job(PROGRAM, number, artifact={"path": "result.json"}, **spec)
        # Its key is the same on both, whose folders have other names.
        path = self.folder / f"{number}.yml"
        path.write_text(json.dumps({**job, "env": {"NUMBER": number}}), encoding="utf-8")
        return path.name

    def start(self, *words: str, line: int = 0, ahead: float = 0.0) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", COMMAND, str(line), str(ahead), *words]
        return subprocess.Popen(
            argv, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def types(self, *words: str, **options: Any) -> tuple[int, str]:
        return ended(self.start(*words, **options))

    def launches(self, number: str) -> dict[str, list[dict[str, Any]]]:
        """What each cluster says of the launches of a number."""
        name, found = read_json(self.folder / f"{number}.yml")["name"], {}
        for cluster in self.sites:
            _code, said = self.types("ls", name, "--all", "--json", "-c", cluster)
            document = json.loads(said[said.index("{") : said.rindex("}") + 1])
            found[cluster] = document["launches"]
        return found

    def starts(self, number: str) -> list[tuple[str, str]]:
        """Each start of the program: cluster and job."""
        return [
            (cluster, job_id)
            for cluster in self.sites
            if (self.ran(cluster) / number).exists()
            for job_id in (self.ran(cluster) / number).read_text(encoding="utf-8").split()
        ]

    def open(self, cluster: str, state: str = "UP") -> None:
        self.sites[cluster].lab.head(["scontrol", "update", "PartitionName=batch", f"State={state}"])

    def settled(self) -> None:
        """Wait until no job of either cluster waits or runs."""
        for site in self.sites.values():
            site.lab.wait_until(lambda site=site: {*site.jobs().values()} <= {*FINAL}, JOB_SECONDS, "all jobs end")

    def close(self) -> None:
        for name, site in self.sites.items():
            self.open(name)
            self.shells[name].touch()
            site.close()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _none = process.communicate(timeout=SECONDS)
    return process.returncode, said


@pytest.fixture
def clusters(labs: dict[str, LabCluster], tmp_path: Path) -> Iterator[Clusters]:
    made = Clusters(tmp_path, labs)
    yield made
    made.close()


def standings(launches: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    return {name: [row["status"]["standing"] for row in rows] for name, rows in launches.items()}


def test_the_cluster_that_starts_runs_it_and_the_other_is_withdrawn(clusters: Clusters) -> None:
    clusters.open("alpha", "DOWN")
    job = clusters.job("plain")
    code, said = clusters.types("run", job, FIRST)
    assert code == 0 and "beta has started it first" in said and "Proven" in said, said
    launches = clusters.launches("plain")
    assert standings(launches) == {"alpha": ["withdrawn"], "beta": ["succeeded"]}, launches
    assert "beta has started first" in launches["alpha"][0]["status"]["message"]
    clusters.settled()
    jobs = {name: site.jobs() for name, site in clusters.sites.items()}
    assert [*jobs["alpha"].values()] == ["CANCELLED"] and [*jobs["beta"].values()] == ["COMPLETED"]
    # The same again, by anybody: the result is there, and nothing is submitted, not even where it was withdrawn.
    clusters.open("alpha")
    again, said = clusters.types("run", job, FIRST)
    assert again == 0 and "Proven" in said, said
    assert {name: site.jobs() for name, site in clusters.sites.items()} == jobs
    assert len(clusters.starts("plain")) == 1


def test_a_job_that_nobody_lets_run_is_withdrawn_and_its_cost_is_shown(clusters: Clusters) -> None:
    clusters.open("alpha", "DOWN")
    clusters.open("beta", "DOWN")
    job = clusters.job("alone", resources={"time": "00:05:00", "nodes": 2})
    code, said = clusters.types("run", job, FIRST, "--grant-within", "3", "-d")
    assert code == 0 and "whoever watches decides" in said, said
    clusters.open("beta")
    (run,) = clusters.sites["beta"].runs()
    clusters.sites["beta"].wait_for(run / "outcome.json")
    outcome = read_json(run / "outcome.json")
    assert not outcome["success"] and outcome["exit_code"] == 75
    assert re.search(r"withdrawn: no grant came within 3 s; 0\.\d node-minutes were lost", outcome["message"]), outcome
    clusters.sites["beta"].ended(outcome["job_id"])
    assert standings(clusters.launches("alone"))["beta"] == ["withdrawn"]
    assert not clusters.starts("alone")
    # Run again: beta is asked anew, and alpha's job is still there.
    code, said = clusters.types("run", job, FIRST)
    assert code == 0 and "Proven" in said, said
    assert [cluster for cluster, _job in clusters.starts("alone")] == ["beta"]
    assert len(clusters.sites["alpha"].runs()) == 1 and len(clusters.sites["beta"].runs()) == 2


def test_what_cannot_be_combined_is_refused_by_name(clusters: Clusters) -> None:
    job = clusters.job("refused")
    wrong = {
        ("--first=alpha",): "--first alpha: expected two or more different clusters",
        (FIRST, "-c", "beta"): "-c is given, too",
        (FIRST, "--rerun"): "--rerun is given, too",
        (FIRST, "--set", "resources.dependency=afterok:1"): "resources.dependency: afterok:1 does not go with --first",
        (FIRST, "--set", "launcher.inside_job=1"): "launcher.inside_job: 1 does not go with --first",
    }
    for words, told in wrong.items():
        code, said = clusters.types("run", job, *words)
        assert code and told in " ".join(said.split()), (words, said)
    assert not any(site.runs() for site in clusters.sites.values())


def test_no_fault_doubles_a_launch_or_loses_it(clusters: Clusters, pytestconfig: pytest.Config) -> None:
    """The command is killed at a line, or two run at once, or a cluster is cut off, or clocks are apart; then the same
    command is run until it ends. RANKZERO_TEST_FAULTS=500 for as many.
    """
    draw = random.Random(SEED)
    lines = 0
    seen: list[str] = []
    began = time.monotonic()
    count = len(KINDS) if pytestconfig.getoption("--all") else len(KINDS) - 2
    for number in range(int(os.environ.get("RANKZERO_TEST_FAULTS", count))):
        kind = KINDS[number % len(KINDS)]
        name = f"fault{number}"
        words = ("run", clusters.job(name), FIRST)
        lines = lines or _lines(clusters)
        line, ahead = draw.randint(1, lines), draw.choice((-7200.0, 3600.0, 86400.0))
        starts = draw.choice(("alpha", "beta", "both"))
        for cluster in clusters.sites:
            clusters.open(cluster, "UP" if starts in (cluster, "both") else "DOWN")
        told = _fault(clusters, words, kind, line, ahead)
        seen.append(f"{name}: {kind}, line {line} of {lines}, {starts} may start")
        for cluster in clusters.sites:
            clusters.open(cluster)
        # A grant that comes too late, of a job that waits for two seconds, fails a command, and the next asks again.
        for _again in range(3 if kind == "late" else 1):
            code, said = clusters.types(*words)
            if code == 0:
                break
        assert code == 0 and "Proven" in said, (seen[-1], told, said)
        try:
            clusters.settled()
        except pytest.fail.Exception as error:
            jobs = {cluster: site.jobs() for cluster, site in clusters.sites.items()}
            raise AssertionError((seen[-1], jobs, clusters.launches(name), told, said)) from error
        ran = clusters.starts(name)
        assert len(ran) == 1, (seen[-1], ran, told, said)
        states = standings(clusters.launches(name))
        proven = [cluster for cluster, words_ in states.items() if "succeeded" in words_]
        assert proven == [ran[0][0]], (seen[-1], states, ran)
    print("\n".join([*seen, f"{len(seen)} faults, {len(seen)} runs, 0 doubled, {time.monotonic() - began:.0f} s"]))


def _lines(clusters: Clusters) -> int:
    """The number of the command's lines, without a fault."""
    code, said = clusters.types("run", clusters.job("count"), FIRST)
    assert code == 0, said
    return int(re.findall(r"lines: (\d+)", said)[-1])


def _fault(clusters: Clusters, words: Sequence[str], kind: str, line: int, ahead: float) -> list[str]:
    told = []
    if kind in ("killed", "killed twice"):
        for each in (line, line + 7)[: 1 + (kind == "killed twice")]:
            told.append(clusters.types(*words, line=each)[1])
    elif kind in ("twice", "clocks"):
        both = [clusters.start(*words), clusters.start(*words, ahead=ahead if kind == "clocks" else 0.0)]
        told += [ended(process)[1] for process in both]
    elif kind == "late":
        # Submitted, and watched again after the grant has not come.
        told.append(clusters.types(*words, "-d", "--grant-within", "2")[1])
        time.sleep(5)
    elif kind == "cut":
        first = clusters.start(*words, line=line)
        time.sleep(line % 5 / 2)
        clusters.shells["beta"].unlink()
        time.sleep(3)
        first.kill()
        told.append(ended(first)[1])
        clusters.shells["beta"].touch()
    return told
