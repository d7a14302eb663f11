# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures between ranks, and in the computation: rendezvous, Gloo, collectives, shapes, numbers."""

from __future__ import annotations

from benchmarks.diagnosis.provoke.case import Case, trainer

_EXCEPTION = ("exception", "python_exception_other")
_ON_ONE = "if step == 5 and rank == 1:\n    "

_COLLECTIVE = """import datetime, os
import torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))
part = torch.ones(4)
for step in range(1, 20):
    dist.all_reduce(part)
    if rank == 0:
        print(f"step {step} loss 0.5", flush=True)
    if step == 5:
        %s
"""

# A table: one case per row, with its program.
# fmt: off
CASES = (
    Case("one-rank-raises", "exception", r"ValueError: bad sample weights", trainer(
            _ON_ONE + "raise ValueError(f'bad sample weights in shard {rank}')"), "torchrun", nodes=2, also=_EXCEPTION),
    Case("one-rank-raises-label", "exception", r"ZeroDivisionError", trainer(
            _ON_ONE + "mean = loss.item() / (step - 5)"), "label", nodes=2, also=_EXCEPTION),
    Case("one-rank-raises-files", "exception", r"AssertionError", trainer(
            _ON_ONE + "assert loss.item() < 0, 'schedule is exhausted'"), "files", nodes=2, also=_EXCEPTION),
    Case("attribute", "exception", r"AttributeError: 'DistributedDataParallel' object has no attribute", trainer(
            "if step == 3:\n    print(model.first.weight)"), "torchrun", also=_EXCEPTION),
    Case("chained-exception", "exception", r"KeyError: 'tokens'", trainer(
            _ON_ONE + "try:\n        {'text': 1}['tokens']\n    except KeyError as error:\n        raise RuntimeError('the batch could not be read') from error"),
         "srun", also=(*_EXCEPTION, "data_error"), alike="RuntimeError: the batch could not be read"),
    Case("rank0-stalls", "collective_timeout", r"Timed out waiting \d+ms", trainer(
            "if step == 5 and rank == 0:\n    print('exporting the model', flush=True)\n    time.sleep(40)"), "label", nodes=2, ranks=1,
         alike="Timed out waiting", also=("peer_lost",)),
    Case("rank-stalls-torchrun", "collective_timeout", r"Timed out waiting \d+ms", trainer(
            "if step == 5 and rank == 3:\n    time.sleep(40)", timeout=15), "torchrun", nodes=2, alike="Timed out waiting"),
    Case("collective-mismatch", "collective_timeout", r"Detected mismatch between collectives", _COLLECTIVE % "dist.broadcast(part, 0) if rank == 0 else dist.all_reduce(part)",
         "torchrun", nodes=2, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, alike="mismatch between collectives"),
    Case("collective-shapes", "collective_timeout", r"Detected mismatch between collectives", _COLLECTIVE % "dist.all_reduce(torch.ones(4 + rank))",
         "label", nodes=2, ranks=1, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, also=("shape_or_divisibility",), alike="mismatch between collectives"),
    Case("collective-order", "collective_timeout", r"Timed out|Connection closed|terminate called|gloo", _COLLECTIVE % "(dist.barrier(), dist.broadcast(part, 1)) if rank == 0 else (dist.broadcast(part, 1), dist.recv(part, 0))",
         "srun", nodes=2, ranks=1, also=("peer_lost",), alike="Timed out|Connection closed|gloo"),
    Case("debug-detail-crash", "crash", r"exitcode: -11|Segmentation fault", trainer(), "torchrun", env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, alike="SIGSEGV|Segmentation|exitcode"),
    Case("monitored-barrier", "collective_timeout", r"monitoredBarrier", trainer(
            "if step == 5:\n    if rank == 2:\n        time.sleep(25)\n    dist.monitored_barrier(timeout=datetime.timedelta(seconds=5))"),
         "torchrun", nodes=2, alike="monitoredBarrier|monitored"),
    Case("missing-rank-at-end", "collective_timeout", r"Timed out waiting|Connection closed", trainer(
            after="if rank == 1:\n    sys.exit(0)\ndist.barrier()", timeout=10), "srun", nodes=2, ranks=1, also=("peer_lost",),
         alike="Timed out waiting|Connection closed|reset by peer"),
    Case("unused-parameters", "unused_parameters", r"Expected to have finished reduction", trainer(
            "loss = (model.module.first(batch) ** 2).mean()\nif step:\n    model.require_backward_grad_sync = True\n    loss = (model(batch) * 0).sum() * 0 + loss if rank > 9 else loss",
            imports="class Half(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.used = nn.Linear(16, 16)\n        self.unused = nn.Linear(16, 16)\n\n    def forward(self, x):\n        return self.used(x)\n",
            setup="model = DDP(Half())").replace("loss = (model.module.first(batch) ** 2).mean()", "pass"), "torchrun",
         also=(*_EXCEPTION, "usage", "shape_or_divisibility")),
    Case("models-differ", "shape_or_divisibility", r"DDP expects same model", trainer(
            setup="model = DDP(nn.Sequential(*[nn.Linear(4, 4) for _ in range(1 + rank)]))"), "torchrun", also=_EXCEPTION),
    Case("peer-only-log", "peer_lost", r"Connection closed by peer|Connection reset by peer", trainer(
            _ON_ONE + "os._exit(1)"), "srun", nodes=2, ranks=1, also=("launcher", "collective_timeout", *_EXCEPTION),
         alike="onnection (?:closed|reset)|task 1: Exited"),
    Case("store-wait", "collective_timeout", r"wait timeout after \d+ms|Timed out", trainer(
            "if step == 5 and rank == 0:\n    store = dist.distributed_c10d._get_default_store()\n    store.set_timeout(datetime.timedelta(seconds=5))\n    store.get('weights/ready')"),
         "srun", also=("rendezvous_failure",), alike="imeout"),
    Case("env-not-set", "env_not_set", r"environment variable RANK expected, but not set", "srun -n 2 --label $PYTHON start.py\n", "batch",
        files={"start.py": 'import torch.distributed as dist\nprint("starting", flush=True)\ndist.init_process_group("gloo")\n'},
        alike="expected, but not set"),
    Case("env-keyerror", "env_not_set", r"KeyError: 'LOCAL_RANK'", "srun -n 2 $PYTHON start.py\n", "batch",
        files={"start.py": "import os\nlocal = int(os.environ['LOCAL_RANK'])\n"}),
    Case("no-process-group", "env_not_set", r"Default process group has not been initiali", "$PYTHON start.py\n", "batch",
        files={"start.py": "import torch, torch.distributed as dist\nprint(dist.get_rank())\n"}, also=_EXCEPTION),
    Case("master-unknown", "rendezvous_failure", r"gai error|getaddrinfo|Name or service not known|failed to connect|timed out", trainer(timeout=12), "srun",
         before="export MASTER_ADDR=login-of-another-cluster", alike="login-of-another-cluster"),
    Case("rank-missing", "rendezvous_failure", r"waiting for clients|imed out|imeout", "srun --ntasks-per-node=1 bash -c 'export RANK=$SLURM_PROCID WORLD_SIZE=3; exec $PYTHON start.py'\n", "batch", nodes=2,
         files={"start.py": trainer(timeout=12)}, also=("collective_timeout",), alike="imed out|imeout"),
    Case("rank-missing-label", "rendezvous_failure", r"waiting for clients|imed out", "srun --label --ntasks-per-node=1 bash -c 'export RANK=$SLURM_PROCID WORLD_SIZE=4; exec $PYTHON start.py'\n", "batch", nodes=2,
         files={"start.py": trainer(timeout=10)}, alike="imed out|imeout"),
    Case("c10d-timeout", "rendezvous_failure", r"RendezvousTimeoutError", "srun -N 1 -n 1 $PYTHON -m torch.distributed.run --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT --rdzv-conf=join_timeout=8,timeout=8 train.py\n",
         "batch", nodes=2, alike="imed out|imeout"),
    Case("c10d-unreachable", "rendezvous_failure", r"RendezvousConnectionError|failed to connect|Connection refused", "srun -N 1 -n 1 $PYTHON -m torch.distributed.run --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=10.255.255.1:29400 --rdzv-conf=read_timeout=5 train.py\n",
         "batch", nodes=1, also=("offline",), alike="endezvous|imed out|unreachable|failed to connect"),
    Case("port-taken", "address_in_use", r"EADDRINUSE", trainer(), "torchrun", nodes=1,
         before="/usr/bin/python3 -c 'import os, socket, time; s = socket.socket(); s.bind((\"\", int(os.environ[\"MASTER_PORT\"]))); s.listen(); time.sleep(60)' &\nsleep 1",
         alike="EADDRINUSE|ddress already in use"),
    Case("port-taken-label", "address_in_use", r"EADDRINUSE", trainer(), "label", nodes=1,
         before="/usr/bin/python3 -c 'import os, socket, time; s = socket.socket(); s.bind((\"\", int(os.environ[\"MASTER_PORT\"]))); s.listen(); time.sleep(60)' &\nsleep 1",
         alike="EADDRINUSE|ddress already in use"),
    Case("torchrun-per-rank", "address_in_use", r"EADDRINUSE|ddress already in use", "srun --ntasks-per-node=2 $PYTHON -m torch.distributed.run --nnodes=1 --nproc-per-node=2 --master-addr=127.0.0.1 --master-port=$MASTER_PORT train.py\n",
         "batch", files={"train.py": trainer()}, alike="EADDRINUSE|ddress already in use"),
    Case("bind-python", "address_in_use", r"Errno 98", "srun -n 2 $PYTHON serve.py\n", "batch",
        files={"serve.py": "import http.server, time\ntime.sleep(0.3)\nserver = http.server.HTTPServer(('', 18080), http.server.SimpleHTTPRequestHandler)\ntime.sleep(5)\nraise SystemExit(0)\n"}),
    Case("gloo-interface-unknown", "gloo_interface", r"Unable to find address for", trainer(), "torchrun", env={"GLOO_SOCKET_IFNAME": "ib7"},
         alike="ind address for"),
    Case("gloo-nccl-syntax", "gloo_interface", r"Unable to find address for", trainer(), "label", nodes=2, ranks=1, env={"GLOO_SOCKET_IFNAME": "^lo"},
         alike="ind address for"),
    Case("gloo-loopback", "gloo_interface", r"connect \[?127\.0\.0\.1|gloo", trainer(timeout=10), "srun", nodes=2, ranks=1, env={"GLOO_SOCKET_IFNAME": "lo"},
         also=("collective_timeout", "rendezvous_failure"), alike="127.0.0.1|gloo"),
    Case("matmul-shapes", "shape_or_divisibility", r"mat1 and mat2 shapes", trainer(
            setup="model = DDP(nn.Sequential(nn.Linear(16, 32), nn.Linear(64, 16)))"), "torchrun", nodes=2),
    Case("heads-divide", "shape_or_divisibility", r"embed_dim must be divisible", trainer(
            setup="model = DDP(nn.MultiheadAttention(10, 3))"), "label", nodes=2, ranks=1),
    Case("view-size", "shape_or_divisibility", r"is invalid for input of size", trainer(_ON_ONE.replace(" and rank == 1", "") + "batch.view(3, 50)"), "srun"),
    Case("stack-sizes", "shape_or_divisibility", r"stack expects each tensor", trainer(
            setup="from torch.utils.data import DataLoader\nsizes = [torch.zeros(4 + i % 2) for i in range(8)]\nfor item in DataLoader(sizes, batch_size=4):\n    print(item.shape)"), "srun",
         also=("data_error",)),
    Case("embedding-range", "data_error", r"IndexError: index out of range in self", trainer(
            setup="table = nn.Embedding(10, 4)", after="").replace("table = nn.Embedding(10, 4)", "table = nn.Embedding(10, 4)\n    table(torch.tensor([3, 12]))"), "torchrun",
         also=("shape_or_divisibility", *_EXCEPTION)),
    Case("target-range", "data_error", r"IndexError: Target 7 is out of bounds", trainer(
            "if step == 4:\n    nn.functional.cross_entropy(torch.randn(2, 4), torch.tensor([1, 7]))"), "label", also=("shape_or_divisibility", *_EXCEPTION)),
    Case("dtype-mismatch", "shape_or_divisibility", r"mat1 and mat2 must have the same dtype", trainer(
            "if step == 4:\n    model(batch.double())"), "srun", also=_EXCEPTION),
    Case("cuda-on-cpu", "cuda_device", r"Torch not compiled with CUDA enabled|Found no NVIDIA driver", trainer(setup="model = Model().cuda()"), "torchrun",
         also=("cuda_mismatch", *_EXCEPTION)),
    Case("nccl-on-cpu", "cuda_device", r"nccl|NCCL", trainer().replace('"gloo"', '"nccl"'), "srun", also=("cuda_mismatch", "usage", "env_not_set", *_EXCEPTION), alike="NCCL|nccl"),
    Case("nan-anomaly", "nan_loss", r"returned nan values", trainer(
            "if step == 5:\n    loss = torch.sqrt(loss - loss - 1)", setup="torch.autograd.set_detect_anomaly(True)"), "torchrun"),
    Case("nan-clip", "nan_loss", r"non-finite, so it cannot be clipped", trainer(
            "if step == 5:\n    loss = loss * float('inf')\nloss.backward()\nnn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)\nreturn loss.item()"), "label", nodes=2, ranks=1),
    Case("nan-guard", "nan_loss", r"RuntimeError: loss is nan", trainer(
            "if step == 6 and rank == 1:\n    loss = loss * float('nan')\nif not torch.isfinite(loss):\n    raise RuntimeError(f'loss is {loss.item()} at step {step}')"), "srun", nodes=2, ranks=1),
    Case("nan-sampling", "nan_loss", r"probability tensor contains", trainer("if step == 3:\n    torch.multinomial(torch.tensor([0.5, float('nan')]), 1)"), "srun"),
    Case("tolerance", "tolerance", r"Tensor-likes are not close", trainer(
            after="torch.testing.assert_close(torch.ones(4) * 1.02, torch.ones(4))"), "label"),
    Case("too-many-files", "open_files", r"Too many open files", trainer(
            setup="import socket\nheld = [socket.socket() for _ in range(400)]"), "srun", before="ulimit -n 200", also=("exception", "disk_full", "file_missing")),
    Case("recursion", "exception", r"RecursionError", trainer(setup="def deep(n):\n    return deep(n + 1)\ndeep(0)"), "srun", also=_EXCEPTION),
)
