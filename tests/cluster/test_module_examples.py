# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The EXAMPLES of every module run as they are printed, on real Slurm, in a project of its own.

Only paths of the cluster, job ids and the addresses of nodes are replaced (`written_for`). An example that this machine
cannot run is in ELSEWHERE with the reason.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Played, Site
from tests.repository import ROOT, files, read, run

#: Module -> its examples, which are tasks.
EXAMPLES: Mapping[str, str] = {
    Path(path).stem: next(
        ast.literal_eval(node.value)
        for node in ast.parse(read(path)).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXAMPLES"
    )
    for path in files("plugins/modules/", ".py")
    if "EXAMPLES" in read(path)
}
_BOOTS = "boots a lab, on a machine and not on a cluster: tests/cluster/test_lab_role.py"
_INDEX = "needs a package index and torch: tests/cluster/test_environment_example.py"
_ADDRESS = "needs an address that nobody has"
_ADMINISTRATOR = "changes accounts or files of other users, as an administrator: "
#: (module, the name of the task) -> why it does not run here.
ELSEWHERE = {
    ("course_class", "Create a class whose students have their own logins, with teachers in group staff"): (
        _ADMINISTRATOR + "tests/cluster/test_course.py"
    ),
    ("dataset", "Stage files of a web server, and verify their checksums"): _ADDRESS,
    ("dataset", "Stage images as one file that each node mounts"): _ADDRESS,
    ("hub_cache", "Download a tokenizer from the hub on the login node"): _ADDRESS,
    ("hub_cache", "Download it on the controller, for a cluster without internet access"): _ADDRESS,
    ("image", "Build on a Debian base, without a registry"): (
        "needs a Debian mirror and minutes: tests/integration/test_image.py"
    ),
    ("image", "Show what would be built, and why"): "needs a Debian mirror",
    ("image", "Fetch an image from a registry, also as a SIF file"): "needs a registry and 20 GB",
    ("job_shell", "Open a shell inside an allocation that is there already"): (
        "needs a terminal: tests/integration/test_job_shell.py"
    ),
    ("job_shell", "Open a shell where the servers of a running launch are"): (
        "needs a terminal and a launch with roles: tests/cluster/test_roles_inside.py"
    ),
    ("store_prune", "As an administrator, limit each user to 2 TiB, removing what was unused for two weeks"): (
        _ADMINISTRATOR + "tests/unit/prune/test_owners.py"
    ),
    **{("lab_cluster", task["name"]): _BOOTS for task in yaml.safe_load(EXAMPLES["lab_cluster"])},
    **{("uv_environment", task["name"]): _INDEX for task in yaml.safe_load(EXAMPLES["uv_environment"])},
}
PROGRAM = """\
echo step 1 loss 2.5
echo saved checkpoint at iteration 100
mkdir -p checkpoints/last
echo weights > checkpoints/last/model
printf 'step,loss\\n1,2.5\\n' > metrics.csv
echo '{"loss": 0.5, "seconds_per_epoch": 2.0, "eval": {"accuracy": 0.9, "loss": 0.5}}' > result.json
"""
#: Tasks before the examples of a module that uses the launch of another.
LAUNCH = [
    {"rankzero.slurm.job": {"job": "jobs/gpt.yml"}, "register": "launch"},
    {"rankzero.slurm.job_wait": {"run_dir": "{{ launch.run_dir }}"}},
    {"ansible.builtin.set_fact": {"launches": ["{{ launch }}"]}},
]
_ANOTHER = {"job": "jobs/gpt.yml", "overrides": {"env": {"OTHER": "1"}}}
_SWEEP = {"src": "{{ playbook_dir }}/files/fabric", "nodes": ["node[01-02]"], "method": "tcp"}
#: The same, where the launch is of another kind, or something else has to be there.
BEFORE = {
    "course_checkoff": [
        {"rankzero.slurm.course_class": {"name": "ddp", "root": "/shared/course/ddp", "students": ["ada", "ben"]}}
    ],
    "job_compare": [
        {"rankzero.slurm.job": {"job": "jobs/gpt.yml", "overrides": {"nodes": 2}}, "register": "launch"},
        LAUNCH[1],
    ],
    "job_first": [{"rankzero.slurm.job": {**_ANOTHER, "first": {"clusters": ["alpha", "beta"]}}}],
    "fabric_report": [
        {"rankzero.slurm.fabric_plan": _SWEEP, "register": "planned"},
        {"rankzero.slurm.job": {"job": "{{ planned.job }}"}, "register": "launch"},
        LAUNCH[1],
    ],
}
#: These need launches that have succeeded, before the examples of others cancel some.
FIRST = ("job_compare",)


def job(name: str, **more: Any) -> str:
    spec = {
        "name": name,
        "command": ["sh", "program.sh"],
        "code": {"src": "../program"},
        "resources": {"time": "00:10:00"},
        "artifact": {"require": {"loss": {}}},
    }
    return json.dumps({**spec, **more})


#: The files of the project that the examples name.
PROJECT = {
    "program/program.sh": PROGRAM,
    "jobs/gpt.yml": job("gpt-small"),
    "jobs/tokenise.yml": job("tokenise"),
    "jobs/train.yml": job("train"),
    "jobs/evaluate.yml": job("evaluate"),
    "pipelines/gpt.yml": '{"jobs": ["../jobs/tokenise.yml", "../jobs/train.yml", "../jobs/evaluate.yml"]}',
    "sweeps/lr.yml": job(
        "lr",
        command=["sh", "program.sh", "{lr}"],
        sweep={"parameters": {"lr": [0.1, 0.2, 0.3, 0.4]}, "metric": "loss", "goal": "min"},
    ),
    "texts/a.txt": "a\n",
    "tokenizer/config.json": "{}",
    "tokenizer/tokenizer.json": "{}",
    "diagnosis/families/license.yml": """\
family: license
what: "no licence is free: {feature}"
remedy: Let Slurm count them.
says:
  - regex: 'License checkout failed: (?P<feature>\\w+)'
    needles: ["License checkout failed"]
examples: ["License checkout failed: solver"]
""",
    # Git sees only what the user wrote.
    ".gitignore": "*\n!program/\n!program/*\n",
}


@dataclass(frozen=True)
class Project:
    """A user's project, and the cluster on which its playbooks run."""

    site: Site
    home: str
    #: What stands for the job ids of the examples.
    ids: Mapping[str, str]

    def written_for(self, examples: str) -> str:
        """The examples with paths, job ids and nodes of this cluster."""
        changes = {
            "/shared/rankzero/state": f"{self.home}/.rankzero/state",
            "/project/ml/rankzero": f"{self.home}/.rankzero/state",
            "/project": f"{self.home}/project",
            "/scratch": f"{self.home}/scratch",
            "/shared": f"{self.home}/shared",
            "/var/lib/prometheus": self.home,
            **{f'"{known}"': f'"{ours}"' for known, ours in self.ids.items()},
        }
        pattern = "|".join(map(re.escape, sorted(changes, key=len, reverse=True)))
        return re.sub(pattern, lambda match: changes[match[0]], examples)

    def play(self, name: str, tasks: list[dict[str, Any]]) -> Played:
        play = {"name": name, "hosts": "slurm_login", "gather_facts": False, "tasks": tasks}
        (self.site.folder / f"{name}.yml").write_text(json.dumps([play]), encoding="utf-8")
        shell = self.site.shell("home", f"""exec "$LAB_SHELL" -c 'HOME={self.home} exec /bin/sh "$@"' sh "$@\"""")
        nothing = {"launch_cluster": None, "launch_wait": None, "launch_logs_dest": None}
        return self.site.play(None, playbook=f"{name}.yml", ansible_shell_executable=shell, **nothing)


@pytest.fixture(scope="module")
def project(lab: LabCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("project")
    site = Site(lab, folder, "examples")
    for path, text in PROJECT.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "playbooks" / "files" / "fabric", folder / "files" / "fabric")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        run("git", "-C", str(folder), *words)
    home = f"{lab.shared_inside}/home-{site.token}"
    # Without settings, everything is below the home, which a cluster's nodes share.
    there = site.host_path(home)
    (there / "scratch" / "me" / "logs").mkdir(parents=True)
    (there / "node-exporter").mkdir()
    (there / ".wandb-key").write_text("0" * 40 + "\n", encoding="utf-8")
    (there / ".wandb-key").chmod(0o600)
    (there / "scratch" / "me" / "logs" / "rank0.log").write_text("CUDA out of memory\n", encoding="utf-8")
    (there / "project" / "images").mkdir(parents=True)
    run("mksquashfs", str(folder / "texts"), str(there / "project" / "images" / "torch.sqsh"), "-quiet")
    site.user.give(there)
    # Two launches of one job that have ended: what the examples look at.
    twice = [{"rankzero.slurm.job": {"job": "jobs/gpt.yml", "relaunch": "always"}}, *LAUNCH[1:2]]
    twice = [{**task, "register": "launch"} if "rankzero.slurm.job" in task else task for task in twice]
    played = Project(site, home, {}).play("before", [*twice, *twice])
    assert played.rc == 0, played.output
    first, second = (str(launch["job_id"]) for launch in played.results("rankzero.slurm.job"))
    yield Project(site, home, {"1234": first, "1240": second})
    site.close()


@pytest.mark.parametrize("module", sorted(EXAMPLES, key=lambda module: (module not in FIRST, module)))
def test_the_examples_of_a_module_do_what_their_names_say(project: Project, module: str) -> None:
    tasks = yaml.safe_load(project.written_for(EXAMPLES[module]))
    here = [task for task in tasks if (module, task["name"]) not in ELSEWHERE]
    if not here:
        return
    uses_another = re.search(r"{{ ?launch(es)?\b", str(here)) is not None
    before = json.dumps(BEFORE.get(module, LAUNCH if uses_another else []))
    played = project.play(module, [*json.loads(project.written_for(before)), *here])
    assert played.rc == 0, played.output
    ran = [line for line in played.record if line["outcome"] in ("ok", "changed")]
    assert len(ran) >= len(here), played.output
    # A task that is green although nothing was launched is a trap.
    states = {line["result"].get("submission") for line in played.record}
    assert "missing" not in states, played.output


def test_every_module_has_examples_and_each_that_does_not_run_here_is_one() -> None:
    assert sorted(EXAMPLES) == sorted(Path(path).stem for path in files("plugins/modules/", ".py"))
    names = {(module, task["name"]) for module, text in EXAMPLES.items() for task in yaml.safe_load(text)}
    assert names >= ELSEWHERE.keys()


def test_what_is_missing_is_sent_or_named(project: Project) -> None:
    """Each of the tasks has code of its own, which the cluster does not have."""
    folder = project.site.folder
    sweep = {"parameters": {"lr": [1, 2]}, "metric": "loss", "goal": "min"}
    environment = {"mode": "venv", "project": "../code-six"}
    others: dict[str, dict[str, Any]] = {
        "one": {},
        "two": {"sweep": sweep, "command": ["sh", "program.sh", "{lr}"]},
        "three": {},
        "four": {},
        "five": {},
        "six": {"environment": environment},
    }
    for name, more in others.items():
        for path, text in {
            f"code-{name}/program.sh": f"# {name}\n{PROGRAM}",
            f"code-{name}/pyproject.toml": f'[project]\nname = "{name}"\nversion = "1"\nrequires-python = ">=3.9"\n',
            f"own-{name}/job.yml": job(f"own-{name}", code={"src": f"../code-{name}"}, **more),
        }.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")

    def task(module: str, name: str, **more: Any) -> dict[str, Any]:
        given = {"job": f"own-{name}/job.yml", **more}
        return {f"rankzero.slurm.{module}": given, "ignore_errors": True}

    played = project.play(
        "missing",
        [
            task("job", "one", missing="report"),
            task("job", "one", missing="fail"),
            {**task("job", "one"), "check_mode": True},
            task("job", "six"),
            task("job", "one"),
            task("job_sweep", "two"),
            task("job_pipeline", "three"),
            task("job_shell", "four"),
            {"rankzero.slurm.reconcile": {"jobs": "own-five"}, "ignore_errors": True},
        ],
    )
    assert played.rc == 0, played.output
    report, fail, planned, environment_lacks, launched = played.results("rankzero.slurm.job")
    assert (report["submission"], report["changed"], report["failed"]) == ("missing", False, False)
    assert fail["failed"] and "code" in fail["msg"] and "rankzero.slurm.code_snapshot" in fail["msg"]
    assert (planned["submission"], [ref["kind"] for ref in planned["missing"]]) == ("planned", ["code"])
    assert environment_lacks["failed"] and "rankzero.slurm.uv_environment" in environment_lacks["msg"]
    assert {ref["kind"] for ref in environment_lacks["missing"]} == {"code", "environment"}
    assert not project.site.host_path(f"{project.home}/.rankzero/state/runs/own-six").exists()
    others = {
        module: played.results(f"rankzero.slurm.{module}")[0]
        for module in ("job_sweep", "job_pipeline", "job_shell", "reconcile")
    }
    assert [(module, result.get("msg")) for module, result in others.items() if result["failed"]] == []
    assert [result["missing"] for result in (launched, *others.values())] == [[]] * 5
    assert (launched["submission"], others["job_sweep"]["submission"]) == ("submitted", "submitted")
    assert others["job_pipeline"]["stages"][0]["submission"] == "submitted"
    assert others["reconcile"]["counts"]["launch"] == 1 and others["reconcile"]["steps"][0]["job_id"]
