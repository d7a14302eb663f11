# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared memory, of NCCL or of data loader workers: /dev/shm is too small."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    RAISED,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="nccl_shm",
    what="/dev/shm is full or too small",
    remedy=(
        "Give the ranks shared memory: mount the host's /dev/shm (`container.mounts`), or fewer data loader workers."
    ),
    look="Look at `df -h /dev/shm` on that node while the job runs, also inside the container.",
    matches=(
        says(
            # A GPU has a shared memory of its own.
            "^(?!.*(?:GPU|device limit|[Hh]ardware limit)).*(?:"
            "posix_fallocate failed|Error while creating shared memory segment|unable to (?:open|mmap|"
            "allocate) shared memory|insufficient shared memory|/dev/shm.*No space left|"
            r"[Nn]o space left on device.*shm|Bus error.*shared memory|torch_\d+_\d+.*No space left|"
            "[Ss]hared memory .*(?:is full|limit|too small))",
            "posix_fallocate failed",
            "shared memory",
            "/dev/shm",
            "No space left",
            "torch_",
            strength=CAUSE + 2,
        ),
        raises(r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) is killed by signal: Bus error", strength=CAUSE - 3),
        # More than what the frames of a data loader prove.
        raises(
            r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) exited unexpectedly",
            strength=RAISED + 2,
            what="a data loader worker ended unexpectedly",
            remedy=(
                "Look for its own last words above: a crash, an exception, a kill. With `num_workers=0` in the program "
                "the same failure shows its line. `df -h /dev/shm` on that node tells whether shared memory is short."
            ),
        ),
        raises("unable to (?:mmap|write to file|resize file) .*</?torch_", strength=CAUSE + 2),
        raises(
            r"unable to mmap \d+ bytes(?!.*</?torch_)",
            strength=CAUSE + 2,
            what="a file could not be mapped into memory",
            remedy=(
                "Map less at once, or give the job more memory a node (`resources.memory`; 0 is all of it); a limit on "
                "the address space (`ulimit -v`) refuses as well."
            ),
        ),
    ),
    examples=(
        (
            "RuntimeError: DataLoader worker (pid 42) is killed by signal: Bus error. It is possible that da"
            "taloader's workers are out of shared memory. Please try to raise your shared memory limit."
        ),
        "n1:1:2 [0] misc/shmutils.cc:72 NCCL WARN Call to posix_fallocate failed : No space left on device",
        "RuntimeError: unable to open shared memory object </torch_42_1_0> in read-write mode",
        "RuntimeError: DataLoader worker (pid(s) 42) exited unexpectedly",
        "RuntimeError: unable to mmap 4242 bytes from file </data/x.bin>: Cannot allocate memory (12)",
    ),
)
