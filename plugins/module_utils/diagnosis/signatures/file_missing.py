# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file or folder is missing, or missing on some nodes."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    WEAK,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="file_missing",
    what="a file is missing: {path}",
    remedy=(
        "If it exists on the node where you look, it is not on a shared file system: put data and caches "
        "on one (`env.HF_HOME`, `data`, `container.mounts`), or stage it (`data`). Else correct the path "
        "in `command`."
    ),
    look=(
        "See whether the path exists on the node of that rank (`ls` in a job there), and whether something "
        "else should have written it before."
    ),
    matches=(
        raises(
            r"FileNotFoundError\b.*?(?:'(?P<path>[^']+)')?$|"
            r"\[Errno 2\] No such file or directory: ?'?(?P<file>[^']*)",
            strength=CAUSE - 1,
        ),
        raises(
            "does not appear to have a file named|[Nn]o file named|Repo id must be in the form|"
            "Incorrect path_or_model_id|"
            "Can't load (?:the )?(?:tokenizer|config|model)|DatasetNotFoundError|NotADirectoryError|"
            "(?:not found|does not exist|doesn't exist|[Nn]o such file)(?:[.:,!]| at | in |$)|"
            "Could not (?:find|open) .*(?:file|director|path|checkpoint)|EntryNotFound|"
            "LocalEntryNotFoundError(?!.*onnect)",
            strength=CAUSE - 2,
        ),
        says(
            r"can't open file '(?P<path>[^']+)': \[Errno 2\]|^(?:slurmstepd(?:-[\w.-]+)?|"
            r"srun): error: execve\(\): (?P<file>\S*/\S*): No such file|couldn't chdir to `?(?P<folder>[^':]+)",
            "can't open file",
            "execve()",
            "couldn't chdir",
        ),
        says(
            r"^\s*\(\d+\) (?:Not found|NOT_FOUND): +(?P<path>[^;]+); No such file",
            "; No such file or directory",
            strength=CAUSE - 1,
        ),
        says(
            r": line \d+: (?:cd: )?(?P<path>\S+): No such file or directory|^(?:bash|sh|cat|source|"
            r"ls): (?P<file>\S+): No such file",
            "No such file or directory",
            strength=WEAK,
        ),
        raises(
            r"[Cc]an't find (?:a valid checkpoint|'?\S+\.(?:json|safetensors|bin|pt|index|yaml|txt|"
            r"model)'?)|[Nn]o valid checkpoint found|"
            r"[Uu]nable to (?:load vocabulary|find|locate|open file)|Error opening '?/|Not found: \"|"
            r"NotFoundError: .*; No such file|"
            r"!_?src\.empty\(\)|[Nn]o files? (?:matching|found)|[Cc]annot find (?:file|path|dir|"
            r"the (?:file|path|dir))|"
            r"[Ff]ailed to open (?:file )?'?\"?/|is not a (?:valid )?(?:directory|file|path)\b|"
            r"(?:[Dd]irectory|[Ff]older|[Pp]ath|[Ff]ile)\b.*(?:not (?:found|exist)|missing)|"
            r"[Nn]o such file or directory",
            strength=CAUSE - 2,
        ),
        says(
            r"^(?:cp|mv|tar|cat|ls|head|tail|rsync|source|unzip|gzip|wget|sed|awk|chmod|rm|find|"
            r"ln): .*(?:No such file or directory)|"
            r"^Error: .*\b(?:does not exist|not found)\b",
            "No such file or directory",
            "does not exist",
            strength=WEAK,
        ),
        raises(r"Error opening '[^']+\.\w{2,4}'", strength=CAUSE - 2),
    ),
    examples=(
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/x.npy'",
        "OSError: /models/a does not appear to have a file named config.json.",
        "python: can't open file '/home/me/train.py': [Errno 2] No such file or directory",
    ),
)
