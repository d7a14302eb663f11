# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input and bad surroundings: each says what is wrong, what is allowed and what to do, and submits nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Played, Site

#: What of Slurm a host without it does not have.
COMMANDS = "sbatch squeue sinfo scontrol sacct scancel srun salloc"


@dataclass(frozen=True)
class Case:
    """Parts of the job (or a whole one as `variables`), and what the message must say; `lacks` it must not."""

    said: tuple[str, ...]
    spec: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    file: str = ""
    lacks: tuple[str, ...] = ("Traceback",)


TEN = {
    "resources": {"nodes": 0, "time": 43200, "gpus_per_node": -1, "exclusive": "perhaps"},
    "launcher": {"kind": "mpiexec", "port": 80},
    "artifact": {"path": "../result.json", "then": "stop"},
    "env": {"RANK": "0"},
    "comand": ["x"],
}

CASES = {
    "unknown-keys": Case(
        (
            "2 mistakes in the job spec",
            "resorces: unknown key; did you mean resources?",
            "launcher.ranks_pr_node: unknown key; did you mean ranks_per_node?",
        ),
        {"resorces": {"nodes": 2}, "launcher": {"ranks_pr_node": 2}},
    ),
    "wrong-types": Case(
        (
            "resources.time: must be quoted: YAML read it as 43200",
            "resources.nodes: must be a whole number of at least 1, not 'two'",
            "command: must be a list, not 'train.py'",
            "env: X must be text; YAML read it as True: quote it",
        ),
        {"resources": {"time": 43200, "nodes": "two"}, "command": "train.py", "env": {"X": True}},
    ),
    "ten-mistakes": Case(
        (
            "10 mistakes in the job spec",
            "resources.nodes: ",
            "resources.time: ",
            "resources.gpus_per_node: ",
            "resources.exclusive: ",
            "launcher.kind: must be one of srun, torchrun, standalone",
            "not 'mpiexec'",
            "launcher.port: ",
            "artifact.path: '../result.json' is outside the run directory",
            "artifact.then: must be one of let_run, end; not 'stop'",
            "env.RANK: may not be set: it is set for each rank when the job runs",
            "comand: unknown key; did you mean command?",
        ),
        TEN,
    ),
    "no-nodes": Case(("resources.nodes: must be a whole number of at least 1, not 0",), {"resources": {"nodes": 0}}),
    "nine-of-eight": Case(("resources.nodes: 9 asked, partition batch has 8.",), {"resources": {"nodes": 9}}),
    "unknown-partition": Case(
        ("resources.partition: 'bacth' is not a partition", "did you mean batch?", "batch, short"),
        {"resources": {"partition": "bacth"}},
    ),
    "too-long": Case(
        ("resources.time: 02:00:00 asked, partition short allows at most 01:00:00.",),
        {"resources": {"partition": "short", "time": "02:00:00"}},
    ),
    "too-many-cpus": Case(
        ("resources.cpus_per_rank: 18 CPUs a node asked", "most on a node: 16"),
        {"resources": {"cpus_per_rank": 9}, "launcher": {"ranks_per_node": 2}},
    ),
    "too-many-gpus": Case(
        ("resources.gpus_per_node: 9 asked on 1 node", "most on a node: 8 GPUs"), {"resources": {"gpus_per_node": 9}}
    ),
    "unknown-gpu": Case(
        ("resources.gpu_type: no node of partition batch has 'h100'",),
        {"resources": {"gpus_per_node": 1, "gpu_type": "h100"}},
    ),
    "ranks-and-gpus": Case(
        ("launcher.ranks_per_node: 2 ranks on nodes with 8 GPUs",),
        {"resources": {"gpus_per_node": 8}, "launcher": {"ranks_per_node": 2}},
    ),
    "missing-program": Case(
        ("command: the program trian.py is not in the code snapshot", "did you mean train.py?"),
        {"command": ["trian.py", "--steps", "10"]},
    ),
    "no-name-no-program": Case(
        ("2 mistakes", "name: is required", "command: is required"), variables={"launch_job": {"seed": 1}}
    ),
    "no-job": Case(("job: is required", "-e job=jobs/train.yml"), variables={"launch_job": ""}),
    "missing-job-file": Case(("job: there is no file", "jobs/nope.yml"), variables={"launch_job": "jobs/nope.yml"}),
    "job-is-a-folder": Case(("job: ", "code", "is a folder", "name one job file"), variables={"launch_job": "code"}),
    "not-yaml": Case(("job: not-yaml.yml:3 is not a job file",), file="name: x\ncommand: [a\n"),
    "key-twice": Case(("key-twice.yml:3", "'name' appears twice"), file="name: x\ncommand: [a]\nname: y\n"),
    "a-list": Case(("job: a-list.yml must hold a map",), file="- name\n- command\n"),
    "tagged": Case(
        ("tagged.yml:2", "python/object:os.system is not allowed: a job file is plain data"),
        file="name: x\nseed: !!python/object:os.system ls\n",
    ),
    # What a pull request could bring: the text of a template stays text.
    "templated-file": Case(
        ("name: must be letters, digits", "lookup('pipe'"),
        file="name: \"{{ lookup('pipe', 'touch pwned') }}\"\ncommand: [a]\n",
    ),
    "cluster-typo": Case(
        ("state_rot: unknown key", "did you mean state_root?"),
        variables={"launch_cluster": {"state_rot": "/shared/x"}},
    ),
    "cluster-relative": Case(
        ("launch_cluster.state_root: must be an absolute path",), variables={"launch_cluster": {"state_root": "runs"}}
    ),
    "override-typo": Case(
        ("override ndoes: unknown; did you mean nodes?",), variables={"launch_overrides": {"ndoes": 4}}
    ),
    "relaunch-typo": Case(
        ("relaunch: must be one of on_failure, always, never; not 'sometimes'",),
        variables={"launch_relaunch": "sometimes"},
    ),
    "no-pyproject": Case(
        ("environment.project: ", "pyproject.toml", "/code", "environment.mode to none"),
        {"environment": {"mode": "venv", "project": "code"}},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Round:
    """One playbook with many launches, of which none may succeed: what it said, what it submitted and left behind."""

    played: Played
    submitted: set[str]
    left: list[Path]


def jobs_of(lab: LabCluster) -> set[str]:
    return set(lab.head(["squeue", "--noheader", "--states=all", "--format=%i"]).stdout.split())


@pytest.fixture(scope="module")
def mistaken(lab: LabCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Round]:
    """Every mistake by one playbook."""
    site = Site(lab, tmp_path_factory.mktemp("bad"), "bad")
    (site.folder / "code" / "train.py").write_text("print('never')\n", encoding="utf-8")
    jobs: dict[str, dict[str, Any]] = {}
    for host, case in CASES.items():
        jobs[host] = {"launch_cluster": site.cluster, "launch_job": site.job("true", name=host, **case.spec)}
        if case.file:
            (site.folder / f"{host}.yml").write_text(case.file, encoding="utf-8")
            jobs[host]["launch_job"] = f"{host}.yml"
        jobs[host].update(case.variables)
    before = jobs_of(lab)
    played = site.play_many(jobs, "--forks=6", launch_cluster=None)
    left = [*site.host_path(site.state_root).rglob("*"), *site.folder.glob("pwned")]
    yield Round(played, jobs_of(lab) - before, left)
    site.close()


@pytest.mark.parametrize("host", CASES)
def test_a_mistake_is_named_with_what_to_do(host: str, mistaken: Round) -> None:
    message = mistaken.played.refused(host)
    for part in CASES[host].said:
        assert part in message, message
    for part in CASES[host].lacks:
        assert part not in message, message


def test_a_mistake_submits_nothing_and_leaves_nothing(mistaken: Round) -> None:
    assert (mistaken.submitted, mistaken.left) == (set(), [])


# --- surroundings: each is a shell for Ansible that takes one thing away before the module runs


def without_slurm(site: Site) -> str:
    """This machine, on which the Slurm commands cannot be run: an empty file, which nobody may execute, covers each."""
    user = "" if os.geteuid() == 0 else "--map-root-user"
    hide = f"""for command in {COMMANDS}; do
  for folder in /usr/bin /usr/local/bin /opt/slurm/bin; do
    [ ! -e $folder/$command ] || mount --bind /dev/null $folder/$command || exit 99
  done
done; exec /bin/sh "$@" """
    return site.shell("without-slurm", f"exec unshare {user} --mount /bin/sh -c '{hide}' sh \"$@\"")


def mounted(site: Site, name: str, options: str, folder: str) -> str:
    """The lab's head with another file system on one folder, which only this shell sees."""
    head = site.lab.dir / "bin" / "head"
    inner = f'mount -t tmpfs -o {options} rankzero-test {folder} || exit 99; exec /bin/sh "$@"'
    inside = '[ "$(id -u)" = 0 ] || exec /bin/sh "$@"'  # Ansible becomes the user there, and calls the shell again
    return site.shell(name, f"{inside}\nexec {head} unshare --mount /bin/sh -c '{inner}' sh \"$@\"")


#: The answer of a Python to the question for its version.
SAYS_3_8 = "import sys; sys.version_info = type('v', (tuple,), {'major': 3, 'minor': 8})((3, 8, 18, 'final', 0))"


def old_python(site: Site) -> str:
    """A Python that says that it is 3.8, which Ansible still takes."""
    place = site.host_path(f"{site.state_root}.old")
    place.mkdir()
    (place / "sitecustomize.py").write_text(f"{SAYS_3_8}\n", encoding="utf-8")
    # Without its environment and site packages, it says so, too.
    text = f"""if [ "$1 $2 $3" = "-I -S -c" ]; then exec /usr/bin/python3 -I -S -c "{SAYS_3_8}
$4"; fi
PYTHONPATH={place} exec /usr/bin/python3 "$@\""""
    return site.program("python3.8", text, place)


#: Python 3.6 can answer a question, and cannot read Ansible's own part of a module.
OLDER = """case "$1" in -c) echo 3.6.8 ;; *) echo "SyntaxError: invalid syntax" >&2; exit 1 ;; esac"""


def only_older_python(site: Site) -> str:
    """The lab's head where the first Python that Ansible finds by itself is such a one, and python3, too."""
    place = site.host_path(f"{site.state_root}.pythons") / "found"
    place.mkdir(parents=True)
    for name in ("python3", *(f"python3.{minor}" for minor in range(9, 20))):
        site.program(name, OLDER, place)
    path = f'PATH="{place}:$PATH" exec /bin/sh "$@"'
    return site.shell("only-older", f"""exec "$LAB_SHELL" -c '{path}' sh "$@\"""")


SURROUNDINGS = {
    "no-slurm": ("the Slurm command 'sinfo' is not on host", "login node", "rankzero.slurm.lab_cluster"),
    "read-only": ("state_root: cannot write below", "Read-only file system", "launch_cluster.state_root"),
    "no-space": ("state_root: ", "KiB free at", "at least 100 MiB are wanted", "launch_cluster.state_root"),
    "not-mine": ("store_root: ", "is not yours", "launch_cluster.stores"),
    "unwritable-state": ("state_root: cannot write below", "Permission denied", "launch_cluster.state_root"),
    "unwritable-store": ("store_root: cannot write below", "Permission denied", "launch_cluster.store_root"),
    "unreadable-secret": ("secrets.A: the file /nowhere/none cannot be read on the cluster",),
    "old-python": ("needs Python 3.9 or newer", "is Python 3.8.18", "ansible_python_interpreter", "python3."),
    "older-python": ("needs Python 3.9 or newer", "is Python 3.6.8", "ansible_python_interpreter"),
    "discovered-python": ("needs Python 3.9 or newer", "/found/python3.", "is Python 3.6.8"),
}


@pytest.fixture(scope="module")
def surrounded(lab: LabCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Round]:
    """Every fault by one playbook."""
    if lab.way != "realistic":
        pytest.skip("the surroundings are made with mounts inside the lab's head, which the simple way does not have")
    site = Site(lab, tmp_path_factory.mktemp("around"), "around")
    job = site.launch(site.job("true", name="store"))  # brings code and runtime: only the fault is in the way
    site.outcome(job)
    before = jobs_of(lab)
    roots = {host: f"{site.state_root}.{host}" for host in SURROUNDINGS}
    for root in roots.values():
        site.own(root)
    hosts: dict[str, dict[str, Any]] = {
        host: {"launch_job": site.job("true", name=host), "launch_cluster": {**site.cluster, "state_root": roots[host]}}
        for host in SURROUNDINGS
    }
    # This machine, which has no user of the lab.
    hosts["no-slurm"].update(ansible_shell_executable=without_slurm(site), ansible_become=False)
    hosts["no-slurm"]["launch_cluster"] = {name: str(site.folder / name) for name in ("state_root", "store_root")}
    his = f"mode=755,uid={site.user.uid}"
    for host, options in (("read-only", f"ro,{his}"), ("no-space", f"size=8k,{his}")):
        hosts[host]["ansible_shell_executable"] = mounted(site, host, options, roots[host])
    ordinary = site.as_ordinary_user()
    another = {name: ordinary[name] for name in ("ansible_shell_executable", "ansible_become")}
    hosts["not-mine"].update(another)
    for host, closed in (("unwritable-state", "state_root"), ("unwritable-store", "store_root")):
        # The folder is his own, and he may not write it: it counts by its mode.
        own = {"state_root": roots[host], "store_root": f"{roots[host]}.store"}
        for name, path in own.items():
            site.host_path(path).mkdir(exist_ok=True)
            os.chown(site.host_path(path), 65534, 65534)
            site.host_path(path).chmod(0o555 if name == closed else 0o755)
        hosts[host].update(another)
        # Only a launch for which something has to be made writes the store.
        hosts[host]["launch_cluster"] = {**own, **(ordinary["launch_cluster"] if closed == "state_root" else {})}
    hosts["unreadable-secret"]["launch_job"]["secrets"] = {"A": {"from_file": "/nowhere/none"}}
    hosts["old-python"]["ansible_python_interpreter"] = old_python(site)
    hosts["discovered-python"]["ansible_shell_executable"] = only_older_python(site)
    hosts["older-python"]["ansible_python_interpreter"] = site.program(
        "python3.6", OLDER, site.host_path(f"{site.state_root}.pythons")
    )
    hosts["discovered-python"]["ansible_python_interpreter"] = "auto_silent"
    # The modules travel through standard input: the ordinary user can read no file that root has put there.
    played = site.play_many(hosts, "--forks=6", launch_cluster=None, env={"ANSIBLE_PIPELINING": "1"})
    left = [path for root in roots.values() for path in site.host_path(root).rglob("*") if not path.is_dir()]
    # Whether a secret can be read is seen last, when the job runtime is there.
    brought = site.host_path(roots["unreadable-secret"]) / "runtime"
    # Nor are the marks of what it was about to use: the prune heeds them for a while, and then removes them.
    # What was verified in the store is remembered, whatever became of the launch.
    left = [path for path in left if brought not in path.parents and not {"used", "cache"} & {*path.parts}]
    yield Round(played, jobs_of(lab) - before, left)
    site.close()


@pytest.mark.parametrize("host", SURROUNDINGS)
def test_a_fault_of_the_host_is_named_with_what_to_do(host: str, surrounded: Round) -> None:
    message = surrounded.played.refused(host)
    for part in SURROUNDINGS[host]:
        assert part in message, message
    for part in ("Traceback", "SyntaxError"):
        assert part not in message, message


def test_a_fault_of_the_host_submits_nothing_and_leaves_no_half_of_a_run(surrounded: Round) -> None:
    assert (surrounded.submitted, surrounded.left) == (set(), [])
