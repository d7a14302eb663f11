# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A secret reaches the ranks and nothing else: all that a launch writes, says and starts is searched for it.

The search is itself tested: a value that is planted where it must not be is found in every such place.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import warm_playbooks
from tests.cluster.launching import JOB_SECONDS, UNTIL_GO, Site, rank_logs, read_json

#: What surrounds the random part: text that any careless quoting would break on.
AROUND = ('it\'s "$HOME" `id` \\ #', "\nsecond line=é ")
#: A rank proves what it was given without saying it.
PROVE = 'for name in A B C; do printenv "$name" | head -c -1 | sha256sum; done'


@dataclass(frozen=True)
class Secret:
    """`core` is a random word within the value: who finds it has found the value, however it was quoted."""

    value: str
    core: str

    @classmethod
    def new(cls, around: tuple[str, str] = AROUND) -> Secret:
        core = secrets.token_hex(16)
        return cls(f"{around[0]}{core}{around[1]}", core)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.value.encode()).hexdigest()

    def needles(self) -> list[bytes]:
        """The core as it is, and as it looks in the base64 of any text around it (it has three ways to fall)."""
        found = [self.core.encode()]
        for shift in range(3):
            encoded = base64.b64encode(b"\0" * shift + self.core.encode())
            found.append(encoded[4 if shift else 0 : -4])
        return found


def leaks(values: list[Secret], places: Mapping[str, bytes]) -> list[str]:
    """The places that hold one of the values, plainly or in base64."""
    needles = [needle for value in values for needle in value.needles()]
    return sorted(place for place, content in places.items() if any(needle in content for needle in needles))


@pytest.fixture(autouse=True)
def real_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments and environment of the playbook are seen in /proc, too."""
    monkeypatch.setenv(warm_playbooks.COLD, "1")


#: Runs on a node: what /proc and Slurm's own spool say. Ranks are those whose environment says RANK=.
LOOK = r"""
import glob, json, sys
found = {}
for folder in glob.glob("/proc/[0-9]*"):
    try:
        argv, environ = (open(f"{folder}/{name}", "rb").read() for name in ("cmdline", "environ"))
    except OSError:
        continue
    name = argv.replace(b"\0", b" ").decode("utf-8", "replace")[:60]
    found[f"argv of {name}"] = argv.decode("latin-1")
    if b"\0RANK=" not in b"\0" + environ:
        found[f"environment of {name}"] = environ.decode("latin-1")
for path in glob.glob("/var/spool/slurmd/**", recursive=True) + glob.glob("/tmp/**", recursive=True):
    try:
        found[path] = open(path, "rb").read().decode("latin-1")
    except OSError:
        continue
json.dump(found, sys.stdout)
"""


def everything(site: Site, job_id: str, own: set[Path]) -> dict[str, bytes]:
    """What a launch has left anywhere but in the ranks' memory, and in the user's `own` files."""
    places: dict[str, bytes] = {}
    for node in site.lab.nodes:
        seen = json.loads(site.lab.node(node, ["python3", "-c", LOOK]).stdout)
        places.update({f"{node}: {name}": text.encode("latin-1") for name, text in seen.items()})
    step = [*site.user.become(), "srun", f"--jobid={job_id}", "--overlap", "--nodes=1", "--ntasks=1", "env"]
    for name, command in {
        "scontrol show job": ["scontrol", "--details", "show", "job", job_id],
        "scontrol write batch_script": ["scontrol", "write", "batch_script", job_id, "-"],
        "squeue": ["squeue", "--states=all", "--Format=JobID:50,Name:300,Comment:300,Command:999,WorkDir:999"],
        "sacct": ["sacct", "--parsable2", "--format=ALL", "-j", job_id],
        "environment of another step": step,
    }.items():
        places[name] = site.lab.head(command, check=False).stdout.encode()
    remote_tmp = Path("~/.ansible/tmp").expanduser()
    for root in (Path(site.lab.shared), site.lab.dir / "state", site.lab.dir / "log", site.folder, remote_tmp):
        for folder, below, names in os.walk(root):
            # Nothing of these launches is in an environment, and other tests build large ones.
            below[:] = [name for name in below if name != "environments"]
            for path in (Path(folder, name) for name in names):
                if path.is_file() and path.name != "secrets.env" and path not in own:
                    try:
                        places[str(path)] = path.read_bytes()
                    except FileNotFoundError:
                        continue  # Slurm's own files come and go
    return places


def test_a_secret_reaches_every_rank_and_nothing_else(site: Site) -> None:
    values = {"A": Secret.new(), "B": Secret.new(), "C": Secret.new(("it's ", " `id`"))}
    variables = site.folder / "vault.json"
    variables.write_text(json.dumps({"my_vault": values["B"].value}), encoding="utf-8")
    on_cluster = site.host_path(f"{site.lab.shared_inside}/token-{site.token}")
    on_cluster.write_text(values["C"].value + "\n", encoding="utf-8")
    on_cluster.chmod(0o600)
    site.user.give(on_cluster)
    sources = {
        "A": {"from_env": "MY_TOKEN"},
        "B": {"from_var": "my_vault"},
        "C": {"from_file": f"{site.lab.shared_inside}/{on_cluster.name}"},
    }
    job = site.job(
        f"{PROVE}; {UNTIL_GO}",
        secrets=sources,
        resources={"nodes": 2, "time": "00:10:00"},
        launcher={"ranks_per_node": 2},
        debug=True,
    )
    play = site.start(job, *("-vvv", "--diff", "-e", f"@{variables}"), env={"MY_TOKEN": values["A"].value}, wait=True)
    site.lab.wait_until(lambda: play.output.count(": submitted;") or play.process.poll(), JOB_SECONDS, "submission")
    (run,) = site.runs()
    site.lab.wait_until(
        lambda: [text.count(value.sha256) for text in rank_logs(run).values() for value in values.values()] == [1] * 12,
        JOB_SECONDS,
        "each of the four ranks has all three values, unchanged",
    )
    (job_id,) = site.jobs()

    kept = run / "secrets.env"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    own = {variables, on_cluster}
    # The search finds what is there: the file that the ranks read.
    assert leaks([values["A"]], {"kept": kept.read_bytes()}) == ["kept"]
    during = everything(site, job_id, own)
    batch = [name for name in during if "environment of /bin/bash" in name and "job" in name]
    assert batch, sorted(name for name in during if "environment" in name)
    assert b"SLURMD_NODENAME=" in during["environment of another step"], "the other step ran"
    assert leaks([*values.values()], during) == []

    (run / "work" / "go").touch()
    played = play.finish()
    assert played.rc == 0, "the launch failed; its output is not shown, it may hold the secret"
    assert not kept.exists(), "the values go when the job ends"
    after = everything(site, job_id, own)
    after["output of ansible-playbook -vvv --diff"] = played.output.encode()
    assert b"task path: " in after["output of ansible-playbook -vvv --diff"], "it was as verbose as it can be"
    assert b"+launcher.ranks_per_node: 2" in after["output of ansible-playbook -vvv --diff"], "it showed the diff"
    assert any("rank-0003.log" in place and str(site.folder) in place for place in after), "the logs were fetched"
    assert leaks([*values.values()], after) == []


def test_the_search_finds_a_planted_leak_in_every_place(site: Site) -> None:
    """What the test above relies on. The value is put where a spec must not have it: `env` and `setup`."""
    leaked = Secret.new(("", ""))
    encoded = base64.b64encode(b"xy" + leaked.core.encode()).decode()
    job = site.job(
        f"sleep 0.1; {UNTIL_GO}",
        env={"COPY": leaked.value},
        setup={"commands": [f"echo {encoded}"]},
    )
    played = site.play(job, "-vvv", "--diff")
    launch = played.launch()
    run = site.run_dir(launch)
    site.wait_for(run / "logs" / "0" / "rank-0000.log")
    places = everything(site, launch["job_id"], set())
    places["output"] = played.output.encode()
    found = leaks([leaked], places)
    # Not always the lab's first one, which may still be clearing away a job of another test.
    (node,) = read_json(run / "started.json")["nodes"]
    for place in (
        str(run / "job.sbatch"),
        str(run / "launch.json"),
        str(run / "logs" / f"job.{launch['job_id']}.log"),
        "scontrol write batch_script",
        "output",
    ):
        assert place in found, (place, found)
    # Of the batch script, of srun and of Slurm's copy of the script on the node.
    for part in (f"{node}: environment of srun", f"{node}: /var/spool/slurmd/"):
        assert any(place.startswith(part) for place in found), (part, found)
    # Only in base64, and not at the beginning of its text.
    log = (run / "logs" / f"job.{launch['job_id']}.log").read_bytes()
    assert leaked.core.encode() not in log and encoded.encode() in log


def test_kept_remote_files_hold_no_secret(site: Site) -> None:
    """What Ansible leaves on the host when it is told to keep it, or was killed before it could clean up."""
    value = Secret.new()
    site.cluster["store_root"] = f"{site.state_root}.store"  # empty: the module is asked several times
    remote = Path(site.on_the_head())
    # The second folder is Ansible's where it becomes an ordinary user.
    folders = {name: str(remote) for name in ("ANSIBLE_REMOTE_TMP", "ANSIBLE_SYSTEM_TMPDIRS")}
    settings = {"MY_TOKEN": value.value, "ANSIBLE_KEEP_REMOTE_FILES": "1", **folders}
    job = site.job(PROVE, secrets={"A": {"from_env": "MY_TOKEN"}})
    launch = site.launch(job, env=settings)
    assert site.outcome(launch)["success"]
    assert value.sha256 in rank_logs(site.run_dir(launch))["rank-0000.log"]
    kept = {str(path): path.read_bytes() for path in remote.rglob("*") if path.is_file()}
    assert any(path.endswith("AnsiballZ_job.py") for path in kept), kept.keys()
    assert leaks([value], kept) == []


def test_secrets_of_a_cancelled_job_go_when_it_is_looked_at(site: Site) -> None:
    value = Secret.new()
    job = site.job(UNTIL_GO, secrets={"A": {"from_env": "MY_TOKEN"}})
    launch = site.launch(job, env={"MY_TOKEN": value.value})
    run = site.run_dir(launch)
    site.wait_for(run / "work")
    assert (run / "secrets.env").exists()
    site.lab.head(["scancel", launch["job_id"]])
    assert site.ended(launch["job_id"]) == "CANCELLED"
    seen = site.launch(job, env={"MY_TOKEN": value.value}, launch_relaunch="never")
    assert (seen["submission"], seen["standing"]) == ("unchanged", "failed")
    assert not (run / "secrets.env").exists()


def test_another_value_is_the_same_launch_and_a_missing_one_is_an_error(site: Site) -> None:
    job = site.job("true", secrets={"A": {"from_env": "MY_TOKEN"}, "B": {"from_var": "not_there"}})
    message = site.play(job).refused()
    assert "secrets.A: MY_TOKEN is not a set environment variable of the controller" in message
    assert "secrets.B: not_there is not a set Ansible variable" in message
    assert site.jobs() == {} and site.runs() == []

    job["secrets"] = {"A": {"from_env": "MY_TOKEN"}}
    first = site.launch(job, env={"MY_TOKEN": "one"})
    assert site.outcome(first)["success"]
    second = site.launch(job, env={"MY_TOKEN": "two"})
    assert (second["submission"], second["job_id"]) == ("unchanged", first["job_id"])


#: A program that says its secrets while it works and in its last words, as an exception's text and quoted.
TALKS = """
import json, os, urllib.parse
plain, odd = os.environ["A"], os.environ["B"]
print(f"step 1 loss 2.0 key {plain} {odd}", flush=True)
print(json.dumps({"given": odd}), urllib.parse.quote(odd, safe=""), flush=True)
raise RuntimeError(f"cannot log in with {plain} and {odd}")
"""


def test_what_a_program_says_of_its_secrets_is_starred_after_its_end(site: Site) -> None:
    """In fetched logs, on the screen, in results, diagnosis and report: who looks then no longer has the values."""
    values = {"A": Secret.new(("", "")), "B": Secret.new()}
    environment = {f"MY_{name}": value.value for name, value in values.items()}
    program = f"{site.lab.shared_inside}/talks-{site.token}.py"
    site.host_path(program).write_text(TALKS, encoding="utf-8")
    sources = {name: {"from_env": f"MY_{name}"} for name in values}
    played = site.play(site.job(f"python3 {program}", secrets=sources), "-vvvv", wait=True, env=environment)
    launch = played.launch()
    run = site.run_dir(launch)
    assert played.rc != 0 and not (run / "secrets.env").exists()
    assert leaks([*values.values()], {"log": rank_logs(run)["rank-0000.log"].encode()}) == ["log"], "it has said them"

    page = site.folder / "report.html"
    looks = {
        "train": played,
        "logs": site.play(None, "-vvvv", playbook="rankzero.slurm.logs", run_dir=launch["run_dir"]),
        "diagnose": site.play(None, "-vvvv", playbook="rankzero.slurm.diagnose", run_dir=launch["run_dir"]),
        "status": site.play(None, "-vvvv", playbook="rankzero.slurm.status"),
        "attach": site.play(None, "-vvvv", playbook="rankzero.slurm.attach", run_dir=launch["run_dir"]),
        "report": site.play(
            None, "-vvvv", playbook="rankzero.slurm.report", launches=[launch["run_dir"]], dest=str(page)
        ),
    }
    places = {f"output of {name}": look.output.encode() for name, look in looks.items()}
    places.update({f"results of {name}": json.dumps(look.record).encode() for name, look in looks.items()})
    places.update({str(path): path.read_bytes() for path in site.folder.rglob("*") if path.is_file()})
    places.update({str(path): path.read_bytes() for path in run.iterdir() if path.is_file()})
    assert {str(page), str(run / "diagnosis.json")} <= set(places)
    assert leaks([*values.values()], places) == []
    (diagnosis,) = looks["diagnose"].results("rankzero.slurm.job_diagnosis")
    assert any("cannot log in with ***" in item["text"] for item in diagnosis["diagnosis"]["evidence"]), (
        "it is the cause"
    )
    fetched = [path for path in site.folder.rglob("rank-0000.log") if b"cannot log in with ***" in path.read_bytes()]
    assert fetched, "the log was fetched"
