# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures of files and their contents: missing, unreadable, disk full, half written; data, checkpoints, hubs."""

from __future__ import annotations

from typing import Any

from benchmarks.diagnosis.provoke.case import Case, trainer

_EXCEPTION = ("exception", "python_exception_other")
_TMPFS = "mkdir -p /tmp/small && mount -t tmpfs -o size={size},nr_inodes={inodes} tmpfs /tmp/small"
_EACH = "srun --ntasks-per-node=1 bash -c '{}'"
_SAVE = (
    "if step == 6:\n    torch.save({'model': model.state_dict(), 'pad': torch.zeros(4000000)}, '/tmp/small/step6.pt')"
)
_SAVED = "if rank == 0:\n    torch.save({'model': model.module.state_dict(), 'step': 3}, 'last.pt')\n    %s\ndist.barrier()\n"
_LOAD = "state = torch.load('last.pt')\nmodel.module.load_state_dict(state['model'])"
_SHM = """srun {label} -n 1 unshare -m bash -c 'mount -t tmpfs -o size=2m tmpfs /dev/shm
export RANK=0 LOCAL_RANK=0 WORLD_SIZE=1; exec $PYTHON start.py'
"""
_HUB = """import http.server, sys
code, error, message = int(sys.argv[1]), sys.argv[2], sys.argv[3]
class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(code)
        if error:
            self.send_header("X-Error-Code", error)
            self.send_header("X-Error-Message", message)
        self.end_headers()
    do_HEAD = do_GET
    def log_message(self, *words): ...
http.server.ThreadingHTTPServer(("127.0.0.1", 18099), Hub).serve_forever()
"""
_FETCH = "from huggingface_hub import {what}\n{what}({arguments})\n"
_FAKE = "a server on the node answers in the place of the hub"


def hub(name: str, family: str, root: str, status: int, error: str, message: str, **more: Any) -> Case:
    return Case(
        name,
        family,
        root,
        f"$PYTHON hub.py {status} '{error}' '{message}' &\nsleep 1\nsrun --label -n 2 $PYTHON fetch.py\nkill %1\n",
        "batch",
        files={
            "hub.py": _HUB,
            "fetch.py": _FETCH.format(what="hf_hub_download", arguments="'meta-llama/Llama-3.1-8B', 'config.json'"),
        },
        env={"HF_ENDPOINT": "http://127.0.0.1:18099", "HF_HOME": "$PWD/hf", "HF_HUB_DISABLE_XET": "1"},
        faked=_FAKE,
        **more,
    )


# A table: one case per row, with its program.
# fmt: off
CASES = (
    Case("file-missing", "file_missing", r"FileNotFoundError", trainer(setup="import json\nvocab = json.load(open('/shared/data/vocab.json'))"), "torchrun", nodes=2),
    Case("data-on-one-node", "file_missing", r"FileNotFoundError", trainer(setup="import numpy as np\nindex = np.load('/tmp/index-cache/gpt_text.npy')"), "label", nodes=2, ranks=1,
         before="srun -N 1 -n 1 -w $MASTER_ADDR $PYTHON -c 'import os, numpy; os.makedirs(\"/tmp/index-cache\"); numpy.save(\"/tmp/index-cache/gpt_text.npy\", numpy.zeros(4))'"),
    Case("program-missing", "file_missing", r"can't open file", "srun --label -n 2 $PYTHON pretrain_gpt2.py\n", "batch"),
    Case("program-missing-torchrun", "file_missing", r"can't open file", "srun -n 1 $PYTHON -m torch.distributed.run --standalone --nproc-per-node=2 pretrain_gpt2.py\n", "batch"),
    Case("not-a-directory", "file_missing", r"NotADirectoryError", trainer(setup="os.makedirs('train.py/checkpoints')"), "srun", also=_EXCEPTION, alike="FileExistsError"),
    Case("model-folder-missing", "file_missing", r"OSError|HFValidationError", trainer(setup="from transformers import AutoTokenizer\nAutoTokenizer.from_pretrained('/shared/models/llama-8b')"), "srun",
         also=("hub_auth", "offline", *_EXCEPTION), alike="Error"),
    Case("permission", "permission_denied", r"PermissionError", "mkdir -m 700 /tmp/results; srun -n 2 setpriv --reuid=65534 --clear-groups $PYTHON write.py\n", "batch",
         files={"write.py": "import os\nprint('writing', flush=True)\nopen('/tmp/results/metrics.json', 'w').write('{}')\n"}),
    Case("permission-torchrun", "permission_denied", r"PermissionError|cannot be opened|Permission denied", "srun -n 1 setpriv --reuid=65534 --clear-groups env HOME=/tmp $PYTHON -m torch.distributed.run --standalone --nproc-per-node=2 start.py\n", "batch",
         files={"start.py": trainer("if step == 6:\n    torch.save(model.state_dict(), '/tmp/locked/model.pt')")}, before=_EACH.format("mkdir -m 700 /tmp/locked"), also=("checkpoint",), alike="cannot be opened|Permission"),
    Case("read-only", "permission_denied", r"Read-only file system", trainer("if step == 6:\n    open('/tmp/small/metrics.json', 'w')"), "label",
         before=_TMPFS.format(size="1m", inodes=100) + " && mount -o remount,ro /tmp/small"),
    Case("disk-full", "disk_full", r"No space left on device|PytorchStreamWriter failed|iostream error|unexpected pos", trainer(_SAVE), "torchrun", before=_TMPFS.format(size="1m", inodes=100),
         alike="PytorchStreamWriter|unexpected pos|No space|iostream error"),
    Case("disk-full-write", "disk_full", r"No space left on device", trainer("if step == 6 and rank == 1:\n    with open('/tmp/small/log.bin', 'wb') as f:\n        f.write(bytes(4 << 20))"), "label",
         before=_TMPFS.format(size="1m", inodes=100)),
    Case("inodes", "disk_full", r"No space left on device", trainer("for n in range(40):\n    open(f'/tmp/small/sample-{step}-{rank}-{n}', 'w').close()"), "srun",
         before=_TMPFS.format(size="16m", inodes=30)),
    Case("disk-full-shell", "disk_full", r"No space left on device", "set -e\nmount_it() { mkdir -p /tmp/small; mount -t tmpfs -o size=1m tmpfs /tmp/small; }; mount_it\ncp /usr/bin/python3.11 /tmp/small/\nsrun hostname\n", "batch",
         alike="No space"),
    Case("disk-full-tar", "disk_full", r"No space left on device|Wrote only", "tar -xf code.tar -C /tmp/small\n", "batch", before=_TMPFS.format(size="1m", inodes=100) + "; tar -cf code.tar -C /usr/bin python3.11",
         alike="No space|tar: "),
    Case("file-size", "disk_full", r"File too large|Errno 27", trainer("if step == 6:\n    with open('big.bin', 'wb') as f:\n        f.write(bytes(40 << 20))", setup="import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)"), "srun", before="ulimit -f 10000",
         also=("filesystem_io", *_EXCEPTION)),
    Case("input-output-error", "filesystem_io", r"Errno 5", trainer("if step == 4 and rank == 1:\n    with open('/proc/self/mem', 'rb') as f:\n        f.read(8)"), "label", nodes=2, ranks=1),
    Case("shm-small", "nccl_shm", r"bus error|shared memory|No space left", _SHM.format(label=""), "batch",
         files={"start.py": trainer(setup="from torch.utils.data import DataLoader\nfor item in DataLoader([torch.zeros(600000) for _ in range(16)], batch_size=4, num_workers=2):\n    print(item.shape)")},
         alike="bus error|Bus error|shared memory|No space", also=("disk_full",)),
    Case("shm-tensor", "nccl_shm", r"No space left|shared memory|Bus error", _SHM.format(label="--label"), "batch",
         files={"start.py": trainer(setup="shared = torch.zeros(4000000).share_memory_()")}, also=("crash", "disk_full"),
         alike="No space|shared memory|Bus error"),
    Case("worker-killed", "nccl_shm", r"DataLoader worker .* is killed by signal", trainer(
            imports="from torch.utils.data import DataLoader, Dataset\nclass Rows(Dataset):\n    def __len__(self):\n        return 64\n    def __getitem__(self, i):\n        if i == 30:\n            os.kill(os.getpid(), 9)\n        return torch.zeros(4)\n",
            setup="for item in DataLoader(Rows(), batch_size=4, num_workers=2):\n    pass"), "torchrun", also=("host_oom_killed",), alike="DataLoader worker"),
    Case("worker-raises", "data_error", r"KeyError: 'text'", trainer(
            imports="from torch.utils.data import DataLoader, Dataset\nclass Rows(Dataset):\n    def __len__(self):\n        return 64\n    def __getitem__(self, i):\n        return {'body': i}['text']\n",
            setup="for item in DataLoader(Rows(), batch_size=4, num_workers=2):\n    pass"), "label", also=_EXCEPTION),
    Case("worker-segfault", "nccl_shm", r"DataLoader worker|Segmentation fault", trainer(
            imports="import ctypes\nfrom torch.utils.data import DataLoader, Dataset\nclass Rows(Dataset):\n    def __len__(self):\n        return 64\n    def __getitem__(self, i):\n        return ctypes.string_at(i)\n",
            setup="for item in DataLoader(Rows(), batch_size=4, num_workers=2):\n    pass"), "srun", also=("crash",), alike="DataLoader worker|egmentation"),
    Case("empty-dataset", "data_error", r"num_samples should be a positive integer", trainer(setup="from torch.utils.data import DataLoader\nDataLoader([], shuffle=True)"), "torchrun"),
    Case("json-record", "data_error", r"JSONDecodeError", trainer(setup="import json\nrows = [json.loads(line) for line in open('rows.jsonl')]"), "srun", files={"rows.jsonl": '{"text": "a"}\n{"text": "b\n'}),
    Case("unicode", "data_error", r"UnicodeDecodeError", trainer(setup="text = open('/usr/bin/true', encoding='utf-8').read()"), "label"),
    Case("next-of-none", "data_error", r"'NoneType' object is not an iterator", trainer("batches = None\nif step == 2:\n    next(batches)"), "torchrun", also=("cache_not_shared",)),
    Case("checkpoint-truncated", "checkpoint", r"PytorchStreamReader failed", trainer(setup=_SAVED % "os.truncate('last.pt', 3000)" + _LOAD), "torchrun", nodes=2),
    Case("checkpoint-empty", "checkpoint", r"EOFError", trainer(setup=_SAVED % "os.truncate('last.pt', 0)" + _LOAD), "label"),
    Case("checkpoint-garbage", "checkpoint", r"UnpicklingError|invalid load key", trainer(setup=_SAVED % "open('last.pt', 'wb').write(b'<html>404 not found</html>')" + _LOAD), "srun", alike="UnpicklingError|invalid load key"),
    Case("checkpoint-missing-keys", "checkpoint", r"Error\(s\) in loading state_dict", trainer(setup=_SAVED % "torch.save({'model': {}}, 'last.pt')" + _LOAD), "torchrun"),
    Case("checkpoint-size", "checkpoint", r"Error\(s\) in loading state_dict|size mismatch for", trainer(setup=_SAVED % "pass" + "model = DDP(Model(width=48))\n" + _LOAD), "label", nodes=2, ranks=1, alike="size mismatch for"),
    Case("checkpoint-no-key", "checkpoint", r"KeyError: 'optimizer'", trainer(setup=_SAVED % "pass" + "state = torch.load('last.pt')\noptimizer.load_state_dict(state['optimizer'])"), "srun", also=_EXCEPTION),
    Case("checkpoint-groups", "checkpoint", r"loaded state dict (?:contains|has)", trainer(setup="other = torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=1)\noptimizer.load_state_dict(other.state_dict())"), "torchrun"),
    Case("checkpoint-weights-only", "checkpoint", r"Weights only load failed", trainer(setup=_SAVED % "torch.save({'args': argparse.Namespace(lr=1)}, 'last.pt')" + _LOAD), "label"),
    Case("checkpoint-safetensors", "checkpoint", r"SafetensorError", trainer(setup="from safetensors.torch import load_file, save_file\nsave_file({'w': torch.zeros(100)}, f'model-{rank}.safetensors')\nos.truncate(f'model-{rank}.safetensors', 60)\nload_file(f'model-{rank}.safetensors')"), "srun"),
    Case("checkpoint-dcp", "checkpoint", r"CheckpointException|FileNotFoundError|\.metadata", trainer(setup="import torch.distributed.checkpoint as dcp\nos.makedirs('dcp', exist_ok=True)\ndcp.load({'model': model.module.state_dict()}, checkpoint_id='dcp')"), "torchrun",
         also=("file_missing",), alike="metadata|CheckpointException"),
    Case("checkpoint-absent", "file_missing", r"FileNotFoundError", trainer(setup="state = torch.load('/shared/checkpoints/iter_0001000/model.pt')"), "label", also=("checkpoint",)),
    Case("hub-no-network", "offline", r"Name or service not known|Temporary failure|ConnectError|LocalEntryNotFoundError|Errno -|Network is unreachable", "srun --label -n 2 $PYTHON fetch.py\n", "batch",
         files={"fetch.py": _FETCH.format(what="snapshot_download", arguments="'openai-community/gpt2'")}, env={"HF_HOME": "$PWD/hf"}, alike="Error"),
    Case("hub-offline-mode", "offline", r"LocalEntryNotFoundError|OfflineModeIsEnabled|We couldn't connect|couldn't find", trainer(setup="from transformers import AutoConfig\nAutoConfig.from_pretrained('openai-community/gpt2')"), "torchrun",
         env={"HF_HUB_OFFLINE": "1", "HF_HOME": "$PWD/hf"}, alike="Error|couldn't"),
    Case("hub-tokenizer-no-network", "offline", r"OSError|couldn't connect|ConnectError", trainer(setup="from transformers import AutoTokenizer\nAutoTokenizer.from_pretrained('openai-community/gpt2')"), "label", ranks=1,
         env={"HF_HOME": "$PWD/hf"}, alike="Error|couldn't", also=("hub_auth", "file_missing")),
    Case("url-no-network", "offline", r"URLError|urlopen error", trainer(setup="import urllib.request\nurllib.request.urlopen('https://data.example/corpus.jsonl')"), "srun", alike="Name or service|Temporary failure|Errno -|unreachable"),
    Case("requests-no-network", "offline", r"Max retries exceeded|ConnectionError", "srun -n 2 $PYTHON fetch.py\n", "batch", files={"fetch.py": "import requests\nrequests.get('https://data.example/corpus.jsonl', timeout=3)\n"},
         alike="NameResolution|Max retries|ConnectionError"),
    Case("git-no-network", "offline", r"Could not resolve host|unable to access", "set -e\ngit clone https://git.example/team/model.git\n", "batch", alike="fatal"),
    Case("wget-no-network", "offline", r"unable to resolve host|Could not resolve host", "set -e\ncurl -fsSL https://data.example/corpus.tar -o corpus.tar\n", "batch", alike="resolve"),
    hub("hub-gated", "hub_auth", r"GatedRepoError|Cannot access gated repo|403 Client Error", 403, "GatedRepo", "Access to model meta-llama/Llama-3.1-8B is restricted.", alike="gated|403|restricted"),
    hub("hub-unauthorized", "hub_auth", r"401|RepositoryNotFoundError", 401, "RepoNotFound", "Repository not found", alike="401|Repository"),
    hub("hub-busy", "hub_limit", r"429", 429, "", "", alike="429"),
    hub("hub-down", "offline", r"50[0-9]", 503, "", "", alike="503|LocalEntryNotFound", also=("hub_limit",)),
)
