# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init --from SCRIPT --compare`: the script by plain sbatch and its job on the cluster, and what differs.

Both run with stand-ins for srun, launchers, apptainer and Python (sbatch/stand_in.py), which note how they are called.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import shutil
import tempfile
import uuid
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from rankzero import errors
from rankzero.playbook import Call as Playbook
from rankzero.playbook import Played, play
from rankzero.sbatch import options as collection
from rankzero.sbatch.calls import Call, added, calls, differences, of_ranks
from rankzero.sbatch.convert import submitted_from
from rankzero.sbatch.declared import STARTERS
from rankzero.sbatch.launcher_words import APPTAINERS
from rankzero.sbatch.secret_words import is_secret_name
from rankzero.verbs import extra_variables, inventory_of, job_file

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sbatch")
#: The programs for which there is a stand-in.
PROGRAMS = ("srun", "torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "python", "python3", *APPTAINERS)
#: What starts programs in a container beside srun (of pyxis) and apptainer, whose stand-ins mount themselves there.
CONTAINER = re.compile(r"\b(?:podman|docker|enroot|shifter)\b")
#: How long each of the two jobs may take, beside its wait in the queue.
MINUTES = 10


def plan(given: Namespace, path: str) -> list[str]:
    """What a comparison runs, as lines. path: the job file. Raises RankzeroError for a script that is not compared."""
    job = job_file(path)
    problem = _problem(given, job, path)
    if problem:
        raise errors.RankzeroError(f"--compare: {given.script} is not compared: {problem}; {path} is written")
    nodes = (job.get("resources") or {}).get("nodes") or _nodes(given.script)
    where = given.cluster or "the cluster of the inventory"
    return [
        f"compare: on {where}, one after the other, {nodes} {'node' if nodes == '1' else 'nodes'} each:",
        f"  rankzero run {path}    as the launch {_name(job)}",
        f"  sbatch {shlex.join([_word(given.script), *given.arguments_of_script])}    in a copy of its folder",
        f"  each for at most {MINUTES} minutes. {', '.join(PROGRAMS)} are stand-ins that note how they are called;",
        "  other lines of the script run",
    ]


def compare(given: Namespace, path: str) -> tuple[list[str], int]:
    """(what differs, as lines; exit code) of a script and its job. Raises RankzeroError."""
    job = job_file(path)
    with tempfile.TemporaryDirectory(prefix="rankzero-compare-") as place:
        # Its folder on the cluster has this name.
        tools = os.path.join(place, uuid.uuid4().hex)
        _stand_ins(tools, given)
        # One file: Ansible sends each by itself.
        sent = shutil.make_archive(tools, "tar", tools)
        setup = (job.get("setup") or {}).get("commands")
        variables = {
            "job": path, "stand_ins": sent, "script": _word(given.script), "minutes": MINUTES,
            "script_arguments": list(given.arguments_of_script), "compared_as": _name(job), "dest": place,
            **({"setup": list(setup)} if setup else {}), **({"cluster": given.cluster} if given.cluster else {}),
            **({"mounts": list(job["container"].get("mounts") or [])} if "container" in job else {}),
        }  # fmt: skip
        typed = extra_variables(given.extra_vars)
        played = _played(given, variables, typed)
        code = played.exit_code()
        if code == errors.INTERRUPTED:
            print("compare: interrupted; both jobs are ended", flush=True)
            stopped = _played(given, {**variables, "stop": True}, typed).error()
            left = f"; what is left on the cluster: {stopped}" if stopped else ""
            raise errors.RankzeroError(f"--compare: interrupted, nothing is compared{left}", code)
        if code:
            raise errors.RankzeroError(f"--compare: nothing is compared: {played.error()}", code)
        return _compared(played, job, given.script)


def _played(given: Namespace, variables: Mapping[str, Any], typed: Mapping[str, str]) -> Played:
    call = Playbook("both_ways", variables, typed, (), inventory_of(given.inventory))
    return play(call, verbose=given.verbose)


def _compared(played: Played, job: Mapping[str, Any], path: str) -> tuple[list[str], int]:
    """path: the script."""
    (pulled,) = played.results("job_pull")[-1:]
    folder, run_dir = os.path.join(str(pulled["dest"]), "rankzero-calls"), str(pulled["run_dir"])
    with open(os.path.join(folder, "by-hand", "job"), encoding="utf-8") as stream:
        plain = json.load(stream)
    with open(path, encoding="utf-8") as stream:
        script = stream.read()
    number = str(plain["job_id"])
    spool = f"/var/spool/slurmd/job{number.zfill(5)}"
    by_hand = calls(
        _notes(folder, "by-hand"), {spool: "SPOOL", plain["folder"]: "FOLDER", number: "JOB"}, script=script
    )
    names = {f"{run_dir}/work": "FOLDER", run_dir: "SPOOL", str(pulled["job_id"]): "JOB"}
    launched = calls(_notes(folder, "launched"), names, script=script)
    lines = []
    if "script" not in job:
        by_hand, launched = of_ranks(by_hand), of_ranks(launched)
        further, launched = added(by_hand, launched)
        lines += [f"compare: the launch also sets {', '.join(further)}"] if further else []
    if not by_hand and not launched:
        raise errors.RankzeroError(
            "--compare: nothing is compared: no program was called, neither by sbatch nor by the job"
        )
    wrong = differences(by_hand, launched)
    if plain["exit_code"]:
        wrong.append(f"exit code: sbatch {plain['exit_code']}; the job 0")
    if not wrong:
        return [*lines, f"compare: {_ranks(by_hand)}, no difference"], errors.OK
    return [
        *lines,
        f"compare: {len(wrong)} {'differences' if len(wrong) > 1 else 'difference'}:",
        *(f"  {line}" for line in wrong),
    ], errors.FAILED


def _ranks(noted: list[Call]) -> str:
    return f"{len(noted)} {'calls' if len(noted) > 1 else 'call'} of programs"


def _notes(folder: str, way: str) -> Iterator[str]:
    for path in glob.glob(os.path.join(glob.escape(os.path.join(folder, way)), "*.json")):
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            yield stream.read()


def _name(job: Mapping[str, Any]) -> str:
    """The name of the launch that is compared: another one, so that it stands for no result of the job."""
    return f"{str(job['name'])[:56]}-compare"


def _word(script: str) -> str:
    """A script as the command line of sbatch names it."""
    path = os.path.abspath(script)
    return os.path.relpath(path, submitted_from(path))


def _nodes(script: str) -> str:
    """The nodes that the header of a script asks for."""
    with open(script, encoding="utf-8") as stream:
        given = {name: value for _line, name, value in collection.header(stream.read())[0]}
    return given.get("nodes", "1")


def _problem(given: Namespace, job: Mapping[str, Any], path: str) -> str:
    """Why a script and its job are not compared; empty where they are."""
    with open(given.script, encoding="utf-8") as stream:
        script = stream.read()
    if "sweep" in job:
        return "its job is a sweep, and each of its elements is a launch; compare the script without --array"
    header = {name: value for _line, name, value in collection.header(script)[0]}
    if CONTAINER.search(script) or any(name.startswith("container-") for name in header):
        return "it runs in a container itself, or starts one without pyxis or apptainer, in which are no stand-ins"
    source = os.path.abspath(os.path.join(os.path.dirname(path), (job.get("code") or {}).get("src", "..")))
    if source != submitted_from(os.path.abspath(given.script)):
        return f"its program lies in {source}, and the script is submitted from another folder"
    if header.get("export", "ALL").partition(",")[0] != "ALL":
        return f"with --export={header['export'].partition(',')[0]} it does not get the PATH of the stand-ins"
    secret = next((pair.partition("=")[0] for pair in given.variables if is_secret_name(pair.partition("=")[0])), "")
    return f"--set {secret} is a secret, which would be written to the cluster" if secret else ""


def _stand_ins(tools: str, given: Namespace) -> None:
    """Lay out what is sent to the cluster."""
    os.makedirs(os.path.join(tools, "bin"))
    for name in ("stand_in.py", "secret_words.py", "launcher_words.py", "by_hand.sh"):
        shutil.copyfile(os.path.join(HERE, name), os.path.join(tools, name))
    shutil.copyfile(collection.reader.__file__, os.path.join(tools, "reader.py"))
    shutil.copyfile(given.script, os.path.join(tools, "script"))
    for name in PROGRAMS:
        shutil.copyfile(os.path.join(HERE, "bin.sh"), os.path.join(tools, "bin", name))
        os.chmod(os.path.join(tools, "bin", name), 0o755)  # it is executed
    with open(os.path.join(tools, "launchers.json"), "x", encoding="utf-8") as stream:
        json.dump(STARTERS, stream)
    with open(os.path.join(tools, "variables"), "x", encoding="utf-8") as stream:
        for pair in given.variables:
            name, _equals, value = pair.partition("=")
            stream.write(f"export {name}={shlex.quote(value)}\n")
