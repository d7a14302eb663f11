# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs that look or plan, with and without ansible-playbook: byte for byte the same request, screen and document.

The requests are noted where they arrive: by a stand-in for ssh, and for the Python of this machine as a login node.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.variables import PLAYBOOKS
from rankzero import command, errors
from rankzero.direct import LAUNCHING, VERBS, directly, why_not
from rankzero.direct_launch import LOGS_DEST
from rankzero.known_inventory import Login, NotPlain, login_of
from rankzero.parsing import parse
from rankzero.playbook import Played
from rankzero.verbs import call_of
from tests.repository import CACHE, ROOT, leaving, load_yaml
from tests.stand_ins import command as command_in
from tests.unit.run.test_launches import NOW, row
from tests.writers import CUDA_OOM, Run

FOLDERS = {path.parts[-2] for path in (ROOT / "examples").glob("*/ansible.cfg")}
#: The inventories of the others are like those of these.
UNLIKE = {"course", "enroot_site", "first_run", "gitops", "site_parts"}
NOTING = """#!{python}
import json, os, subprocess, sys
data = sys.stdin.buffer.read()
with open({noted!r}, "a", encoding="utf-8") as stream:
    name = os.path.basename(sys.argv[0])
    stream.write(json.dumps([name, sys.argv[1:], data.decode(), name != "ssh" and os.getcwd()]) + "\\n")
words = ["/bin/sh", "-c", sys.argv[-1]] if name == "ssh" else [{python!r}, *sys.argv[1:]]
sys.exit(subprocess.run(words, input=data).returncode)
"""
PYTHON = "/usr/bin/python3"
#: Newer releases of Ansible say this to ssh as well; no password is asked for in any case.
NO_PROMPTS = ["-o", "NumberOfPasswordPrompts=1"]
SITE = {"slurm_login": {"hosts": {"login": {"ansible_connection": "local", "ansible_python_interpreter": PYTHON}}}}


class Ways:
    """A user whose home has launches, and who types a verb both ways."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder, self._patch, self._capfd = folder, monkeypatch, capfd
        self.home, self.noted = folder / "home", folder / "noted"
        self.tools = folder / "tools"
        self.tools.mkdir()
        for name in ("ssh", "python"):
            (self.tools / name).write_text(NOTING.format(python=sys.executable, noted=str(self.noted)))
            (self.tools / name).chmod(0o755)
        # Found by its name, as on any login node.
        (self.tools / "python3").symlink_to("python")
        (folder / "queue").write_text(row("FAILED", StartTime=str(int(NOW) - 91), EndTime=str(int(NOW) - 9)))
        for name, does in {
            "squeue": f"cat {folder}/queue",
            "scontrol": "printf 'node01\\nnode02\\n'",
            "sacct": "exit 1",
        }.items():
            command_in(self.tools, name, f"#!/bin/sh\n{does}\n")
        self.project = folder / "project"
        self.project.mkdir()
        for name in [name for name in os.environ if name.startswith(("ANSIBLE_", "RANKZERO_"))]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(CACHE / "collections"))
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.home / "cache"))
        monkeypatch.setenv("PATH", f"{self.tools}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.chdir(self.project)
        root = self.home / ".rankzero" / "state"
        self.run = Run.below(root).launch({}).journal({"event": "intent"}, {"event": "submitted", "job_id": "7"})
        self.run.claimed().numbered(0).started().ended(1, "exit code 1")
        (self.run.path / "logs" / "0" / "rank-0000.log").write_text(CUDA_OOM)
        Run.below(root, "other").launch({}).journal({"event": "intent"}, {"event": "submitted", "job_id": "8"})

    def inventory(self, content: Any, name: str = "inventory/hosts.yml") -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text.replace(PYTHON, str(self.tools / "python")), encoding="utf-8")
        return path

    def types(self, *words: str, playbook: bool) -> dict[str, Any]:
        """All that a command says and asks, by one of the ways."""

        def other(*_given: Any, **_options: Any) -> Played | None:
            if playbook:
                return None
            raise AssertionError(f"{words} ran a playbook")

        self.noted.write_text("")
        with self._patch.context() as patch:
            patch.setattr(command, "directly" if playbook else "play", other)
            code = command.main(list(words))
        shown = self._capfd.readouterr()
        return {"code": code, "out": shown.out, "err": shown.err, "asked": self.asked()}

    def asked(self) -> list[Any]:
        return [json.loads(line) for line in self.noted.read_text(encoding="utf-8").splitlines()]

    def same(self, *words: str) -> dict[str, Any]:
        """What both ways do and say. Fails where they differ."""
        directly, played = self.types(*words, playbook=False), self.types(*words, playbook=True)
        assert len(directly["asked"]) == len(played["asked"]) > 0
        for ours, theirs in zip(directly["asked"], played["asked"]):
            assert ours[2] == theirs[2], "the request"
            assert ours[1] == without_prompts(theirs[1]), "the command"
            assert ours[3] == theirs[3], "the folder"
        assert (directly["code"], directly["err"]) == (played["code"], played["err"])
        if "--json" in words:
            assert json.loads(directly["out"]) == json.loads(played["out"])
        assert directly["out"] == played["out"]
        return directly


def without_prompts(argv: list[str]) -> list[str]:
    for at in range(len(argv)):
        if argv[at : at + 2] == NO_PROMPTS:
            return argv[:at] + argv[at + 2 :]
    return argv


@pytest.fixture
def ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Ways]:
    yield Ways(tmp_path, monkeypatch, capfd)


def test_what_is_asked_and_shown_is_the_same_by_both_ways(ways: Ways) -> None:
    ways.inventory(SITE)
    ways.types("ls", playbook=False)  # leaves the code on the host, which the first call of a user sends
    assert "gpt" in ways.same("ls")["out"]
    ways.same("ls", "--active")
    ways.same("ls", "gpt/0123456789abcdef/01", "--all", "--limit", "0", "-c", "login")
    assert ways.same("ls", "nobody", "--json")["code"] == errors.OK
    assert "CUDA" in ways.same("why", "gpt")["out"]
    assert ways.same("why", "gpt/0123", "--json")["code"] == errors.OK
    assert "no launch" in ways.same("why", "nobody")["out"]
    assert ways.same("why", "nobody", "--json", "-c", "slurm_login")["code"] == errors.REFUSED
    ways.same("why", "--logs", str(ways.run.path / "logs"))
    assert ways.same("why", "--logs", "nowhere/below")["code"] == errors.REFUSED
    ways.same("ls", str(ways.run.path))


def test_the_first_call_of_a_user_sends_the_code_both_ways(ways: Ways) -> None:
    ways.inventory(SITE)
    directly = ways.types("ls", playbook=False)
    shutil.rmtree(ways.home / "cache" / "rankzero" / "modules")
    played = ways.types("ls", playbook=True)
    assert directly == played and len(directly["asked"]) == 2


@pytest.mark.parametrize("folder", leaving(sorted(FOLDERS), FOLDERS - UNLIKE))
def test_the_inventories_of_the_examples(ways: Ways, folder: str) -> None:
    ways.inventory(SITE)
    ways.types("ls", playbook=False)
    ways.types("why", "gpt", playbook=False)
    seen = 0
    for number, (path, plain) in enumerate(found(folder)):
        shutil.copytree(path.parent, ways.project / "its", dirs_exist_ok=True)
        chosen = str(ways.inventory(path.read_text(encoding="utf-8"), f"its/{path.name}"))
        if not plain:
            with pytest.raises(NotPlain):
                login_of([chosen], None, os.environ)
            continue
        seen += 1
        # Both verbs for each way of connection would take a minute.
        ways.same(*(("ls",) if number % 2 else ("why", "gpt")), "-i", chosen)
    assert seen or folder in ("gitops",)


def found(folder: str) -> list[tuple[Path, bool]]:
    base = ROOT / "examples" / folder
    paths = [*sorted(base.glob("inventory/*.yml")), *sorted(base.glob("*/hosts.yml"))]
    return [(path, "{{" not in path.read_text(encoding="utf-8")) for path in paths]


def test_ssh_shares_the_connection_of_a_playbook(ways: Ways) -> None:
    own = {"ansible_host": "10.0.0.7", "ansible_user": "me", "ansible_port": 2222, "launch_cluster": {}}
    ways.inventory({"slurm_login": {"hosts": {"login": own}}})
    ways.types("ls", playbook=False)
    asked, _itself = ways.same("ls")["asked"]
    assert asked[0] == "ssh" and "Port=2222" in asked[1] and 'User="me"' in asked[1] and asked[1][-2] == "10.0.0.7"


#: Why only a playbook can do it -> what is in its inventory, its ansible.cfg and its environment.
NOT_PLAIN: dict[str, dict[str, Any]] = {
    "a lookup": {"login": {"ansible_host": "{{ lookup('env', 'HOST') }}"}},
    "a template in what it needs": {"login": {"launch_cluster": {"state_root": "/shared/{{ inventory_hostname }}"}}},
    "a vaulted value": {"login": {"ansible_user": "VAULT"}},
    "a value that is no template": {"login": {"launch_cluster": {"state_root": "UNSAFE"}}},
    "another user": {"login": {"ansible_become": True}},
    "another connection": {"login": {"ansible_connection": "docker"}},
    "words for ssh": {"login": {"ansible_ssh_common_args": "-J gate"}},
    "an option in place of a host": {"login": {"ansible_host": "-oProxyCommand=id"}},
    "a date in what it needs": {"login": {"launch_cluster": {"fabrics": {"ib": {"until": "DATE"}}}}},
    "a name that is a number": {"login": {"launch_cluster": {"env": {"1": "x"}}}},
    "a path of another type": {"login": {"launch_cluster": {"state_root": 7}}},
    "two hosts": {"more": {"second": {}}},
    "a program": {"mode": 0o755},
    "a vaulted file": {"group_vars/all.yml": "$ANSIBLE_VAULT;1.1;AES256\n3030\n"},
    "a plugin": {"inventory/nodes.yml": "plugin: rankzero.slurm.nodes\n"},
    "a setting": {"ansible.cfg": "[defaults]\nremote_user = somebody\n"},
    "another callback": {"ansible.cfg": "[defaults]\nstdout_callback = default\n"},
    "a variable": {"environment": {"ANSIBLE_REMOTE_USER": "somebody"}},
    "another copy of the collection": {"environment": {"ANSIBLE_COLLECTIONS_PATH": "/nowhere"}},
    "what Ansible warns of": {"inventory/broken.yml": "slurm_login: [\n"},
    "own plugins": {"../home/.ansible/plugins/vars/mine.py": "x\n"},
}


@pytest.mark.parametrize("reason", NOT_PLAIN)
def test_what_is_not_plain_is_left_to_a_playbook(ways: Ways, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = NOT_PLAIN[reason]
    hosts = {"login": {"ansible_connection": "local", **given.get("login", {})}, **given.get("more", {})}
    text = (
        json.dumps({"slurm_login": {"hosts": hosts}}).replace('"UNSAFE"', "!unsafe x").replace('"DATE"', "2027-01-31")
    )
    path = ways.inventory(text.replace('"VAULT"', '!vault "$ANSIBLE_VAULT;1.1;AES256\\n3030\\n"'))
    path.chmod(given.get("mode", 0o644))
    for name in given:
        if "/" in name or name == "ansible.cfg":
            ways.inventory(given[name], f"inventory/{name}" if name.startswith("group_vars") else name)
    for name, value in given.get("environment", {}).items():
        monkeypatch.setenv(name, value)
    for _again in range(2):
        assert directly(call_of(parse(["ls"]))) is None
    assert not ways.noted.exists()


#: What is typed -> why a playbook must do it.
LEFT = {
    "ls -e limit=3": "-e limit",
    "run job.yml --rerun": "--rerun launches again",
    "cancel gpt": "cancel is more than one call of a module",
    "attach gpt": "attach is more than one call",
    "sweep job.yml -d": "sweep is more than one call",
}


@pytest.mark.parametrize("words", LEFT)
def test_what_is_more_than_one_call_is_left_to_a_playbook_and_v_says_why(ways: Ways, words: str) -> None:
    ways.inventory(SITE)
    call = call_of(parse(words.split()))
    assert directly(call) is None and LEFT[words] in why_not(call)
    assert not ways.noted.exists()


def test_a_fetch_that_follows_is_left_to_a_playbook(ways: Ways) -> None:
    ways.inventory(SITE)
    assert directly(call_of(parse(["logs", "gpt", "-f"]))) is None
    assert not ways.noted.exists()


def test_logs_come_the_same_by_both_ways(ways: Ways) -> None:
    """With the connection local; a playbook makes a folder for its task on the host, and names it in the request."""
    ways.inventory(SITE)
    ways.types("ls", playbook=False)
    seen = []
    for playbook in (False, True):
        done = ways.types("logs", "gpt", "--merge", playbook=playbook)
        asked = [re.sub(r'"folder": (null|"[^"]*")', "", call[2]) for call in done.pop("asked")]
        brought = {str(path): path.read_text() for path in Path("runs").rglob("*") if path.is_file()}
        assert any(CUDA_OOM in text for text in brought.values())
        shutil.rmtree("runs")
        seen.append((done, asked, brought))
    assert seen[0] == seen[1]


def test_a_wrong_file_is_refused_before_anything_is_asked(ways: Ways) -> None:
    ways.inventory(SITE)
    (ways.project / "bad.yml").write_text("name: x\ncommand: [x]\nresources: {nodes: two}\n")
    for path, what in {"bad.yml": "resources.nodes", "nowhere.yml": "nowhere.yml"}.items():
        for verb in ("plan", "run"):
            direct, played = (ways.types(verb, path, playbook=playbook) for playbook in (False, True))
            assert direct == played and direct["code"] == errors.REFUSED and not direct["asked"]
            assert what in direct["out"]


def test_a_plan_without_slurm_is_the_playbooks(ways: Ways) -> None:
    ways.inventory(SITE)
    (ways.project / "job.yml").write_text("name: x\ncommand: [x]\n")
    assert directly(call_of(parse(["plan", "job.yml"]))) is None


def test_large_logs_go_through_a_file(ways: Ways) -> None:
    """Of all ranks they may be more than the memory of a laptop."""
    ways.inventory(SITE)
    content = os.urandom(24 << 20)
    (ways.run.path / "logs" / "0" / "rank-0001.log").write_bytes(content)
    ways.types("ls", playbook=False)
    tracemalloc.start()
    try:
        assert ways.types("logs", "gpt", playbook=False)["code"] == errors.OK
        _now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (kept,) = ways.project.glob("runs/**/rank-0001.log")
    assert kept.stat().st_size == len(content) and most < len(content) // 2


@pytest.mark.parametrize("words", [["ls"], ["why", "gpt"], ["logs", "gpt"], ["plan", "bad.yml"], ["run", "bad.yml"]])
def test_nothing_of_ansible_is_imported(ways: Ways, words: list[str]) -> None:
    ways.inventory(SITE)
    ways.types("ls", playbook=False)  # its ansible-inventory, once
    (ways.project / "bad.yml").write_text("name: x\n")
    code = (
        f"import sys; from rankzero.command import main; main({words!r}); "
        "sys.exit(any(name.split('.')[0] == 'ansible' for name in sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_variable_of_the_inventory_that_the_playbook_reads_is_left_to_it(ways: Ways) -> None:
    ways.inventory(SITE)
    ways.inventory("limit: 3\n", "inventory/group_vars/all.yml")
    assert directly(call_of(parse(["ls"]))) is None
    assert ways.types("why", "gpt", playbook=False)["code"] == errors.OK


def test_an_unreachable_host_is_told_by_the_playbook(ways: Ways) -> None:
    ways.inventory({"slurm_login": {"hosts": {"login": {}}}})
    (ways.tools / "ssh").write_text("#!/bin/sh\nexit 255\n")
    assert directly(call_of(parse(["ls"]))) is None


def test_a_change_of_any_file_is_seen_and_no_other_value_is_kept(ways: Ways) -> None:
    path = ways.inventory(SITE)
    extra = ways.inventory("launch_cluster: {state_root: /a}\ntoken: hunter2\n", "inventory/group_vars/all.yml")
    before = os.stat(extra)
    assert login_of(["inventory"], None, os.environ).cluster["state_root"] == "/a"
    extra.write_text("launch_cluster: {state_root: /b}\ntoken: hunter2\n")
    os.utime(extra, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert login_of(["inventory"], None, os.environ).cluster["state_root"] == "/b"
    ways.inventory("launch_cluster: {state_root: /c}\n", "inventory/host_vars/login/more.yml")
    assert login_of([str(path)], None, os.environ).cluster["state_root"] == "/c"
    kept = list((ways.home / "cache" / "rankzero" / "inventories").iterdir())
    assert len(kept) == 3
    for file in kept:
        assert "hunter2" not in file.read_text() and file.stat().st_mode & 0o777 == 0o600
        assert json.loads(file.read_text())["logins"][""].keys() == {each.name for each in dataclasses.fields(Login)}


def test_what_others_could_have_written_is_not_believed(ways: Ways) -> None:
    ways.inventory(SITE)
    login_of(["inventory"], None, os.environ)
    (kept,) = (ways.home / "cache" / "rankzero" / "inventories").iterdir()
    kept.write_text(kept.read_text().replace('"local"', '"ssh"'))
    kept.chmod(0o666)
    assert login_of(["inventory"], None, os.environ).connection == "local"


@pytest.mark.parametrize("playbook", sorted({*VERBS} - {*LAUNCHING}))
def test_a_verb_is_what_its_playbook_does(playbook: str) -> None:
    """The variables that the playbook reads, and one task that asks; the next one shows its lines."""
    verb = VERBS[playbook]
    assert sorted(verb.variables) == sorted(PLAYBOOKS[playbook])
    (play,) = load_yaml(f"playbooks/{playbook}.yml")
    asks, shows = play["tasks"]
    assert asks["name"] == verb.title and f"rankzero.slurm.{verb.module}" in asks
    assert "ansible.builtin.debug" in shows


@pytest.mark.parametrize("playbook", LAUNCHING)
def test_a_launch_reads_what_its_playbook_reads(playbook: str) -> None:
    verb = VERBS[playbook]
    assert {*PLAYBOOKS[playbook]} <= {*verb.variables}
    path = {"train": "roles/launch/tasks/main.yml"}.get(playbook, f"playbooks/{playbook}.yml")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert f"- name: {verb.title}\n" in text and f"rankzero.slurm.{verb.module}:" in text


def test_the_tasks_after_a_launch_are_those_of_role_launch() -> None:
    """Their modules, names and options; how they depend on each other is seen on the lab (tests/cluster)."""
    text = (ROOT / "python/rankzero/direct_wait.py").read_text(encoding="utf-8")
    tasks = [task for name in ("prove", "fetch", "diagnose") for task in load_yaml(f"roles/launch/tasks/{name}.yml")]
    shown = [task for task in tasks if "ansible.builtin.include_tasks" not in task]
    for task in shown:
        (module,) = [name for name in task if name.startswith("rankzero.slurm.")]
        assert f'"{module.rpartition(".")[2]}"' in text and f'"{task["name"]}"' in text, task["name"]
    assert len(shown) == 4
    defaults = load_yaml("roles/launch/defaults/main.yml")
    assert defaults["launch_wait_timeout"] == 0 and f"'{LOGS_DEST}' if" in defaults["launch_logs_dest"]
    assert "['', 'false', '0']" in defaults["launch_wait"]
