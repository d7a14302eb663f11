# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script that runs the program failed, before the program started or instead of it."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.phrases import NOT_ACTIVATED
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    WEAK,
    Signature,
    says,
)

SIGNATURE = Signature(
    family="script_error",
    what="the batch script itself failed",
    remedy=(
        "A command that is not found needs `setup.modules` or `setup.commands`; `\\r` in a message means "
        "Windows line ends: convert the file (`sed -i 's/\\r$//'`)."
    ),
    look="Read that line of the script: is the command meant to be there, and does anything later depend on it?",
    matches=(
        says(
            "^error: Failed to spawn: `(?P<command>[^`]+)`",
            "Failed to spawn",
            strength=CAUSE + 1,
            what="uv could not start {command}",
            remedy=(
                "The line `Caused by` says why. A program that it does not find: add the package that brings it to "
                "`environment.project`, or name a file of the code with its folder and make it executable."
            ),
        ),
        says(
            r": (?:line \d+: )?(?P<command>[^:\s]+): command not found|"
            r"syntax error(?: near unexpected token .{1,80}$|: unexpected end of file)|"
            r"unexpected EOF while looking for|CommandNotFoundError: |"
            r"executable file not found in|\$'\\r'|bad interpreter|"
            "Lmod has detected the following error|Unable to locate a modulefile|exec format error|"
            r"execve\(\): [^/\s]+: No such file|"
            "Exec format error|env: .*: No such file or directory|"
            "CondaError(?!.*conda deactivate)|"
            ": [Nn]ot a valid identifier|"
            "(?:Kommando|Befehl) nicht gefunden|commande introuvable|orden no encontrada|未找到命令|"
            "コマンドが見つかりません",
            "command not found",
            "syntax error",
            "unexpected EOF while",
            "bad interpreter",
            "Lmod has detected",
            "locate a modulefile",
            "xec format error",
            "/env: ",
            "execve()",
            "CondaError",
            "CommandNotFoundError",
            "executable file not found",
            "valid identifier",
            " nicht gefunden",
            "commande introuvable",
            "orden no encontrada",
            "未找到命令",
            "コマンドが見つかりません",
            strength=WEAK + 3,
        ),
        says(
            r": (?:line \d+: )?(?:module|ml): command not found",
            "command not found",
            strength=WEAK + 4,
            what="the command module is missing in the job",
            remedy=(
                "A job runs no login shell, whose profile may define it. `setup.modules` loads modules and reads "
                "/etc/profile first; elsewhere, put the site's `source /PATH/init/bash` into `setup.commands`."
            ),
        ),
        says(
            r"\brank\.sh: line \d+: (?:exec: )?(?P<command>[^:]+): (?:not found|No such file or directory)",
            "rank.sh: line",
            strength=WEAK + 5,
            what="the program of the ranks was not found: {command}",
            remedy=(
                "A file of the code is named with its folder (`./work.sh` in `command`) and must be executable; a "
                "program of the environment must be in its bin folder; others need an absolute path or `setup.modules`."
            ),
        ),
        says(
            NOT_ACTIVATED,
            "/activate: No such",
            "EnvironmentNameNotFound",
            "conda environment",
            strength=WEAK + 4,
            what="the environment of the program was not activated",
            remedy=(
                "It does not exist on that node, or has another name: `environment.project` builds one before the job, "
                "and `command` runs in it."
            ),
        ),
        says(
            r": (?:line \d+: )?uv: command not found|execve\(\): uv: No such file",
            "uv: command not found",
            "execve(): uv",
            strength=WEAK + 4,
            remedy=(
                "The ranks need no uv: name the project in `environment.project`. The environment is built once, "
                "before the job, and `command` runs in it."
            ),
        ),
    ),
    examples=(
        "error: Failed to spawn: `torchrun`",
        "job.sh: line 8: /env/bin/activate: No such file or directory",
        "EnvironmentNameNotFound: Could not find conda environment: lamps",
        "slurm_script: line 98: syntax error: unexpected end of file",
        "job.sh: ligne 14: torchrun : commande introuvable",
        "run.sh: line 3: nvidia-smi: command not found",
        "/var/spool/slurmd/job7/slurm_script: line 3: module: command not found",
        "/shared/state/runtime/0a1b/rank/rank.sh: line 108: exec: work.sh: not found",
        "run.sh: line 9: syntax error near unexpected token `fi'",
        "/bin/bash^M: bad interpreter: No such file or directory",
    ),
)
