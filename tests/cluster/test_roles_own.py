# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role has for itself on real Slurm: its Python environment, its secrets, its datasets."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.cluster.launching import Site, log_of, nothing_left, read_json
from tests.cluster.test_attach import PROMPT, Terminal
from tests.unit.pyenv.conftest import make_wheel

#: What a process finds, written as seen-ROLE.json; the deciding one waits for no one and writes its result.
LOOK = """
import json, os, shutil, sys
role = os.environ["RANKZERO_ROLE"]
values = {"python": sys.executable, "tool": shutil.which("tool"), "env": dict(os.environ)}
with open(f"seen-{role}.json.part", "w") as stream:
    json.dump(values, stream)
os.rename(f"seen-{role}.json.part", f"seen-{role}.json")
if role == "trainer":
    with open("result.json", "w") as stream:
        stream.write("{}")
"""


def environment(site: Site, name: str, conda: bool) -> str:
    """An environment in its outward form: bin/python, a program of its own, and what says that it is a conda one."""
    inside = f"{site.state_root}.envs/{name}"
    place = site.host_path(inside)
    for folder in ("bin", "lib/python3.11/site-packages/one-1.0.dist-info"):
        (place / folder).mkdir(parents=True)
    (place / "bin" / "python").symlink_to("/usr/bin/python3")
    (place / "bin" / "tool").write_text("#!/bin/sh\n", encoding="utf-8")
    (place / "bin" / "tool").chmod(0o755)
    if conda:
        (place / "conda-meta").mkdir()
        (place / "conda-meta" / "history").write_text("==> once <==\n", encoding="utf-8")
        (place / "etc/conda/activate.d").mkdir(parents=True)
        script = place / "etc/conda/activate.d/gdal.sh"
        script.write_text('export GDAL_DATA="$CONDA_PREFIX/share"\n', encoding="utf-8")
    return inside


def folder(site: Site, name: str) -> str:
    inside = f"{site.state_root}.data/{name}"
    site.host_path(inside).mkdir(parents=True)
    return inside


@pytest.fixture
def look(site: Site) -> Site:
    (site.folder / "code" / "look.py").write_text(LOOK, encoding="utf-8")
    return site


def job(site: Site, roles: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A job whose deciding role, `trainer`, starts once all others have looked."""
    others = {
        name: {"command": ["look.py"], "ready": {"file": f"seen-{name}.json"}, "on_exit": "done", **own}
        for name, own in roles.items()
        if name != "trainer"
    }
    trainer = {"command": ["look.py"], "after_ready": [*others], **roles.get("trainer", {})}
    made = site.job([], roles={**others, "trainer": trainer}, artifact={"path": "result.json"}, **spec)
    del made["command"]
    return made


def seen(site: Site, launch: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What each role has found, by its name."""
    run = site.run_dir(launch)
    assert site.outcome(launch)["success"], log_of(run, launch["job_id"])
    return {path.stem.partition("-")[2]: read_json(path) for path in (run / "work").glob("seen-*.json")}


def test_each_role_has_the_environment_the_secrets_and_the_data_that_it_asks_for_and_no_others(look: Site) -> None:
    servers, trainers = environment(look, "vllm", conda=True), environment(look, "train", conda=False)
    roles = {
        "rollout": {
            "environment": {"mode": "path", "path": servers},
            "secrets": {"HUB": {"from_env": "MY_HUB"}},
            "data": {"prompts": folder(look, "prompts")},
        },
        "trainer": {"secrets": {"TRACKER": {"from_env": "MY_TRACKER"}}, "env": {"MODE": "train"}},
        "judge": {"environment": {"mode": "none"}},
    }
    made = job(
        look,
        roles,
        environment={"mode": "path", "path": trainers},
        secrets={"ALL": {"from_env": "MY_ALL"}},
        data={"text": folder(look, "text")},
    )
    values = {"MY_HUB": "hub-" + look.token, "MY_TRACKER": "tracker-" + look.token, "MY_ALL": "all-" + look.token}
    played = look.play(made, env=values, wait=True)
    launch = played.launch()
    found = seen(look, launch)
    assert {role: row["python"] for role, row in found.items()} == {
        "rollout": f"{servers}/bin/python",
        "trainer": f"{trainers}/bin/python",
        "judge": "/usr/bin/python3",
    }
    # Nor are the programs of another role's environment found, or what its activation has set.
    assert {role: row["tool"] for role, row in found.items()} == {
        "rollout": f"{servers}/bin/tool",
        "trainer": f"{trainers}/bin/tool",
        "judge": None,
    }
    env = {role: row["env"] for role, row in found.items()}
    names = ("GDAL_DATA", "CONDA_PREFIX", "VIRTUAL_ENV", "RANKZERO_DATA_TEXT", "RANKZERO_DATA_PROMPTS", "MODE")
    data = f"{look.state_root}.data"
    assert {role: {name: row[name] for name in names if name in row} for role, row in env.items()} == {
        "rollout": {
            "GDAL_DATA": f"{servers}/share",
            "CONDA_PREFIX": servers,
            "RANKZERO_DATA_TEXT": f"{data}/text",
            "RANKZERO_DATA_PROMPTS": f"{data}/prompts",
        },
        "trainer": {"VIRTUAL_ENV": trainers, "RANKZERO_DATA_TEXT": f"{data}/text", "MODE": "train"},
        "judge": {"RANKZERO_DATA_TEXT": f"{data}/text"},
    }
    given = {"rollout": {"HUB", "ALL"}, "trainer": {"TRACKER", "ALL"}, "judge": {"ALL"}}
    for role, row in env.items():
        assert {name for name, value in row.items() if value in values.values()} == given[role]
        assert {value for value in values.values() if value in json.dumps(row)} == {
            values[f"MY_{name}"] for name in given[role]
        }
    assert "secrets HUB; data prompts" in played.output and f"the environment {servers}" in played.output
    nothing_left(look, launch)


@pytest.mark.parametrize("mode", [pytest.param("venv", marks=pytest.mark.more), "sealed"])
def test_each_role_has_the_packages_of_its_own_project(look: Site, mode: str) -> None:
    """Both environments are built by the one call, and neither role finds what is only the other's."""
    wheels = folder(look, "wheels")
    for name, version in (("alpha", "1.0"), ("alpha", "2.0"), ("beta", "1.0")):
        make_wheel(look.host_path(wheels), name, version, {f"{name}.py": f"VERSION = {version!r}\n"})
    for name, wanted in (("serving", ["alpha==1.0", "beta"]), ("training", ["alpha==2.0"])):
        (look.folder / name).mkdir()
        text = f'[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = {wanted}\n'
        (look.folder / name / "pyproject.toml").write_text(text, encoding="utf-8")
    program = (
        "import importlib.util as found, json, os, sys, alpha; "
        "seen = [sys.prefix, alpha.VERSION, bool(found.find_spec('beta'))]; "
        "name = 'result' if os.environ['RANKZERO_ROLE'] == 'trainer' else os.environ['RANKZERO_ROLE']; "
        "open(name + '.part', 'w').write(json.dumps({'seen': seen})); os.rename(name + '.part', name + '.json')"
    )
    (look.folder / "code" / "packages.py").write_text(program, encoding="utf-8")
    own = {name: {"mode": mode, "project": str(look.folder / name)} for name in ("serving", "training")}
    roles = {
        "server": {
            "command": ["packages.py"],
            "environment": own["serving"],
            "ready": {"file": "server.json"},
            "on_exit": "done",
        },
        "judge": {
            "command": ["packages.py"],
            "environment": own["serving"],
            "ready": {"file": "judge.json"},
            "on_exit": "done",
        },
        "trainer": {"command": ["packages.py"], "after_ready": ["server", "judge"]},
    }
    made = look.job([], roles=roles, artifact={"path": "result.json"}, environment=own["training"])
    del made["command"]
    # What the settings of pip on the login node are.
    sources = f"PIP_CONFIG_FILE={os.devnull} PIP_NO_INDEX=1 PIP_FIND_LINKS={wheels}"
    shell = look.shell("with-wheels", f'exec env {sources} "$LAB_SHELL" "$@"')
    played = look.play(made, ansible_shell_executable=shell, wait=True)
    assert played.rc == 0, played.output
    run = look.run_dir(played.launch())
    names = ("result", "server", "judge")
    trainer, server, judge = (read_json(run / "work" / f"{name}.json")["seen"] for name in names)
    assert (trainer[1:], server[1:]) == (["2.0", False], ["1.0", True]) and trainer[0] != server[0]
    assert judge == server
    nothing_left(look, played.launch())
    again = look.play(made, ansible_shell_executable=shell, wait=True)
    assert again.rc == 0 and not again.launch()["changed"], again.output
    # Each element of a sweep has them, too, and so has a shell where a role runs.
    values = {"env": {"NUMBER": "{number}"}, "sweep": {"parameters": {"number": ["1", "2"]}}}
    swept = look.play({**made, **values}, playbook="rankzero.slurm.sweep", wait=True)
    assert swept.rc == 0, swept.output
    results = swept.results("rankzero.slurm.job_sweep_info")[-1]
    assert results["counts"] == {"succeeded": 2}, swept.output
    for row in results["elements"]:
        mine = [read_json(look.run_dir(row) / "work" / f"{name}.json")["seen"][1:] for name in names]
        assert mine == [["2.0", False], ["1.0", True], ["1.0", True]]
    terminal = Terminal(shell_words(look, made, "server"), look.folder)
    terminal.expect(PROMPT)
    terminal.type("python -c 'import alpha, beta; print(alpha.VERSION, alpha.__file__)'")
    assert "1.0 " + ("/tmp/rankzero-" if mode == "sealed" else server[0]) in terminal.expect(r"1\.0 /.*" + PROMPT)
    terminal.type("exit 0")
    assert terminal.close() == 0


def shell_words(site: Site, made: dict[str, Any], role: str) -> list[str]:
    """The command of a shell where a role runs, in an allocation, as the user types it on the login node."""
    played = site.play(made, playbook="rankzero.slurm.shell", run=False, role=role)
    typed = " ".join(played.results("rankzero.slurm.job_shell")[-1]["commands"])
    return [str(site.lab.dir / "bin" / "head"), *site.user.become(), "/bin/bash", "-c", typed]


def test_a_role_has_modules_and_lines_of_set_up_of_its_own(look: Site) -> None:
    """After those of the job, in a shell where what they set is for this role alone."""
    module = 'module() { shift; export LOADED="${LOADED:-}$*;"; }'
    roles = {
        "rollout": {"setup": {"modules": ["cuda/12"], "commands": ['export SET="$SITE and $LOADED"']}},
        "trainer": {"setup": {"commands": ['export SET="$SITE for $RANKZERO_NAME"', "unset SITE"]}},
        "judge": {},
    }
    of_all = {"commands": [module, "export SITE=here"]}
    launch = look.launch(job(look, roles, setup=of_all), wait=True)
    env = {role: row["env"] for role, row in seen(look, launch).items()}
    assert {role: [row.get(name) for name in ("SITE", "LOADED", "SET")] for role, row in env.items()} == {
        "rollout": ["here", "cuda/12;", "here and cuda/12;"],
        "trainer": [None, None, f"here for {launch['name']}"],
        "judge": ["here", None, None],
    }
    roles["judge"] = {"setup": {"commands": ["true", "cat /not/there", "true"]}}
    failed = look.launch(job(look, roles, setup=of_all))
    outcome = look.outcome(failed)
    assert not outcome["success"] and outcome["ended_by"] == "setup" and "cat /not/there" in outcome["message"], outcome
    assert not [*(look.run_dir(failed) / "work").glob("seen-*")]
    nothing_left(look, launch)
    nothing_left(look, failed)


def test_a_role_whose_environment_is_not_there_is_refused_before_anything_is_submitted(look: Site) -> None:
    gone = f"{look.state_root}.envs/gone"
    played = look.play(job(look, {"rollout": {"environment": {"mode": "path", "path": gone}}}))
    assert f"environment.path: {gone} is not on the cluster" in played.refused()
    assert not look.jobs()


def test_two_roles_of_which_none_decides_are_on_one_node(look: Site) -> None:
    """The one that shares stands first: whose nodes it takes gets its own later."""
    roles = {"judge": {"share": "rollout"}, "rollout": {}}
    launch = look.launch(job(look, roles), wait=True)
    found = seen(look, launch)
    started = read_json(look.run_dir(launch) / "started.json")
    nodes = {role["name"]: role["nodes"] for role in started["roles"]}
    assert nodes["judge"] == nodes["rollout"] != nodes["trainer"] and len(started["nodes"]) == 2
    assert {role: [row["env"]["SLURMD_NODENAME"]] for role, row in found.items()} == nodes
    assert len({host for role in started["roles"] for host in role["hosts"]}) == 3
    nothing_left(look, launch)
