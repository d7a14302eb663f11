# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A second batch of cases, held out: written after the patterns had been improved with the first batch."""

from __future__ import annotations

from typing import Any

from benchmarks.diagnosis.provoke.case import HEALTHY, Case, trainer

_EXCEPTION = ("exception", "python_exception_other")
_SPAWN = """import torch.multiprocessing as mp


def work(rank, shards):
    print(f"worker {rank} reads {shards[rank]}", flush=True)
    if rank == 1:
        raise RuntimeError(f"shard {shards[rank]} has 3 columns, not 4")


if __name__ == "__main__":
    mp.spawn(work, args=(["a", "b"],), nprocs=2)
"""
_POOL = """import os
from concurrent.futures import ProcessPoolExecutor


def tokenize(shard):
    if shard == 5:
        os.kill(os.getpid(), 9)
    return shard


if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        print(sum(pool.map(tokenize, range(8))))
"""
_PAD = """from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a")))
tokenizer(["a", "a b"], padding=True)"""


def interrupt(ground: Any, job: str, _nodes: list[str]) -> None:
    ground.head(["scancel", "--signal=INT", f"{job}.0"])


# A table: one case per row, with its program.
# fmt: off
CASES = (
    Case("spawn-child-raises", "exception", r"RuntimeError: shard b has 3 columns", "srun -n 1 $PYTHON prepare.py\n", "batch",
         files={"prepare.py": _SPAWN}, also=(*_EXCEPTION, "data_error")),
    Case("pool-worker-killed", "host_oom_killed", r"BrokenProcessPool", "srun --label -n 1 $PYTHON prepare.py\n", "batch",
         files={"prepare.py": _POOL}, also=(*_EXCEPTION, "crash")),
    Case("sub-script-fails", "import_error", r"ModuleNotFoundError: No module named 'sentencepiece'", trainer(
            setup="import subprocess\nsubprocess.run([sys.executable, '-c', 'import sentencepiece'], check=True)"), "torchrun"),
    Case("array-truncated", "data_error", r"ValueError: (?:cannot reshape|mmap length)|ValueError|EOFError", trainer(
            setup="import numpy as np\nif rank == 0:\n    np.save('index.npy', np.zeros(1000))\n    os.truncate('index.npy', 3000)\ndist.barrier()\nindex = np.load('index.npy')"),
         "label", also=(*_EXCEPTION, "checkpoint", "shape_or_divisibility")),
    Case("gzip-truncated", "data_error", r"EOFError: Compressed file ended", trainer(
            setup="import gzip\nwith gzip.open(f'rows-{rank}.gz', 'wb') as f:\n    f.write(os.urandom(50000))\nos.truncate(f'rows-{rank}.gz', 20000)\nrows = gzip.open(f'rows-{rank}.gz').read()"),
         "srun", also=("checkpoint",)),
    Case("tar-truncated", "data_error", r"tarfile\.ReadError", trainer(
            setup="import io, tarfile\nwith tarfile.open(f's-{rank}.tar', 'w') as t:\n    info = tarfile.TarInfo('a')\n    info.size = 100000\n    t.addfile(info, io.BytesIO(bytes(100000)))\nos.truncate(f's-{rank}.tar', 40000)\ntarfile.open(f's-{rank}.tar').extractall('out')"),
         "torchrun", nodes=2, ranks=1, also=(*_EXCEPTION, "checkpoint")),
    Case("c-assertion", "crash", r"Assertion .* failed", "gcc -o loader loader.c && srun ./loader\n", "batch", alike="Aborted",
         files={"loader.c": "#include <assert.h>\nint main(int n, char **v) { assert(n > 3 && \"shards\"); return 0; }\n"}),
    Case("free-invalid", "crash", r"free\(\): invalid", "gcc -w -O0 -o worker worker.c && srun --label ./worker\n", "batch", alike="Aborted",
         files={"worker.c": "#include <stdlib.h>\nint main() { char *p = malloc(64); free(p + 8); return 0; }\n"}),
    Case("illegal-instruction", "crash", r"Illegal instruction", "gcc -o worker worker.c && srun --label ./worker\n", "batch",
         files={"worker.c": "int main() { __builtin_trap(); }\n"}),
    Case("submodule-missing", "import_error", r"No module named 'torch\.distributed\.nothing'", trainer(imports="import torch.distributed.nothing"), "srun", nodes=2, ranks=1),
    Case("name-missing-transformers", "abi_conflict", r"ImportError: cannot import name 'AutoModelWithLMHead2'", trainer(imports="from transformers import AutoModelWithLMHead2"),
         "label", ranks=1, also=("import_error",)),
    Case("heads-transformers", "shape_or_divisibility", r"(?:divisible|multiple)", trainer(
            setup="from transformers import LlamaConfig, LlamaForCausalLM\nLlamaForCausalLM(LlamaConfig(hidden_size=100, num_attention_heads=7, num_hidden_layers=1, vocab_size=10))"),
         "torchrun", also=("usage",), alike="Error"),
    Case("no-pad-token", "usage", r"ValueError: Asking to pad", trainer(setup=_PAD), "label", ranks=1, also=_EXCEPTION, alike="pad_token"),
    Case("save-folder-missing", "file_missing", r"Parent directory .* does not exist", trainer("if step == 4:\n    torch.save(model.state_dict(), '/shared/runs/7/model.pt')"),
         "torchrun", nodes=2, ranks=1),
    Case("name-too-long", "exception", r"Errno 36", trainer(setup="open('x' * 300, 'w')"), "srun", also=_EXCEPTION),
    Case("copy-read-only", "permission_denied", r"Read-only file system", "set -e\ncp train.py /tmp/small/\nsrun hostname\n", "batch",
         before="mkdir -p /tmp/small && mount -t tmpfs -o size=1m,ro tmpfs /tmp/small"),
    Case("cd-missing", "file_missing", r"cd: .*No such file", "set -e\ncd /shared/code/megatron\nsrun hostname\n", "batch", also=("script_error",)),
    Case("env-python-missing", "script_error", r"python3\.19", "srun -n 1 ./prepare.py\n", "batch", before="chmod +x prepare.py",
         files={"prepare.py": "#!/usr/bin/env python3.19\nprint('hello')\n"}, also=("file_missing",)),
    Case("srun-unknown-job", "sbatch_rejected", r"srun: error: Unable to confirm allocation", "srun --jobid=99999 hostname\n", "batch", alike="Invalid job id"),
    Case("sbatch-option", "sbatch_rejected", r"unrecognized option", "sbatch --gpuz=4 --wrap true", "head"),
    Case("sbatch-no-file", "sbatch_rejected", r"Unable to open file", "sbatch missing.sbatch", "head", also=("file_missing",)),
    Case("sbatch-no-shebang", "sbatch_rejected", r"This does not look like a batch script", "echo 'echo hello' > plain.txt; sbatch plain.txt", "head", alike="sbatch: error"),
    Case("sbatch-memory", "sbatch_rejected", r"[Mm]emory specification|not available", "sbatch --mem=9999G --wrap true", "head", alike="sbatch: error"),
    Case("srun-gres", "sbatch_rejected", r"srun: error: ", "srun --gres=gpu:8 -n 1 hostname\n", "batch", alike="gres"),
    Case("interrupted", "preempted_or_cancelled", r"KeyboardInterrupt", trainer("time.sleep(0.5)", steps=900), "srun", act=interrupt, when="step 4/"),
    Case("ready-twice", "exception", r"Expected to mark a variable ready only once|leaf Variable|second time", trainer("loss.backward()"), "torchrun", also=_EXCEPTION),
    Case("loader-timeout", "nccl_shm", r"DataLoader timed out", trainer(
            imports="from torch.utils.data import DataLoader, Dataset\nclass Rows(Dataset):\n    def __len__(self):\n        return 8\n    def __getitem__(self, i):\n        time.sleep(30)\n        return i\n",
            setup="for item in DataLoader(Rows(), batch_size=4, num_workers=1, timeout=2):\n    pass"), "label", also=("data_error", *_EXCEPTION)),
    Case("backend-misspelt", "usage", r"^(?:\[rank\d\]: )?(?:ValueError|RuntimeError|AssertionError): ", trainer().replace('"gloo"', '"glooo"'), "srun", also=_EXCEPTION),
    Case("torchrun-option", "usage", r"error: ", "srun -n 1 $PYTHON -m torch.distributed.run --nprocs-per-node=2 --standalone train.py\n", "batch", also=("file_missing",), alike="glooo|error"),
    Case("float-overflow", "nan_loss", r"FloatingPointError", trainer("if step == 3:\n    import numpy as np\n    np.seterr(all='raise')\n    np.float32(3e38) * np.float32(10)"), "torchrun"),
    Case("not-positive-definite", "exception", r"LinAlgError", trainer("if step == 3:\n    torch.linalg.cholesky(-torch.eye(3))"), "label", also=(*_EXCEPTION, "nan_loss")),
    Case("certificate", "offline", r"CERTIFICATE_VERIFY_FAILED", "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout key.pem -out cert.pem 2> /dev/null\n$PYTHON serve.py &\nsleep 1\nsrun -n 1 $PYTHON fetch.py\nkill %1\n", "batch",
         files={"serve.py": "import http.server, ssl\ns = http.server.HTTPServer(('127.0.0.1', 18443), http.server.SimpleHTTPRequestHandler)\nc = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\nc.load_cert_chain('cert.pem', 'key.pem')\ns.socket = c.wrap_socket(s.socket, server_side=True)\ns.serve_forever()\n",
                "fetch.py": "import urllib.request\nurllib.request.urlopen('https://127.0.0.1:18443/corpus.tar')\n"}, faked="a server on the node answers in the place of the site's", alike="SSL"),
    Case("connection-refused", "offline", r"Connection refused|Max retries", trainer(setup="import requests\nrequests.post('http://127.0.0.1:9/metrics', json={})"), "srun", alike="refused|Max retries|Error"),
    Case("permission-cache", "permission_denied", r"PermissionError", "srun -n 2 setpriv --reuid=65534 --clear-groups $PYTHON start.py\n", "batch", env={"HF_HOME": "/etc/huggingface"},
         files={"start.py": "import os\nos.makedirs(os.environ['HF_HOME'] + '/hub/models--gpt2')\n"}),
    Case("elastic-restart-fails", "exception", r"OSError: the license server is busy", "srun --ntasks-per-node=1 $PYTHON -m torch.distributed.run --nnodes=1 --nproc-per-node=2 --max-restarts=2 --master-addr=127.0.0.1 --master-port=$MASTER_PORT start.py\n", "batch",
         files={"start.py": trainer(setup="if not os.path.exists('tried') and rank == 1:\n    open('tried', 'w').close()\n    raise OSError('the license server is busy')", steps=25)}, also=_EXCEPTION),
    Case("healthy-skipped-shards", HEALTHY, "", trainer(
            "if step in (3, 7):\n    import logging\n    try:\n        raise ValueError(f'shard {step} has no rows')\n    except ValueError:\n        logging.exception('could not read shard %d, skipping it', step)", steps=25), "label", nodes=2, ranks=1),
    Case("healthy-evaluation", HEALTHY, "", trainer(
            steps=20, after="for name in ('arc', 'error_detection', 'crash_causes'):\n    print(f'eval {name}: error rate 0.02, failed: 0, killed: 0, timeouts: 0, OOM: 0', flush=True)\nprint('NaN checks: 0 of 20 steps, Segmentation fault handler installed', flush=True)"), "torchrun"),
    Case("healthy-exit-zero", HEALTHY, "", trainer(steps=20, after="print('Traceback of nothing: the run is complete', flush=True)\nsys.exit(0)"), "torchrun", nodes=2, ranks=1),
)
