# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Permission to read, write or execute something is missing."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    WEAK,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="permission_denied",
    what="permission is denied: {path}",
    remedy=(
        "Write below a folder of yours: `checkpoint.dir`, `env.HF_HOME`, `env.TMPDIR`; a container sees "
        "what `container.mounts` says, read-only where it says `ro`."
    ),
    look=(
        "Compare the owner and the mode of that path with the user of the job on that node, also inside the container."
    ),
    matches=(
        raises(
            r"PermissionError\b(?!.*(?:[Aa]uthentication|[Cc]redential|overwrite itself)).*?(?:'(?P<path>[^']+)')?$|"
            r"\[Errno 13\]|\[Errno 30\] Read-only file system|"
            r"[Rr]ead-only file system|[Pp]ermission denied \(os error|strerror: Permission denied|"
            r"\[Errno 1\] Operation not permitted|PermissionDeniedError"
        ),
        says(
            r"^(?:\S+: (?:line \d+: )?)*(?:error: )?(?:execve\(\): )?(?P<path>/\S+|\./\S+): [Pp]ermission denied$|"
            "(?:bash|sh|mkdir|cp|mv|tee|touch|rm|ln|tar|install): .*(?:[Pp]ermission denied|Read-only file system)",
            "ermission denied",
            "Read-only file system",
            strength=WEAK + 2,
        ),
        raises(
            r"(?:[Dd]ir(?:ectory)?\b|[Ff]older|[Pp]ath|[Ff]ile|/\S).* (?:is )?not writ(?:e)?able\b|"
            r"[Nn]o write permission|not have (?:write )?permission to (?:write|access)"
        ),
    ),
    examples=(
        "job.sh: line 12: ./build/fit: Permission denied",
        "PermissionError: [Errno 13] Permission denied: '/results/run1'",
        "OSError: [Errno 30] Read-only file system: '/x'",
    ),
)
