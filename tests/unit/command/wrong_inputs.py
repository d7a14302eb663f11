# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people type that is wrong, and what the answer must contain: the option, the value, what is allowed, what to do.

`typed` is a command line of `rankzero`. `job` is the text of jobs/tiny.yml, `script` is line 3 of jobs/train.sh.
`code` is the exit code: 64 for the command line, 2 for a request that is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

RUN = "run jobs/tiny.yml"
PLAN = "plan jobs/tiny.yml"
HEAD = "name: tiny\ncommand: [train.py]\n"


@dataclass(frozen=True)
class Wrong:
    """One row of the table."""

    typed: str
    facts: tuple[str, ...]
    job: str = ""
    code: int = 2
    script: str = ""


def words(typed: str, *facts: str) -> Wrong:
    """A wrong command line, which is refused before anything is started."""
    return Wrong(typed, facts, code=64)


def line(text: str, *facts: str) -> Wrong:
    """A wrong third line of the job file."""
    return Wrong(PLAN, facts, HEAD + text + "\n")


def asked(typed: str, *facts: str) -> Wrong:
    """A command line that is well formed, and asks for what cannot be."""
    return Wrong(typed, facts, HEAD)


WRONG = [
    # The command line.
    words(f"{RUN} --lr 0.1", "'--lr'", "after `--`", "rankzero run jobs/tiny.yml -- --lr 0.1"),
    words(f"{RUN} -n 2 --steps=100 -d", "'--steps=100'", "rankzero run jobs/tiny.yml -n 2 -d -- --steps=100"),
    words(f"{RUN} steps=100", "'steps=100'", "after `--`", "rankzero run jobs/tiny.yml -- steps=100"),
    words(f"{RUN} --nodse 4", "'--nodse'", "did you mean --nodes?"),
    words(f"{RUN} --gpus 8", "'--gpus'", "did you mean --gpus-per-node?"),
    words(f"{RUN} --nproc-per-node 8", "'--nproc-per-node'", "did you mean --ranks-per-node?"),
    words(f"{RUN} --mem 64G", "'--mem'", "did you mean --memory?"),
    words(f"{RUN} --queue gpu", "'--queue'", "did you mean --partition?"),
    words(f"{RUN} -N 4", "'-N'", "did you mean -n?"),
    words(f"{RUN} --dry-run", "'--dry-run'", "did you mean --check?"),
    words(f"{RUN} --gres gpu:8", "'--gres'", "did you mean -s resources.gres=...?"),
    words(f"{RUN} -p gpu", "'-p'", "did you mean --partition?"),
    words(f"{RUN} --debug yes", "--debug takes no value, omit 'yes'"),
    words(f"{RUN} --exclusive false", "--exclusive takes no value, omit 'false' and --exclusive"),
    words(f"{RUN} --first alpha, beta", "a list has no blanks, write alpha,beta"),
    words(f"{RUN} --set resources.nodes: 4", "write --set resources.nodes=4"),
    words(f"{RUN} jobs/other.yml", "run takes one job, several go with pipeline or reconcile"),
    words(f"{PLAN} -n 4 -s resources.nodes=8", "-n 4 and -s resources.nodes=8", "omit one"),
    words(f"{PLAN} --detach", "plan submits nothing, run takes --detach"),
    words("plan -- sbatch", "sbatch has no script", "-- sbatch --nodes=2 train.sh"),
    words("plan -- torchrun train.py", "not of torchrun", "a command line of sbatch"),
    words("--json ls", "'--json' stands before the verb", "rankzero ls --json"),
    words("-c alpha ls --all", "'-c' stands before the verb", "rankzero ls -c alpha --all"),
    words("cancel 1234 1235", "'1235'", "one launch at a time"),
    words("ls tiny/0123456789abcdef/0", "names no launch", "NAME/KEY/GENERATION"),
    words("help", "did you mean --help?"),
    words("rm tiny", "did you mean cancel?"),
    words("down tiny", "did you mean cancel?"),
    words("scontrol show job 1234", "did you mean why? rankzero why 1234;"),
    # What another tool calls so is no argument of the program: no such line is offered.
    words(f"{PLAN} -j 2x8", "'-j' is not expected; did you mean --nodes 2 --ranks-per-node 8?; see"),
    words(f"{PLAN} -j 2", "'-j' is not expected; did you mean --nodes?; see"),
    words(f"{PLAN} --nnodes 2 --nproc_per_node 8", "did you mean --nodes?; --nproc_per_node is --ranks-per-node here;"),
    words(f"{PLAN} --env LR=0.1", "'--env' is not expected; did you mean -s env.LR=0.1?; see"),
    words("run -s slurm dist.ddp -j 2x8 --script train.py", "dist.ddp is a component of torchx, and run takes a job"),
    asked("run dist.ddp -- --script train.py", "dist.ddp is a component of torchx", "launcher: {kind: torchrun}"),
    asked("run nosuch.yml", "a job is a YAML file or a batch script, and `rankzero init` writes one"),
    words("exec mycluster train.py", "'exec' is not a verb; rankzero run JOB --inside-job JOBID", "rankzero shell JOB"),
    words("logs tiny 3", "'3' is not expected: logs brings the logs of all ranks", "rank-0003.log for rank 3"),
    words("logs tiny rank0-3", "'rank0-3'", "of all ranks, each in a file of its own"),
    words("logs tiny --rank 3", "'--rank'", "of all ranks, each in a file of its own"),
    words("experiment cancel tiny", "did you mean rankzero cancel tiny?"),
    words("runopts", "did you mean spec?"),
    words("retry tiny", "did you mean run?", "a job file"),
    words("pull", "the following arguments are required: LAUNCH;"),
    words("status", "'status'", "did you mean ls?", "verbs: init, plan"),
    words("submit jobs/tiny.yml", "'submit'", "did you mean run?", "verbs:"),
    words("sbatch train.sh", "'sbatch'", "did you mean run?", "rankzero run -- sbatch train.sh"),
    words("srun python train.py", "'srun'", "did you mean run?"),
    words("stop tiny", "'stop'", "did you mean cancel?"),
    words("scancel 1234", "'scancel'", "did you mean cancel?"),
    words("queue", "'queue'", "did you mean ls?"),
    words("squeue", "'squeue'", "did you mean ls?"),
    words("cancel-all", "'cancel-all'", "did you mean cancel?"),
    words("launch jobs/tiny.yml", "'launch'", "did you mean run?"),
    words("rnu jobs/tiny.yml", "'rnu'", "did you mean run?"),
    words("jobs/tiny.yml", "'jobs/tiny.yml'", "rankzero run jobs/tiny.yml"),
    words("run", "JOB is missing", "a job file"),
    asked("run train.py", "train.py", "a Python program", "rankzero init", "command: [train.py]"),
    words("attach tiny --timeout 5m", "--timeout", "'5m'", "whole number of seconds", "300"),
    words("compare tiny --partition batch", "'--partition'", "rankzero compare --help"),
    words("ls tiny/xyz", "'tiny/xyz'", "NAME/KEY"),
    words(f"{RUN} -s command=[train.py,--lr]", "--set command=[train.py,--lr]", "quote", '["train.py", "--lr"]'),
    words(f"{RUN} -s nodes", "--set nodes", "KEY=VALUE"),
    words("ls -- --lr", "arguments of a program", "--"),
    # The job file: tests/unit/jobs/test_wrong_inputs.py has the table. These show the way of an answer to the screen.
    line("nodes: 4", "jobs/tiny.yml:3", "nodes: unknown key", "resources: {nodes: 4}"),
    line("code: {src: .}", "code.src", "train.py", "../train.py", "src: .."),
    Wrong(PLAN, ("jobs/tiny.yml:3", "indent with spaces"), HEAD + "\tresources: 1\n"),
    # A batch script with an option that sbatch does not have.
    Wrong("plan jobs/train.sh", ("jobs/train.sh:3", "--gpuz", "did you mean --gpus?"), script="#SBATCH --gpuz=4"),
    Wrong("plan jobs/train.sh", ("jobs/train.sh:3", "--nodez", "did you mean --nodes?"), script="#SBATCH --nodez 2"),
    Wrong("plan jobs/train.sh", ("train.sh:3", "'64GiB'; write 64G"), script="#SBATCH --mem=64GiB"),
    Wrong("plan jobs/train.sh", ("train.sh:3", "did you mean --time?"), script="#SBATCH --walltime=60"),
    Wrong("plan jobs/train.sh", ("line 3", "#PBS -q gpu:", "#SBATCH --partition=gpu"), script="#PBS -q gpu"),
    asked("plan -- sbatch --tmp=10GiB jobs/train.sh", "resources.sbatch.tmp", "such as 64G, not '10GiB'; write 10G"),
    Wrong("plan jobs/train.sh", ("line 3", "--time: 2h", "write 02:00:00"), script="#SBATCH --time=2h"),
    asked("plan -- sbatch --nodez train.sh", "--nodez", "did you mean --nodes?", "train.sh was taken for its value"),
    # What is asked for.
    asked("run jobs", "jobs", "is a folder", "tiny.yml", "reconcile"),
    asked("run jobs/tinny.yml", "jobs/tinny.yml", "did you mean jobs/tiny.yml?"),
    asked(f"{PLAN} -c alhpa", "cluster", "'alhpa'", "did you mean alpha?"),
    asked("why tinny", "tinny", "did you mean tiny?"),
    asked("why latest", "latest", "did you mean last?", "newest first: tiny"),
    asked("logs tiny/0123456789abcdef", "keys of tiny, newest first: 0000000000000000"),
    asked("logs tiny/0000000000000000/7", "generations of tiny/0000000000000000, newest first: 1"),
    asked("logs slurm-1234.out", "did you mean 1234?"),
    Wrong(f"{PLAN} -i jobs/tiny.yml", ("-i jobs/tiny.yml: is a job file", "login nodes"), HEAD, code=64),
    asked("plan tiny", "did you mean jobs/tiny.yml?"),
    asked("reconcile jobs/tiny.yml", "jobs/tiny.yml", "folder"),
    asked(f"{PLAN} -e nodse=4", "nodse", "did you mean nodes?"),
    asked(f"{PLAN} -s resource.nodes=4", "resource.nodes", "did you mean resources.nodes?"),
]
