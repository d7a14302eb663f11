# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that runs from the copy of its code on the host: real processes, with a home of their own."""

from __future__ import annotations

import ast
import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.rankzero.slurm.plugins.module_utils.core import arguments, module_cache
from ansible_collections.rankzero.slurm.plugins.module_utils.explain import options
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric import result as fabric_result
from ansible_collections.rankzero.slurm.plugins.module_utils.report import sweep_results
from ansible_collections.rankzero.slurm.plugins.module_utils.run import select
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions import modules
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import carrier
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.carrier import ShellAnswer
from tests.repository import ROOT

TEXT = "#!/bin/bash\necho größe\n"
# What a module may use of AnsibleModule.
KNOWN = {"params", "check_mode", "warn", "exit_json", "fail_json"}


class Host:
    """An action whose connection is a process of this machine with another home. `answers`: its exit codes; `said`: the
    errors of the last one.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.answers: list[int] = []
        self.said = ""
        self.executed: list[str] = []
        self._connection = SimpleNamespace(has_pipelining=True, become=None)
        self._task = SimpleNamespace(check_mode=False, async_val=0)
        self._discovered_interpreter = None
        self._templar = SimpleNamespace(template=lambda text: text)
        self.lost = False
        self.environment = {"HOME": str(home), "PATH": os.environ["PATH"]}

    def _compute_environment_string(self) -> str:
        return ""

    def _execute_module(self, name: str, **_options: Any) -> dict[str, Any]:
        self.executed.append(name)
        return {"changed": False, "invocation": {}}

    def _low_level_execute_command(self, command: str, in_data: bytes) -> dict[str, Any]:
        if self.lost:
            raise AnsibleConnectionFailure("no route")
        done = subprocess.run(
            ["/bin/sh", "-c", command], input=in_data, capture_output=True, check=False, env=self.environment
        )
        self.answers.append(done.returncode)
        self.said = done.stderr.decode()
        return {"rc": done.returncode, "stdout": done.stdout.decode(), "stderr": self.said}

    def call(self, **options: Any) -> dict[str, Any]:
        given = {"job": {}, "path": "~/job.sbatch", "x_script": TEXT, **options}
        variables = {"ansible_python_interpreter": sys.executable}
        return modules.call_module(self, "rankzero.slurm.job_script", given, variables, arguments.JOB_SCRIPT)

    @property
    def copy(self) -> Path:
        (folder,) = (self.home / ".cache/rankzero/modules").iterdir()
        return folder

    @property
    def compiled(self) -> Path:
        (path,) = self.copy.glob("*.code")
        return path


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_the_code_is_sent_once_and_compiled_once(host: Host) -> None:
    assert host.call()["changed"] is True
    assert (host.home / "job.sbatch").read_text() == TEXT
    compiled = host.compiled.read_bytes()
    assert host.call()["changed"] is False
    assert host.answers == [module_cache.MISSING, 0, 0]
    assert host.compiled.read_bytes() == compiled
    assert host.copy.stat().st_mode & 0o777 == 0o700
    assert host.executed == []


def test_check_mode_reaches_the_module(host: Host) -> None:
    host._task.check_mode = True
    assert host.call()["changed"] is True
    assert not (host.home / "job.sbatch").exists()


def test_an_error_of_the_module_is_its_result(host: Host) -> None:
    (host.home / "job.sbatch").mkdir()
    result = host.call()
    assert result["failed"] is True and "job.sbatch" in result["msg"]
    assert host.answers[-1] == 1


def test_what_is_damaged_is_replaced(host: Host) -> None:
    host.call()
    for content in (b"", b"damaged"):
        host.compiled.write_bytes(content)
        assert host.call()["changed"] is False
        assert len(host.compiled.read_bytes()) > 10_000
    # The compiled code alone is enough; without it the sources are read.
    host.compiled.unlink()
    (host.copy / "sources").write_bytes(b"damaged")
    assert host.call()["changed"] is False
    assert host.answers[-2:] == [module_cache.MISSING, 0]


def open_to_others(host: Host) -> None:
    host.copy.chmod(0o777)


def open_file(host: Host) -> None:
    host.compiled.chmod(0o666)


def pipe(host: Host) -> None:
    path = host.compiled
    path.unlink()
    os.mkfifo(path)


def linked_folder(host: Host) -> None:
    folder = host.copy
    folder.rename(host.home / "elsewhere")
    folder.symlink_to(host.home / "elsewhere")


@pytest.mark.parametrize("change", [open_to_others, open_file, pipe, linked_folder])
def test_what_others_could_have_written_is_not_run(host: Host, change: Callable[[Host], None]) -> None:
    host.call()
    change(host)
    host.call()
    assert module_cache.STARTED not in host.answers
    assert host.answers[-1] == module_cache.UNUSABLE
    assert host.executed == ["rankzero.slurm.job_script"]


def test_code_that_is_not_what_was_sent_is_not_installed(tmp_path: Path) -> None:
    archive = module_cache.packed({"a": (False, "raise SystemExit(3)")})
    with pytest.raises(module_cache.Unusable):
        module_cache.install("0" * 64, archive, str(tmp_path / "modules" / "0"))
    assert not (tmp_path / "modules" / "0").exists()


def test_old_copies_are_removed(host: Host) -> None:
    parent = host.home / ".cache/rankzero/modules"
    for name, age in (("old", module_cache.UNUSED + 60), ("recent", 60)):
        (parent / name).mkdir(parents=True)
        (parent / name / "sources").write_text("")
        then = os.stat(parent).st_mtime - age
        os.utime(parent / name, (then, then))
    parent.chmod(0o700)
    host.call()
    assert {path.name for path in parent.iterdir()} - {"recent"} == {carrier._code()[0]}


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"generation": "three"}, "not a number"), ({"unknown": 1}, "no such option")],
)
def test_ansible_itself_reports_wrong_options(host: Host, options: dict[str, Any], reason: str) -> None:
    host.call(**options)
    assert (host.executed, host.answers) == (["rankzero.slurm.job_script"], []), reason


def test_ansible_runs_the_module_where_stdin_cannot_carry_it(host: Host) -> None:
    host._connection.has_pipelining = False
    assert host.call() == {"changed": False}
    assert host.answers == []


def test_a_host_without_a_suitable_python_is_left_to_ansible(host: Host) -> None:
    variables = {"ansible_python_interpreter": "/nonexistent/python3"}
    given = {"job": {}, "path": "~/x", "x_script": ""}
    modules.call_module(host, "rankzero.slurm.job_script", given, variables, arguments.JOB_SCRIPT)
    assert host.executed == ["rankzero.slurm.job_script"]


def test_a_lost_connection_is_the_callers_affair(host: Host) -> None:
    host.lost = True
    with pytest.raises(AnsibleConnectionFailure):
        host.call()
    assert host.executed == []


def test_a_module_that_dies_is_not_run_again(host: Host) -> None:
    result = carrier.result_of(ShellAnswer(137, f"banner\n{module_cache.STARTED}\n", "Killed"))
    assert result is not None and result["failed"] and result["module_stderr"] == "Killed"
    noise = f"welcome\n{module_cache.STARTED}\n" + json.dumps({"changed": True}) + "\nbye\n"
    assert carrier.result_of(ShellAnswer(0, noise)) == {"changed": True}
    assert carrier.result_of(ShellAnswer(1, json.dumps({"changed": True}))) is None


def test_modules_use_only_what_the_stand_in_has() -> None:
    used = {
        (path.name, node.attr)
        for path in (ROOT / "plugins/modules").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "module"
    }
    assert used and not {(name, attribute) for name, attribute in used if attribute not in KNOWN}


def test_no_path_is_below_the_top_of_a_spec() -> None:
    """Only the top is expanded on the host."""
    specs = [spec for name, spec in vars(arguments).items() if name.isupper() and isinstance(spec, dict)]
    specs += [select.WAIT_SPEC, select.LOGS_SPEC, select.PULL_SPEC, options.DIAGNOSIS_SPEC]
    specs += [sweep_results.ACTION_ARGUMENTS, fabric_result.ACTION_ARGUMENTS]
    assert not [option for spec in specs for option in spec.values() if "'type': 'path'" in str(option.get("options"))]


def test_the_archive_is_what_the_digest_names() -> None:
    key, sources = carrier._code()
    assert module_cache.digest(module_cache.unpacked(module_cache.packed(sources))) == key
    assert len(base64.b64encode(module_cache.packed(sources))) < 1_200_000
    assert not [name for name in sources if ".module_utils.lab" in name]
