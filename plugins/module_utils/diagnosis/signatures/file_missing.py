# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file or folder is missing, or missing on some nodes."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    RAISED,
    WEAK,
    Signature,
    raises,
    says,
)

# What a message must name besides "not found": an option, a key or a class is no file.
_FILE = (
    r"(?:(?<![a-zA-Z])(?:[Ff]iles?(?:name)?|[Pp]aths?|[Dd]irs?|[Dd]irector(?:y|ies)|[Ff]olders?|DIR|PATH|"
    r"FILE)(?![a-zA-Z])|"
    r"(?<![\w<])(?:~|\.{1,2})?/[\w.~-]+/|"
    r"\w\.(?:json|jsonl|ya?ml|txt|csv|tsv|npy|npz|h5|hdf5|pt|pth|bin|ckpt|safetensors|model|parquet|pkl|idx|tar|zip|"
    r"gz|py|sqsh|sif|toml|cfg|ini|xml|wav|mp4|png|jpe?g|arrow|db|lmdb|tfrecords?)\b)"
)
_GONE = (
    r"(?:not (?:be )?(?:found|exists?)\b(?! in (?:(?:the )?\w*(?:tree|state_dict|metadata|registry|config\b|vocab|"
    r"map\b|dict)))|"
    r"n'?t exist\b|\bmissing\b(?! (?:\w+ )?(?:key|column|field|feature|attribute|argument|option|value|token)s?\b)|"
    r"[Nn]o such file)"
)
# A key, a column or a token that is sought in a file.
_LOOKED_UP = (
    r"(?:\b(?:[Kk]eys?|[Cc]olumns?|[Tt]okens?|[Pp]arameters?|[Aa]ttributes?|[Ff]ields?|[Oo]ption|[Cc]lass)\b.{0,60})"
)

_SOUGHT = r"\b(?:mapping|[Tt]oken|[Kk]ey|[Cc]lass|config for|data for)\b|in (?:the )?(?:checkpoint|state)"

SIGNATURE = Signature(
    family="file_missing",
    what="a file is missing: {path}",
    remedy=(
        "Correct the path in `command`, or look why an earlier step did not write the file. If it exists where you "
        "look, the nodes do not see it: put data and caches on a shared file system (`env.HF_HOME`, `data`, "
        "`container.mounts`), or stage it (`data`)."
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
        # PyTorch, as it saves.
        raises(
            r"[Pp]arent directory (?P<path>\S+) does not exist|File (?P<file>\S+) cannot be opened",
            frames=r"torch[\\/]serialization\.py\"[^\n]*, in (?:_?save|_open_zipfile_writer|__init__)\n",
            strength=CAUSE + 2,
            what="a file cannot be written: {path}",
            remedy=(
                "Let the program make the folder before it saves. If the folder is there: may this user write to it "
                "on that node, and has it space left?"
            ),
        ),
        raises(
            r"(?:FileNotFoundError\b|No such file or directory: ).*'(?P<path>[^']*\$\{?\w+[^']*)'",
            remedy="A variable in the path was not replaced: expand it in `command`, or write the path itself.",
        ),
        raises(
            r"NotADirectoryError\b.*?(?:'(?P<path>[^']+)')?$",
            strength=CAUSE - 1,
            what="a part of a path is a file, not a folder: {path}",
            remedy=(
                "Correct the path in `command`, or in the configuration that it reads: an archive or an .egg, for "
                "example, is no folder."
            ),
        ),
        raises(
            "does not appear to have a file named|[Nn]o file named|Repo id must be in the form|HFValidationError|"
            "Incorrect path_or_model_id|"
            "Can't load (?:the )?(?:tokenizer|config|model)|DatasetNotFoundError|"
            rf"^(?!.*{_LOOKED_UP}{_GONE}).*(?:{_FILE}.{{0,160}}?{_GONE}|{_GONE}.{{0,20}}?(?:[:,]| at| under|"
            rf" matching) *['\"`(]?{_FILE})|"
            rf"(?:[Cc]ould not|[Cc]annot|[Cc]an't|[Uu]nable to) (?:find|open|locate) (?!.*{_SOUGHT}).{{0,60}}{_FILE}|"
            "EntryNotFound|"
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
            r"[Uu]nable to (?:load vocabulary|open file(?! \((?:truncated|file signature|bad |unable to lock)))|"
            r"Error opening '?/|Not found: \"|"
            r"NotFoundError: .*; No such file|"
            r"!_?src\.empty\(\)|[Nn]o (?:[\w.*-]+ ){0,3}(?:files?|checkpoints?|images?|shards?|"
            r"weights) (?:were )?(?:matching|found|exist)|"
            r"[Ff]ail(?:ed)? to open (?:file )?'?\"?/|is not a (?:valid )?(?:directory|file|path)\b|"
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
        # What another program should have written, or an object that the program itself lacks.
        raises(
            r"^(?!.*(?:[Ee]nvironment variable|attribute|\(\) first|[Ss]ecret|[Rr]epository|namespace|`\w+=)).*"
            r"not (?:found|exist)\b[^.]{0,40}[.!:,]? *(?:Make sure|Did you|Have you|(?:Please )?(?:[Rr]un|"
            r"[Dd]ownload|[Gg]enerate|"
            r"[Cc]reate|[Pp]repare)\b)",
            strength=RAISED + 2,
        ),
        raises(r"Error opening '[^']+\.\w{2,4}'", strength=CAUSE - 2),
    ),
    examples=(
        "FileNotFoundError: [Errno 2] No such file or directory: '$DATA/x.npy'",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/x.npy'",
        "OSError: /models/a does not appear to have a file named config.json.",
        "python: can't open file '/home/me/train.py': [Errno 2] No such file or directory",
    ),
)
