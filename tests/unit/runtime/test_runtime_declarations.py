# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each declared container runtime, and everything that has to know it: one that a consumer forgets fails here."""

from __future__ import annotations

import json
import re
import shlex
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.image.formats import FORMATS
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.container import image_formats
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.shell import programs, session
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import container_support
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.needs import ContainerNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers import registry
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.base import IMAGES, Runtime
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME, RUNTIME_FILES
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script, render_shell
from tests.repository import files, read
from tests.unit.diagnosis.test_signatures import diagnosed
from tests.unit.plan.containers import planned, problems
from tests.unit.slurm.recorded import FakeSlurm, said

every_runtime = pytest.mark.parametrize("runtime", registry.RUNTIMES, ids=lambda runtime: runtime.name)
#: What a step's log holds where the container did not start.
COMPLAINTS = {
    "pyxis": "slurmstepd: error: pyxis:     [ERROR] No such file or directory: /images/torch.sqsh",
    "apptainer": "FATAL:   could not open image /images/torch.sif: no such file or directory",
    "oci": "[rankzero] crun: open executable: No such file or directory: OCI runtime error",
}


def job_with(runtime: Runtime) -> dict[str, object]:
    return {"runtime": runtime.name, "image": f"/images/torch{runtime.suffix}"}


def images(folder: Path) -> dict[str, Path]:
    """One of each kind that a file system can hold."""
    made = {name: folder / name for name in ("squashfs", "sif", "root", "bundle", "text")}
    made["squashfs"].write_bytes((b"hsqs" + bytes(36) + struct.pack("<Q", 96)).ljust(96, b"\0"))
    made["sif"].write_bytes(b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0")
    made["text"].write_text("FROM x")
    (made["root"] / "usr").mkdir(parents=True)
    made["bundle"].mkdir()
    (made["bundle"] / "config.json").touch()
    return made


@every_runtime
def test_a_declaration_is_whole(runtime: Runtime) -> None:
    assert re.fullmatch(r"[a-z]+", runtime.name), "it is part of a shell variable's name"
    assert (runtime.step is None) != (runtime.words is None), "a runtime has either options of the step, or a command"
    assert set(runtime.images) <= set(IMAGES) and runtime.used
    assert set(runtime.programs) <= set(RUNTIME_FILES)
    assert set(image_formats(runtime.name)) <= set(FORMATS)
    assert runtime.name in COMPLAINTS, "add a line that it prints when it does not start"


def test_one_file_is_one_runtime() -> None:
    folder = "plugins/module_utils/spec/containers/"
    own = {path.removeprefix(folder).removesuffix(".py") for path in files(folder, ".py")}
    assert own - {"__init__", "base", "registry"} == set(registry.NAMES)


@every_runtime
def test_the_pages_and_the_schema_know_it(runtime: Runtime) -> None:
    schema = json.loads(read("docs/job-spec.schema.json"))["properties"]["container"]["properties"]
    assert runtime.name in schema["runtime"]["examples"]
    assert f"| `{runtime.name}` | {runtime.takes} |" in read("docs/containers.md")
    shown = read("plugins/modules/cluster_info.py")
    for name in [command.name for command in runtime.commands] + ([runtime.name] if runtime.step else []):
        assert f"    {name}: {{available: " in shown, f"the sample of cluster_info has no {name}"


@every_runtime
def test_a_job_is_planned_and_both_of_its_scripts_enter(runtime: Runtime) -> None:
    assert problems(job_with(runtime)) == []
    plan = planned(job_with(runtime))
    assert plan.container and plan.container.kind is runtime
    script, shell, typed = render_script(plan), render_shell(plan), shlex.join(session(plan).shell)
    for text in (script, shell):
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    image = str(job_with(runtime)["image"])
    if runtime.step:
        assert image in script and image in typed
    else:
        assert "rankzero_enter=(" in script and image in script and image in shell
        started = runtime.programs or runtime.searched
        assert started and all(name in shell for name in started[:1])
    assert programs(plan) == ("start/serve.sh", *runtime.programs)


@every_runtime
def test_a_cluster_is_asked_for_it(runtime: Runtime) -> None:
    def asked(slurm: FakeSlurm) -> list[str]:
        host = slurm.slurm()
        return [*container_support.check(host, ContainerNeeds(runtime.name, own_setup=False)), *host.notes]

    known = said("--container-image=PATH\n")
    assert asked(FakeSlurm(srun=known, **{name: said() for name in runtime.used})) == []
    assert len(asked(FakeSlurm(srun=said()))) == 1
    shown = container_support.detect(FakeSlurm(srun=known, sbatch=known).slurm(), {})
    assert {command.name for command in runtime.commands} <= set(shown)
    assert runtime.step is None or runtime.name in shown


@every_runtime
def test_the_cluster_and_each_node_take_the_images_that_are_declared(
    runtime: Runtime, parts: dict[str, ModuleType], tmp_path: Path
) -> None:
    assert parts["program"].images_of(runtime.name) == list(runtime.images)
    for kind, path in images(tmp_path).items():
        trouble = container_support.image_trouble(str(path), runtime)
        assert (trouble is None) == (kind in runtime.images), (kind, trouble)
        # A node has its own look only where it is sure.
        if trouble is None:
            assert parts["program"].image_trouble(str(path), runtime.name) is None, kind


@every_runtime
def test_what_it_says_is_found_in_the_log_and_diagnosed(runtime: Runtime, tmp_path: Path) -> None:
    log = tmp_path / "step.log"
    log.write_text(f"begin\n{COMPLAINTS[runtime.name]}\nsrun: error: n1: task 0: Exited with exit code 1\n")
    line = (
        "import sys; sys.path.insert(0, sys.argv[1]); from container import outside; from core import state\n"
        "job = state.Job({}, sys.argv[1]); print(outside.failure(job, sys.argv[2], sys.argv[3]))"
    )
    words = [sys.executable, "-I", "-B", "-c", line, RUNTIME, runtime.name, str(log)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == COMPLAINTS[runtime.name]
    assert diagnosed(log.read_text()).family == "container_start"


def test_nothing_else_decides_by_a_runtimes_name() -> None:
    """A comparison with a name, or a table by names, is a place that the next runtime forgets."""
    names = "|".join(registry.NAMES)
    decides = re.compile(rf"""["'](?:{names})["']|(?:=|\bin|^) *(?:{names})(?: *\]|\)|$)""")
    #: `oci` is a format of images and a way to name them, too.
    other = ("spec/containers/", "lab/", "image/", "core/arguments.py", "spec/allowances.py")
    offenders = [
        f"{path}:{number}: {line.strip()}"
        for path in files("plugins/")
        if path.endswith((".py", ".j2", ".sh"))
        and not path.startswith(tuple(f"plugins/module_utils/{room}" for room in other))
        and path != "plugins/runtime/container/oci.py"
        for number, line in enumerate(read(path).splitlines(), 1)
        if decides.search(line) and "example=" not in line
    ]
    assert offenders == []
