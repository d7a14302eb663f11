# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for KempnerForge's scripts/train.py: rank 0 prints the losses, the link `latest` names the newest step."""

import sys
from pathlib import Path

import standing_in


def tracker(folder, step):
    latest = Path(folder) / "latest"
    if step is None:
        return int(latest.resolve().name.rpartition("_")[2]) if latest.exists() else 0
    (Path(folder) / f"step_{step}").mkdir(exist_ok=True)
    temporary = Path(folder) / "latest.tmp"
    temporary.symlink_to(f"step_{step}")
    return temporary.replace(latest)


if __name__ == "__main__":
    config, *given = sys.argv[1:]
    options = dict(word.removeprefix("--").split("=", 1) for word in given)
    assert Path(config).is_file()
    standing_in.train(
        options,
        int(options["train.max_steps"]),
        Path(options["checkpoint.dir"]),
        lambda step: f"[step {step}] loss: {9 / step:.4f} | tok/s: {1000 + step}",
        tracker,
        0,
    )
