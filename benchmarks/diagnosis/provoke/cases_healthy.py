# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that succeeded although their logs are full of alarming words."""

from __future__ import annotations

from benchmarks.diagnosis.provoke.case import HEALTHY, Case, trainer

_RETRIES = """for attempt in range(3):
    try:
        open("/shared/data/not-yet-there.json")
    except OSError as error:
        import traceback
        traceback.print_exc()
        print(f"attempt {attempt + 1} of 3 failed: {error!r}; retrying in 0 s", file=sys.stderr, flush=True)
"""
_WARNINGS = """import logging, warnings
logging.basicConfig(level=logging.INFO)
warnings.warn("CUDA initialization: no NVIDIA driver found; falling back to the CPU")
logging.warning("checkpoint directory not found: starting from scratch (this is not an error)")
logging.getLogger("loader").error("3 of 20000 samples could not be decoded and were skipped")
print("WARNING: --oom-score-adj, --nan-check and --error-if-nonfinite are set to their defaults", flush=True)
print({"max_errors": 10, "timeout_seconds": 600, "on_oom": "raise", "killed_ranks": 0}, flush=True)
"""

# A table: one case per row, with its program.
# fmt: off
CASES = (
    Case("healthy-plain", HEALTHY, "", trainer(steps=20), "torchrun", nodes=2),
    Case("healthy-retries", HEALTHY, "", trainer(setup=_RETRIES, steps=30), "label", nodes=2, ranks=1),
    Case("healthy-warnings", HEALTHY, "", trainer(setup=_WARNINGS, steps=20), "torchrun"),
    Case("healthy-no-destroy", HEALTHY, "", trainer(steps=20, after="print('training done', flush=True)\nreturn"), "torchrun", nodes=2, ranks=1),
    Case("healthy-atexit", HEALTHY, "", trainer(
            steps=20, after="import atexit\natexit.register(lambda: 1 / 0)\nclass Loader:\n    def __del__(self):\n        raise ConnectionResetError('peer is gone')\nloader = Loader()"), "srun"),
    Case("healthy-debug", HEALTHY, "", trainer(steps=12), "label", nodes=2, ranks=1, env={"TORCH_CPP_LOG_LEVEL": "INFO"}),
    Case("healthy-pip", HEALTHY, "", "/usr/bin/python3 -m venv venv\nvenv/bin/pip install --retries 0 --timeout 1 tqdm || echo 'tqdm is optional: going on without'\nfor n in 1 2 3 4 5 6 7 8 9 10; do echo \"step $n/10 loss 0.$((100 - n))\"; done\necho 'training finished'\n",
         "batch"),
    Case("healthy-nan-skipped", HEALTHY, "", trainer(
            "if step == 5:\n    print('WARNING: found NaN in the gradient of rank 0, skipping this step', flush=True)\nif step == 9:\n    print('UserWarning: loss is nan for 1 of 8 micro batches; skipped', flush=True)", steps=25), "label"),
    Case("healthy-killed-helper", HEALTHY, "", "sleep 100 & helper=$!\nsrun --ntasks-per-node=2 bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS; exec $PYTHON start.py'\nkill -9 $helper\nwait $helper\necho done\n",
         "batch", files={"start.py": trainer(steps=15)}),
    Case("healthy-second-try", HEALTHY, "", "echo '[rankzero] job 7 attempt 0 on node01; master node01:20000'\nsrun -n 1 $PYTHON -c 'raise RuntimeError(\"the store is not there yet\")'\necho '[rankzero] job 7 attempt 1 on node01; master node01:20000'\n"
         "srun --ntasks-per-node=2 bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS; exec $PYTHON start.py'\n", "batch", files={"start.py": trainer(steps=15)}),
    Case("healthy-probe", HEALTHY, "", "nvidia-smi || echo 'no GPU here, using the CPU'\nmodule load gcc 2>/dev/null || true\nls /shared/old-checkpoints || true\nsrun --label --ntasks-per-node=2 bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS; exec $PYTHON start.py'\n",
         "batch", files={"start.py": trainer(steps=15)}),
)
