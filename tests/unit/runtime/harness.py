# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A place where the real rendered script and runtime run under bash, with stand-ins for srun and scontrol only.

The stand-ins are programs in a folder that is put before the PATH that the script sets for itself, and exported bash
functions, which the bash of ranks and of a site's set-up finds. srun runs its command once a task with SLURM_PROCID,
SLURM_LOCALID, SLURM_NODEID, the size of the step, and SLURMD_NODENAME if the names differ, and hands TERM on.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import digest_token, text_replaced
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import inputs
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan, contract, manifest
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import publish_files
from ansible_collections.rankzero.slurm.plugins.module_utils.store.squash import squash
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.create import create
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.refs import recorded_digest
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import (
    BATCH_SCRIPT,
    RUNTIME,
    RUNTIME_FILES,
    runtime_bundle,
    secret_lines,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.request import request_of
from tests.plans import plan
from tests.unit.runtime.stand_ins import SRUN, STAND_IN, TORCHRUN

#: The folders of the runtime, which are packages.
ROOMS = {name.partition("/")[0] for name in RUNTIME_FILES if "/" in name}

CODE_KEY, ENVIRONMENT_KEY, RUNTIME_KEY = "c" * 64, "e" * 32, runtime_bundle()[0]

#: Says what reached it: arguments and environment as text, one file a rank; then does what its first argument names.
PROBE = """\
import json, os, sys
seen = {"argv": [os.fsencode(word).decode() for word in sys.argv[1:]], "cwd": os.getcwd(),
        "env": {name.decode(): value.decode() for name, value in os.environb.items()}}
with open(os.path.join(os.environ["RANKZERO_RUN_DIR"], "seen-" + os.environ["RANK"] + ".json"), "w") as stream:
    json.dump(seen, stream)
if "RANKZERO_ARTIFACT" in os.environ and os.environ["RANK"] == "0":
    with open(os.environ["RANKZERO_ARTIFACT"], "w") as stream:
        stream.write('{"loss": 1.0}')
"""


@contextlib.contextmanager
def runtime_parts(name: str) -> Iterator[ModuleType]:
    """A Python part of the runtime as a module (`node.disk`), among the parts that it imports."""
    path = list(sys.path)
    sys.path.insert(0, RUNTIME)
    try:
        yield importlib.import_module(name)
    finally:
        sys.path[:] = path
        for loaded in [module for module in sys.modules if module.partition(".")[0] in ROOMS]:
            del sys.modules[loaded]


class Site:
    """A cluster's shared storage in a folder, and one job after another in it."""

    #: Those that a test has made, for a look after a file's last one (conftest.py).
    made: ClassVar[list[Site]] = []

    def __init__(self, root: Path, state: str = "state", store: str = "store") -> None:
        self.root = root
        self.state = root / state
        self.store = root / store
        self.tools = root / "tools"
        #: First in the PATH of every script; what lies there is made from `functions` at each start.
        self.stand_ins = self.tools / "first"
        self.stand_ins.mkdir(parents=True)
        (self.tools / "srun.py").write_text(SRUN, encoding="utf-8")
        (self.tools / "torchrun.py").write_text(TORCHRUN, encoding="utf-8")
        self.code = self.store / "code" / CODE_KEY
        self.code.mkdir(parents=True)
        (self.code / "probe.py").write_text(PROBE, encoding="utf-8")
        publish_files(str(self.state / "runtime" / RUNTIME_KEY), runtime_bundle()[1])
        #: Bodies of the stand-ins, by command.
        self.functions = {
            "srun": f'exec {shlex.join([sys.executable, "-I", "-S", str(self.tools / "srun.py")])} "$@"',
            "scontrol": 'case "$2" in hostnames) echo "$3" | tr , "\\n" ;; *) echo "NodeAddr=192.0.2.7 Port=1" ;; esac',
        }
        self.usual = dict(self.functions)
        self.made.append(self)

    def bodies(self) -> dict[str, str]:
        """The stand-ins, by command: each leaves a mark when it is called."""
        return {name: f": > {self.tools}/called-{name}; {body}" for name, body in self.functions.items()}

    def place_stand_ins(self) -> None:
        for old in self.stand_ins.iterdir():
            old.unlink()
        for name, body in self.bodies().items():
            path = self.stand_ins / name
            path.write_text(STAND_IN.format(folder=self.stand_ins, tools=self.tools, body=body), encoding="utf-8")
            path.chmod(0o755)

    def own_stand_ins(self) -> set[str]:
        """The commands for which the test has a stand-in of its own."""
        return {name for name, body in self.functions.items() if self.usual.get(name) != body}

    def called(self, name: str) -> bool:
        return (self.tools / f"called-{name}").exists()

    def program(self, name: str, text: str) -> None:
        """A stand-in as a program in `tools`, for a job whose set-up puts that into its PATH."""
        path = self.tools / name
        path.write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def lose(self, *nodes: str) -> None:
        """From now on these nodes run nothing, and Slurm has not seen that yet."""
        (self.tools / "lost").write_text(" ".join(nodes), encoding="utf-8")

    def environment(self) -> None:
        """A Python environment in the store whose `-m torch.distributed.run` is the stand-in, and that has a package
        torch as far as the preflight looks.
        """
        packages = self.tools / "packages"
        (packages / "torch").mkdir(parents=True, exist_ok=True)
        (packages / "torch" / "__init__.py").touch()
        folder = self.store / "environments" / ENVIRONMENT_KEY / "bin"
        folder.mkdir(parents=True)
        real, launcher = shlex.quote(sys.executable), shlex.quote(str(self.tools / "torchrun.py"))
        (folder / "python").write_text(
            f'#!/bin/bash\n[ "$1" != -c ] || export PYTHONPATH={shlex.quote(str(packages))}\n'
            f'[ "$1" = -m ] || exec {real} "$@"\n[ "$2" = torch.distributed.run ] || exit 99\n'
            f'shift 2; exec {real} {launcher} "$@"\n',
            encoding="utf-8",
        )
        (folder / "python").chmod(0o755)

    def job(
        self,
        spec: Mapping[str, Any],
        *,
        secrets: Mapping[str, str] | None = None,
        environment: bool = False,
        generation: int = 1,
        **found: Any,
    ) -> Job:
        """A generation on disk, as the module leaves it before sbatch."""
        given = {"name": "job", "command": ["probe.py"], **spec}
        if "shell" in given or "script" in given:
            del given["command"]
        if secrets:
            given["secrets"] = {name: {"from_var": name} for name in secrets}
        merged = merge([Layer("test", given)])
        read = validated(merged, (), found.get("settings"))
        made = plan(
            read,
            merged,
            code_key="" if read.code.in_place else CODE_KEY,
            environment_key=ENVIRONMENT_KEY if environment else None,
            runtime_key=RUNTIME_KEY,
            state_root=str(self.state),
            store_root=str(self.store),
            **found,
        )
        digests = {digest_token(ref.key): recorded_digest(ref.kind, ref.path) for ref in made.refs}
        script = text_replaced(render_script(made), digests)
        files = {
            "job.sbatch": script.replace(
                'export PATH="/usr/local/bin', f'export PATH="{self.stand_ins}:/usr/local/bin'
            ),
            "launch.json": json.dumps(manifest(made, merged, {})),
            "contract.json": json.dumps(contract(read, found.get("settings"))),
            **({BATCH_SCRIPT: read.script} if read.script is not None else {}),
        }
        place = inputs.Site(str(self.state), str(self.store), found.get("settings") or ClusterSettings())
        request = request_of(made, place, made.refs, files, "never")
        if secrets:
            (self.tools / "secrets").write_bytes(secret_lines(read, {}, dict(secrets).get))
            request = replace(request, secrets_file=str(self.tools / "secrets"))
        run = RunDirectory(os.path.join(made.runs_dir(), str(generation)))
        assert create(request, run, lambda new: new.record("intent", submitter="host:1"))
        return Job(self, made, Path(run.path))


class Job:
    """One generation and what running its script left."""

    def __init__(self, site: Site, made: Plan, run: Path) -> None:
        self.site = site
        self.plan = made
        self.run = run

    def start(
        self,
        job_id: int = 1,
        attempt: int = 0,
        by_hand: bool = False,
        submission: str = "host:1",
        nodes: str | None = None,
        **slurm: str,
    ) -> subprocess.Popen[str]:
        """Start the script as slurmd would: with Slurm's variables and hardly anything else."""
        environment = {
            "PATH": os.environ["PATH"],
            "SLURM_JOB_ID": str(job_id),
            "SLURM_CLUSTER_NAME": "lab",
            "SLURM_JOB_NODELIST": nodes or ",".join(["localhost"] * self.plan.topology.nodes),
            **({"SLURM_RESTART_COUNT": str(attempt)} if attempt else {}),
            **{f"BASH_FUNC_{name}%%": f"() {{ {body}; }}" for name, body in self.site.bodies().items()},
            **slurm,
        }
        self.site.place_stand_ins()
        arguments = [] if by_hand else ["--submission", submission]
        log = self.run / "logs" / f"job.{job_id}.log"
        with log.open("a", encoding="utf-8") as stream:
            return subprocess.Popen(
                ["/bin/bash", str(self.run / "job.sbatch"), *arguments],
                env=environment,
                cwd=self.run,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def finish(self, **how: Any) -> int:
        """Run the script to its end; its exit code."""
        return self.start(**how).wait(timeout=60)

    def forget(self) -> None:
        """Take back what keeps the next start from being the same attempt once more."""
        for name in ("outcome.json", ".attempt"):
            (self.run / name).unlink(missing_ok=True)

    def log(self, job_id: int = 1) -> str:
        return (self.run / "logs" / f"job.{job_id}.log").read_text(encoding="utf-8")

    def outcome(self) -> dict[str, Any]:
        return _object(self.run / "outcome.json")

    def started(self) -> dict[str, Any]:
        return _object(self.run / "started.json")

    def seen(self, rank: int = 0) -> dict[str, Any]:
        """What the probe of a rank wrote."""
        return _object(self.run / f"seen-{rank}.json")


def _object(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def wait_for(condition: Callable[[], object], process: subprocess.Popen[Any]) -> None:
    """Until a condition holds; fails once the process has ended without it."""
    while not condition():
        try:
            code = process.wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            continue
        assert condition(), f"the job ended with {code} first"


def tree(root: Path, number: int = 0) -> Path:
    """A folder of all that may lie in one; `number` changes what must not matter."""
    names = ["b/deep/file", "a", "é", "-rf"]
    for name in reversed(names) if number else names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}\n" * 50, encoding="utf-8")
        os.utime(path, (number, number))
        path.chmod(0o444 if number else 0o640)
    (root / "run").write_bytes(b"#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "empty").mkdir()
    (root / "out").symlink_to("/usr/bin/env")
    (root / "dangling").symlink_to("nowhere")
    (root / "b" / "back").symlink_to(root / "a")
    return root


#: An artifact that a program of one line can write.
ARTIFACT = {"path": "result.json", "require": {"loss": {"lt": 4}}}


def shell(line: str) -> dict[str, object]:
    """The part of a spec that runs a line of bash."""
    return {"shell": line}


def in_their_places(made: Job, nodes: int, ranks_per_node: int, threads: int) -> None:
    """Every rank has the names of its own place, and all the same meeting point, when the job has finished."""
    started, ranks = made.started(), nodes * ranks_per_node
    for rank in range(ranks):
        seen = made.seen(rank)["env"]
        expected = {
            "RANK": rank,
            "LOCAL_RANK": rank % ranks_per_node,
            "NODE_RANK": rank // ranks_per_node,
            "WORLD_SIZE": ranks,
            "LOCAL_WORLD_SIZE": ranks_per_node,
            "MASTER_ADDR": started["master_addr"],
            "MASTER_PORT": started["master_port"],
            "OMP_NUM_THREADS": threads,
        }
        assert {name: seen.get(name) for name in expected} == {name: str(value) for name, value in expected.items()}


def sealed_environment(folder: Path) -> Path:
    """A sealed environment in `folder` whose Python is this one; its file."""
    tree = folder.parent / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin" / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    (tree / "bin" / "python").chmod(0o755)
    (tree / "data").write_text("of the environment\n", encoding="utf-8")
    folder.mkdir(parents=True)
    file = folder / "environment.sqsh"
    squash(str(tree), str(file), "zstd")
    facts = {"file": file.name, "bytes": file.stat().st_size, "unpacked": 4096, "files": 2}
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    record = {"digest": digest, "python": {"path": sys.executable}, "sealed": {**facts, "sha256": digest}}
    (folder / "env.json").write_text(json.dumps(record), encoding="utf-8")
    return file
