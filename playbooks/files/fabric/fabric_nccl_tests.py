# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""all_reduce_perf of nccl-tests: the command, in a step of its own inside the job, and what it prints."""

import os
import re
import subprocess

# GB/s of nccl-tests.
GIGA = 1e9
RANK = re.compile(r"^#\s+Rank\s+(\d+)\s")
FAILURE = re.compile(r"Test (?:NCCL|CUDA) failure|NCCL failure|ncclSystemError|ncclInternalError|error while loading")
# Of the job's own step these would bind the new one.
KEPT = ("SLURM_JOB_ID", "SLURM_CONF", "SLURM_CLUSTER_NAME")


def parse(text):
    """(rows of {size, seconds, bus, cut}, number of ranks, what is wrong or "") of its output.

    Columns: size, count, type, redop, (root), then time in us, algbw and busbw in GB/s and errors, out of place and in
    place. Older versions have no root, and an error (0e+00) in place of a number of wrong values.
    """
    rows, ranks, problem = [], set(), ""
    for line in text.splitlines():
        said = RANK.match(line)
        if said:
            ranks.add(int(said.group(1)))
        if not problem and FAILURE.search(line):
            problem = line.strip()
        words = line.split()
        if line.startswith("#") or len(words) < 12 or not words[0].isdecimal():
            continue
        try:
            took, _alg, speed = (float(word) for word in words[-8:-5])
        except ValueError:
            continue
        rows.append({"size": int(words[0]), "seconds": took / 1e6, "bus": speed * GIGA, "cut": False})
        wrong = words[-5]
        if wrong not in ("N/A", "nan") and float(wrong) > (0 if wrong.isdecimal() else 1e-2):
            problem = problem or f"wrong results at {words[0]} bytes: {wrong}"
    return rows, len(ranks), problem


def command(program, names, ranks_per_node, sizes, mpi):
    """A step on some nodes of the job, beside the one that asks for it."""
    factor = sizes[1] // sizes[0] if len(sizes) > 1 else 2
    return [
        "srun", "--overlap", f"--nodes={len(names)}", f"--nodelist={','.join(names)}",
        f"--ntasks={len(names) * ranks_per_node}", f"--ntasks-per-node={ranks_per_node}", f"--mpi={mpi}",
        "--cpu-bind=none", "--kill-on-bad-exit=1", program,
        "-b", str(sizes[0]), "-e", str(sizes[-1]), "-f", str(factor), "-g", "1",
    ]  # fmt: skip


def measure(plan, names, ranks_per_node, program, variables, seconds, log):
    """{rows, error} of one measurement, asked for by the first of its nodes. What it printed is kept in `log`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_") or name in KEPT}
    environment.update(variables)
    words = command(program, names, ranks_per_node, plan["sizes"], plan["mpi"])
    try:
        done = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=seconds, check=False,
        )  # fmt: skip
        text, late, code = done.stdout.decode("utf-8", "replace"), False, done.returncode
    except subprocess.TimeoutExpired as error:
        text, late, code = (error.stdout or b"").decode("utf-8", "replace"), True, 0
    except OSError as error:
        return {"rows": [], "error": f"srun: {error.strerror}"}
    with open(log, "w", encoding="utf-8") as stream:
        stream.write(text)
    return judged(text, code, late, len(names) * ranks_per_node, plan["sizes"], seconds)


def judged(text, code, late, wanted, sizes, seconds):
    """{rows, error} of what it printed, its exit code, and whether the time limit ended it."""
    rows, ranks, problem = parse(text)
    if rows and ranks != wanted:
        why = f"it ran with {ranks} of {wanted} ranks: was it built with MPI=1, and for srun's --mpi?"
        return {"rows": [], "error": why}
    left = [size for size in sizes if size > (rows[-1]["size"] if rows else 0)]
    if late and left:
        at_most = left[0] / seconds * 2 * (wanted - 1) / wanted
        rows.append({"size": left[0], "seconds": float(seconds), "bus": at_most, "cut": True})
    if code and not problem:
        said = [line for line in text.strip().splitlines() if not line.startswith("#")]
        problem = said[-1].strip() if said else f"it ended with {code}"
    return {"rows": rows, "error": problem}
