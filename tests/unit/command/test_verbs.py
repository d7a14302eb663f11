# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each verb is one line of ansible-playbook; wrong words are answered with the nearest right one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rankzero import errors
from rankzero.documents import LOCAL
from rankzero.options import VERBS
from rankzero.verbs import PLAYBOOKS
from tests.repository import ROOT, files
from tests.unit.command.conftest import Ansible

#: What a person types -> playbook, extra variables, flags.
LINES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "run jobs/train.yml": ("train", {"job": "jobs/train.yml"}, []),
    "run jobs/train.yml -n 4 -d": ("train", {"job": "jobs/train.yml", "nodes": "4", "launch_wait": False}, []),
    "run jobs/train.yml --rerun --check -c ux": (
        "train",
        {"job": "jobs/train.yml", "rerun": True, "cluster": "ux"},
        ["--check", "--diff"],
    ),
    'run jobs/train.yml -s resources.time=02:00:00 -s env={"A":"1"} --wait': (
        "train",
        {
            "job": "jobs/train.yml",
            "launch_overrides": {"resources.time": "02:00:00", "env": {"A": "1"}},
            "launch_wait": True,
        },
        [],
    ),
    "run jobs/train.yml -- --lr 1e-3": (
        "train",
        {"job": "jobs/train.yml", "program_args": ["--lr", "1e-3"]},
        [],
    ),
    "run -n 8 -- sbatch -N4 train.sh a --b": ("train", {"job": "sbatch -N4 train.sh a --b", "nodes": "8"}, []),
    "plan -- /usr/bin/sbatch --wrap=true": ("plan", {"job": "/usr/bin/sbatch --wrap=true"}, ["--diff"]),
    "run jobs/train.yml -- sbatch": ("train", {"job": "jobs/train.yml", "program_args": ["sbatch"]}, []),
    "run jobs/train.yml --exclude node07 --exclusive --cpus-per-rank 4 --mpi pmix": (
        "train",
        {"job": "jobs/train.yml", "exclude": "node07", "exclusive": True, "cpus_per_rank": "4", "mpi": "pmix"},
        [],
    ),
    "plan jobs/train.yml": ("plan", {"job": "jobs/train.yml"}, ["--diff"]),
    "ls": ("status", {}, []),
    "ls gpt --active --all": ("status", {"launch_name": "gpt", "all": True, "active": True}, []),
    "attach 1234": ("attach", {"job_id": "1234"}, []),
    "attach gpt --until started --timeout 60": (
        "attach",
        {"launch_name": "gpt", "wait_timeout": "60", "wait_until": "started"},
        [],
    ),
    "logs gpt/72ee2a70/2 -f": (
        "logs",
        {"launch_name": "gpt", "key": "72ee2a70", "generation": "2", "follow": True},
        [],
    ),
    "why jobs/train.yml": ("diagnose", {"launch_name": "gpt"}, []),
    "why --logs /scratch/old": ("diagnose", {"logs": "/scratch/old"}, []),
    "why ~/state/runs/gpt/72ee2a70/1": ("diagnose", {"run_dir": "~/state/runs/gpt/72ee2a70/1"}, []),
    "compare gpt/72ee2a70 1234 --time wall_time": (
        "compare",
        {"launches": ["gpt/72ee2a70", "1234"], "time": "wall_time"},
        [],
    ),
    "report": ("report", {}, []),
    "report jobs/train.yml 1234 -o pages/a.html": (
        "report",
        {"launches": ["gpt", "1234"], "dest": "pages/a.html"},
        [],
    ),
    "report --sweep lr --limit 9": ("report", {"sweep": "lr", "limit": 9}, []),
    "sync": ("sync", {}, []),
    "sync jobs/train.yml 1234 --wandb /opt/bin/wandb --api-key-file ~/.key --check": (
        "sync",
        {"launches": ["gpt", "1234"], "wandb": "/opt/bin/wandb", "api_key_file": "~/.key"},
        ["--check", "--diff"],
    ),
    "notify": ("notify", {}, []),
    "notify gpt/72ee2a70 --metrics-file /var/a.prom --metrics-hours 6 --check": (
        "notify",
        {"launch_name": "gpt", "key": "72ee2a70", "metrics_file": "/var/a.prom", "metrics_hours": 6},
        ["--check", "--diff"],
    ),
    "usage": ("usage", {}, []),
    "usage gpt --by name,month --since 2026-01 --csv a.csv": (
        "usage",
        {"launch_name": "gpt", "by": ["name", "month"], "since": "2026-01", "csv": "a.csv"},
        [],
    ),
    "cancel gpt/72ee2a70": ("cancel", {"launch_name": "gpt", "key": "72ee2a70"}, []),
    "cancel jobs/train.yml --all": ("cancel", {"launch_name": "gpt", "all": True}, []),
    "cancel jobs/both.yml": ("cancel", {"job": "jobs/both.yml"}, []),
    "pull gpt": ("pull", {"launch_name": "gpt"}, []),
    "pull 1234 ckpt metrics.csv --dest out --check": (
        "pull",
        {"job_id": "1234", "paths": ["ckpt", "metrics.csv"], "dest": "out"},
        ["--check", "--diff"],
    ),
    "shell jobs/train.yml -n 1": ("shell", {"job": "jobs/train.yml", "nodes": "1", "run": True}, []),
    "shell jobs/train.yml --show": ("shell", {"job": "jobs/train.yml"}, []),
    "pipeline jobs/both.yml -d": ("pipeline", {"job": "jobs/both.yml", "launch_wait": False}, []),
    "sweep jobs/train.yml --elements 0,3": ("sweep", {"job": "jobs/train.yml", "elements": ["0", "3"]}, []),
    "reconcile jobs --check": ("reconcile", {"jobs": "jobs"}, ["--check", "--diff"]),
    "lab down --name two": ("lab", {"state": "absent", "lab": "two"}, []),
    "lab": ("lab", {"state": "present"}, []),
    "ls -e forks=3": ("status", {"forks": "3"}, []),
}


@pytest.mark.parametrize("line", LINES)
def test_verb_is_a_line_of_ansible_playbook(line: str, rankzero: Callable[..., int], ansible: Ansible) -> None:
    playbook, wanted, flags = LINES[line]
    assert rankzero(*line.split()) == errors.OK
    argv = ansible.argv()
    assert argv[0] == f"rankzero.slurm.{playbook}"
    assert ansible.variables() == wanted
    assert [word for word in argv if word.startswith("--")] == flags


def test_every_verb_has_its_playbook() -> None:
    assert set(PLAYBOOKS) == set(VERBS) - set(LOCAL)
    used = {line.split()[0] for line in LINES}
    assert used == set(PLAYBOOKS)
    missing = [name for name, _, _ in LINES.values() if f"playbooks/{name}.yml" not in files("playbooks/")]
    assert not missing


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("rnu jobs/train.yml", "did you mean run?"),
        ("run jobs/train.yml --nodse 4", "did you mean --nodes?"),
        ("run jobs/train.yml --gpus 8", "did you mean --gpus-per-node?"),
        ("run", "JOB"),
        ("run -- train.sh", "sbatch"),
        ("run jobs/train.yml nodes=4", "go after `--`"),
        ("run jobs/train.yml --exlude node07", "did you mean --exclude?"),
        ("run jobs/train.yml -s nodes", "KEY=VALUE"),
        ("run jobs/train.yml -s env={A", "JSON"),
        ("ls gpt/xyz", "NAME/KEY"),
        ("ls -- --lr", "takes no arguments"),
        ("why", "--logs"),
        ("attach gpt --until pattern", "invalid choice"),
        ("lab sideways", "invalid choice"),
        ("--verison", "--verison"),
    ],
)
def test_wrong_words_are_refused_with_what_is_right(
    line: str, told: str, rankzero: Callable[..., int], ansible: Ansible, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rankzero(*line.split()) == errors.USAGE
    assert told in capsys.readouterr().err
    assert not ansible.calls()


def test_inventory_is_the_one_given_else_the_folder_else_the_users_own(
    rankzero: Callable[..., int], ansible: Ansible, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named() -> list[str]:
        argv = ansible.argv()
        return [value for option, value in zip(argv, argv[1:]) if option == "-i"]

    rankzero("ls")
    assert named() == []
    own = tmp_path / "config" / "rankzero" / "inventory"
    own.mkdir(parents=True)
    rankzero("ls")
    assert named() == [str(own)]
    Path("inventory").mkdir()
    rankzero("ls")
    assert named() == ["inventory"]
    rankzero("ls", "-i", "a.yml", "-i", "b.yml")
    assert named() == ["a.yml", "b.yml"]
    Path("ansible.cfg").write_text("[defaults]\ninventory = elsewhere\n", encoding="utf-8")
    rankzero("ls")
    assert named() == []


def test_settings_of_the_user_stay(
    rankzero: Callable[..., int], ansible: Ansible, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("ansible.cfg").write_text("[defaults]\ncallbacks_enabled = timer\n", encoding="utf-8")
    rankzero("ls")
    assert ansible.calls()[-1]["env"]["ANSIBLE_CALLBACKS_ENABLED"] == "timer,rankzero.slurm.records"
    # In a checkout the collection is found by the environment of the checkout.
    assert ansible.calls()[-1]["env"].get("ANSIBLE_COLLECTIONS_PATH") is None
    Path("ansible.cfg").write_text("[defaults]\ncollections_path = mine:/usr/share/x\n", encoding="utf-8")
    monkeypatch.setattr("rankzero.playbook.collection_root", lambda: "/site")
    rankzero("ls")
    assert ansible.calls()[-1]["env"]["ANSIBLE_COLLECTIONS_PATH"] == f"/site:{Path.cwd()}/mine:/usr/share/x"


def test_output_is_the_screen_unless_the_user_has_chosen_another(
    rankzero: Callable[..., int], ansible: Ansible, monkeypatch: pytest.MonkeyPatch
) -> None:
    def callback() -> str | None:
        chosen: str | None = ansible.calls()[-1]["env"].get("ANSIBLE_STDOUT_CALLBACK")
        return chosen

    rankzero("ls")
    assert callback() == "rankzero.slurm.screen"
    for details in ("-v", "-vv"):
        rankzero("ls", details)
        assert callback() is None, details
    Path("ansible.cfg").write_text("[defaults]\nstdout_callback = oneline\n", encoding="utf-8")
    rankzero("ls")
    assert callback() is None
    Path("ansible.cfg").unlink()
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "minimal")
    rankzero("ls")
    assert callback() == "minimal"


def test_the_choice_of_a_python_is_not_a_warning(
    rankzero: Callable[..., int], ansible: Ansible, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "ANSIBLE_PYTHON_INTERPRETER"
    rankzero("ls")
    assert ansible.calls()[-1]["env"][name] == "auto_silent"
    Path("ansible.cfg").write_text("[defaults]\ninterpreter_python = /usr/bin/python3\n", encoding="utf-8")
    rankzero("ls")
    assert name not in ansible.calls()[-1]["env"], "the user's own setting counts"
    monkeypatch.setenv(name, "auto_legacy")
    rankzero("ls")
    assert ansible.calls()[-1]["env"][name] == "auto_legacy"


def test_without_an_inventory_ansible_does_not_warn_about_it(rankzero: Callable[..., int], ansible: Ansible) -> None:
    silent = {"ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false"}
    for line, quiet in (("lab", True), ("lab -i hosts.yml", False), ("ls", True)):
        rankzero(*line.split())
        assert (silent.items() <= ansible.calls()[-1]["env"].items()) is quiet, line


def test_playbook_learns_the_options_of_a_command_it_suggests(rankzero: Callable[..., int], ansible: Ansible) -> None:
    rankzero("run", "jobs/train.yml", "-d", "-c", "ux", "-i", "my hosts")
    assert ansible.calls()[-1]["env"]["RANKZERO_OPTIONS"] == "-i 'my hosts' -c ux"


def test_verbose_shows_the_line(
    rankzero: Callable[..., int], ansible: Ansible, capsys: pytest.CaptureFixture[str]
) -> None:
    rankzero("sweep", "jobs/train.yml", "-n", "4", "-v")
    line = "ansible-playbook rankzero.slurm.sweep -e job=jobs/train.yml -e nodes=4\n"
    assert (
        capsys.readouterr().err == "rankzero: with ansible-playbook: sweep is more than one call of a module\n" + line
    )
    assert "-v" not in ansible.argv()
    rankzero("ls", "-vv")
    assert ansible.argv()[-1] == "-v"


def test_attach_that_ends_before_the_job_says_so(rankzero: Callable[..., int], ansible: Ansible) -> None:
    ansible.answer(0, ("job_wait", "ok", {"completed": False, "message": "60 s are over"}))
    assert rankzero("attach", "gpt", "--timeout", "60") == errors.UNFINISHED
    assert rankzero("attach", "gpt", "--until", "started") == errors.OK


@pytest.mark.parametrize(
    ("rc", "records", "code"),
    [
        (0, [("job_report", "ok", {"standing": "succeeded"})], errors.OK),
        (2, [("job_report", "failed", {"standing": "failed", "msg": "gpt failed"})], errors.FAILED),
        (2, [("job_report", "failed", {"standing": "waiting", "msg": "the job continues"})], errors.UNFINISHED),
        (2, [("job", "failed", {"msg": "nodes: must be a number"})], errors.REFUSED),
        (4, [("job", "unreachable", {"msg": "no route"})], errors.UNREACHABLE),
        (99, [], errors.INTERRUPTED),
        (1, [], errors.REFUSED),
    ],
)
def test_exit_codes(rc: int, records: list[Any], code: int, rankzero: Callable[..., int], ansible: Ansible) -> None:
    ansible.answer(rc, *records)
    assert rankzero("run", "jobs/train.yml") == code


#: Modules beyond those of an empty Python. Each costs about half a millisecond before the playbook starts.
MOST_MODULES = 100


def modules_of(program: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(shown.stdout.split())


def test_start_imports_little() -> None:
    """What the command imports before the playbook starts is paid on every call."""
    names = "print(*sys.modules)"
    verb = "import rankzero.command as c; c.call_of(c.parse(['run', 'jobs/train.yml', '-n', '4']))"
    imported = modules_of(f"{verb}; {names}") - modules_of(names)
    heavy = {
        "ansible",
        "asyncio",
        "difflib",
        "importlib.metadata",
        "logging",
        "rankzero.api",
        "rankzero.sbatch",
        "yaml",
    }
    assert "rankzero.playbook" in imported
    assert not heavy & imported
    assert len(imported) <= MOST_MODULES, sorted(imported)
