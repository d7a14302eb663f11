# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A third batch, held out from the first two: runs that succeed despite alarming messages, and some that fail."""

from __future__ import annotations

from typing import Any

from benchmarks.diagnosis.provoke.case import HEALTHY, Case, trainer

_EXCEPTION = ("exception", "python_exception_other")
_TRAINER = """import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
model = LlamaForCausalLM(LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2))
rows = [{"input_ids": torch.arange(8) % 32, "labels": torch.arange(8) % 32} for _ in range(64)]
arguments = TrainingArguments("out", max_steps=20, logging_steps=1, save_steps=1000, report_to=[], use_cpu=True)
Trainer(model, arguments, train_dataset=rows).train()
"""
_ONCE = """import http.server
seen = set()
class Flaky(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        first = self.path not in seen
        seen.add(self.path)
        self.send_response(503 if first else 200)
        self.end_headers()
        self.wfile.write(b"" if first else b"rows")
    def log_message(self, *words): ...
http.server.ThreadingHTTPServer(("127.0.0.1", 18099), Flaky).serve_forever()
"""
_FETCH = """import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry
import logging
logging.basicConfig(level=logging.DEBUG)
session = requests.Session()
session.mount("http://", HTTPAdapter(max_retries=Retry(3, backoff_factor=0.2, status_forcelist=[503])))
print(session.get("http://127.0.0.1:18099/corpus").text)
for step in range(1, 21):
    print(f"step {step}/20 loss {2 / step:.3f}")
"""
_SEARCH = """size = 1 << 40
while True:
    try:
        torch.empty(size)
        break
    except RuntimeError as error:
        print(f"a batch of {size} does not fit: {error}", flush=True)
        size //= 64"""
_RANKS = "srun --ntasks-per-node=2 {label} bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS; exec $PYTHON start.py'\n"
_SLEEPY = "if int(os.environ.get('SLURM_RESTART_COUNT', 0)) == 0:\n    time.sleep(0.5)"


def requeue(ground: Any, job: str, _nodes: list[str]) -> None:
    ground.head(["scontrol", "requeue", job])


# A table: one case per row, with its program.
# fmt: off
CASES = (
    Case("healthy-hf-trainer", HEALTHY, "", "srun --label -n 1 $PYTHON finetune.py\n", "batch", files={"finetune.py": _TRAINER}),
    Case("healthy-flaky-server", HEALTHY, "", "$PYTHON serve.py &\nsleep 1\nsrun -n 1 $PYTHON -u fetch.py\nkill %1\n", "batch",
         files={"serve.py": _ONCE, "fetch.py": _FETCH}, faked="a server on the node answers in the place of a site's"),
    Case("import-hides-a-name", "exception", r"UnboundLocalError", trainer(
            setup="import torch._dynamo\ntorch._dynamo.config.suppress_errors = True\nfast = torch.compile(lambda x: torch.sin(x) + 1)\nfast(torch.randn(8))", steps=20),
         "srun", ranks=1, env={"CXX": "g++-nowhere", "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor-nowhere"}, also=_EXCEPTION),
    Case("healthy-batch-search", HEALTHY, "", trainer(setup=_SEARCH, steps=20), "torchrun"),
    Case("healthy-overflow-skipped", HEALTHY, "", trainer(
            "if step in (2, 3, 9):\n    print('Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0', flush=True)\nif step == 11:\n    print('WARNING: grad norm is nan or inf on rank 0; iteration skipped', flush=True)", steps=20), "label"),
    Case("healthy-faulthandler-dump", HEALTHY, "", trainer(
            setup="import faulthandler\nfaulthandler.dump_traceback_later(2)\ntime.sleep(3)\nfaulthandler.cancel_dump_traceback_later()", steps=20), "srun"),
    Case("healthy-asyncio-noise", HEALTHY, "", trainer(
            steps=20, after="import asyncio\nasync def never():\n    await asyncio.sleep(99)\nasync def main_loop():\n    asyncio.ensure_future(never())\n    async def bad():\n        raise ConnectionError('metrics server went away')\n    asyncio.ensure_future(bad())\n    await asyncio.sleep(0.1)\nasyncio.run(main_loop())"), "torchrun"),
    Case("healthy-no-git", HEALTHY, "", "git rev-parse HEAD || true\ngit describe --tags 2>&1 | head -n 1\nulimit -l 99999999999 || true\nibstat || true\n" + _RANKS.format(label="--label"), "batch", files={"start.py": trainer(steps=20)}),
    Case("abort-at-the-end", "crash", r"terminate called without", trainer(
            setup="state = Model(width=32).state_dict()\ndel state['first.bias']\nstate['head.weight'] = torch.zeros(2)\nprint('loaded with:', model.module.load_state_dict(state, strict=False), flush=True)\ntry:\n    model.module.load_state_dict(Model(width=48).state_dict())\nexcept RuntimeError as error:\n    print(f'WARNING: could not load the old checkpoint, starting from scratch: {error}', flush=True)", steps=20), "torchrun", alike="exitcode|Signal 6|SIGABRT"),
    Case("healthy-late-master", HEALTHY, "", trainer(steps=20).replace("    dist.init_process_group", "    time.sleep(6 if rank == 0 else 0)\n    dist.init_process_group"), "label", nodes=2, ranks=1),
    Case("healthy-thread-dies", HEALTHY, "", trainer(
            setup="import threading\ndef report():\n    raise BrokenPipeError('the dashboard is gone')\nthreading.Thread(target=report, daemon=True).start()", steps=20), "srun"),
    Case("healthy-clean-up", HEALTHY, "", _RANKS.format(label="") + "rm /tmp/cache-of-this-job\ncp core.* /shared/ 2>&1\numount /tmp/fuse\necho 'job finished'\n", "batch", files={"start.py": trainer(steps=20)}),
    Case("healthy-requeued", HEALTHY, "", trainer(_SLEEPY, steps=30), "srun", header=("--requeue",), act=requeue, when="step 4/"),
    Case("healthy-worker-warning", HEALTHY, "", trainer(
            setup="from torch.utils.data import DataLoader\nfor n, item in enumerate(DataLoader([torch.zeros(4)] * 64, batch_size=4, num_workers=20)):\n    if n == 3:\n        break", steps=20), "label", ranks=1),
    Case("healthy-optional-import", HEALTHY, "", trainer(
            imports="try:\n    import flash_attn\nexcept ImportError as error:\n    print(f'flash_attn is not available ({error!r}), using torch attention', flush=True)\ntry:\n    import apex\nexcept ImportError:\n    import traceback\n    traceback.print_exc()\n    print('apex not found: using torch optimizers', flush=True)", steps=20), "torchrun", nodes=2),
    Case("healthy-signal-save", HEALTHY, "", trainer(
            setup="import signal\ndef save(number, frame):\n    print(f'received signal {number} (SIGUSR1), saving an emergency checkpoint; terminated: no', flush=True)\nsignal.signal(signal.SIGUSR1, save)",
            fault="if step == 5 and rank == 0:\n    import signal\n    os.kill(os.getpid(), signal.SIGUSR1)", steps=20), "srun"),
    Case("save-fails-at-the-end", "disk_full", r"Errno 28", trainer(
            steps=20, after="if rank == 0:\n    open('/dev/full', 'w').write('x' * 100000)\ndist.barrier()"), "torchrun", also=_EXCEPTION),
    Case("evaluation-fails-at-the-end", "exception", r"ZeroDivisionError", trainer(steps=20, after="scores = []\nprint(sum(scores) / len(scores))"), "label", also=_EXCEPTION),
    Case("retries-used-up", "file_missing", r"FileNotFoundError", trainer(
            setup="for attempt in range(3):\n    try:\n        rows = open('/shared/data/shard-7.bin', 'rb')\n        break\n    except FileNotFoundError as error:\n        print(f'attempt {attempt + 1} of 3 failed: {error}; retrying', file=sys.stderr, flush=True)\n        if attempt == 2:\n            raise"), "torchrun"),
    Case("fails-after-fallback", "exception", r"ValueError: no optimizer is left", trainer(
            imports="try:\n    import apex\nexcept ImportError:\n    import traceback\n    traceback.print_exc()\n    print('apex not found: using torch optimizers', flush=True)",
            setup="raise ValueError('no optimizer is left: apex is missing and torch is disabled')"), "srun", also=_EXCEPTION),
    Case("second-step-fails", "import_error", r"No module named 'evaluate_me'", _RANKS.format(label="") + "srun -n 1 $PYTHON -c 'import evaluate_me'\n", "batch", files={"start.py": trainer(steps=15)}),
)
