# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's shared memory segment could not be created: /dev/shm is too small."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    RAISED,
    Signature,
    raises,
    says,
)

_OPEN_FILES = (
    "Raise the number of files that a process may open (`ulimit -n` in `setup.commands`), or use fewer data loader "
    "workers or `torch.multiprocessing.set_sharing_strategy('file_system')`."
)
_THREADS = (
    "The user or the job may not start more processes or threads on that node: fewer data loader workers, "
    "`env.OMP_NUM_THREADS: 1`, or a higher limit (`ulimit -u`)."
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
        raises(
            "received 0 items of ancdata|Too many open files",
            strength=RAISED,
            remedy=_OPEN_FILES,
            what="a process has too many open files",
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
        raises(r"\[Errno 24\]", strength=RAISED + 2, remedy=_OPEN_FILES, what="a process has too many open files"),
        raises(
            r"\[Errno 11\] Resource temporarily unavailable|can't start new thread|"
            r"pthread_create failed|Resource temporarily unavailable$",
            strength=RAISED + 2,
            remedy=_THREADS,
            what="no further process or thread may start on the node",
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
        "RuntimeError: can't start new thread",
    ),
)
