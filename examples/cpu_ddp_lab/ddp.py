"""Fit a small model on every rank together, over Gloo, and prove that all ranks took part.

Each rank has its own data. They share one model: DDP averages the gradients. Rank 0 saves the model and writes
result.json; the other ranks prove themselves through rank 0, which gathers what each one says.
"""

import argparse
import hashlib
import json
import os
import socket
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

INPUTS, SAMPLES = 8, 256


def data_of(rank: int) -> "tuple[torch.Tensor, torch.Tensor]":
    """This rank's own samples [SAMPLES, INPUTS] of one function that all ranks learn."""
    x = torch.randn(SAMPLES, INPUTS, generator=torch.Generator().manual_seed(1000 + rank))
    return x, torch.sin(x.sum(dim=1, keepdim=True) / 2)


def gather(text: str, length: int = 96) -> "list[str]":
    """What every rank says, in the order of ranks."""
    mine = torch.frombuffer(bytearray(text.encode()[:length].ljust(length)), dtype=torch.uint8)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, mine)
    return [bytes(one.tolist()).decode().strip() for one in everyone]


def fingerprint(model: nn.Module) -> str:
    values = [value.flatten() for _name, value in sorted(model.state_dict().items())]
    return hashlib.sha256(bytes(torch.cat(values).view(torch.uint8).tolist())).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(int(os.environ.get("RANKZERO_SEED", "1")))
    print(f"[RANK {rank}] WORLD_SIZE={world} host={socket.gethostname()} threads={torch.get_num_threads()}", flush=True)

    model = DistributedDataParallel(nn.Sequential(nn.Linear(INPUTS, 32), nn.Tanh(), nn.Linear(32, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = data_of(rank)
    began = time.monotonic()
    for epoch in range(options.epochs):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0 and (epoch + 1) % 10 == 0:
            now = time.strftime("%Y-%m-%d %H:%M:%S")
            print(f"{now} step {epoch + 1}/{options.epochs} loss {float(mean) / world:.4f}", flush=True)

    seconds = (time.monotonic() - began) / options.epochs
    said = gather(f"{rank} {world} {socket.gethostname()} {fingerprint(model.module)}")
    if rank == 0:
        ranks = [line.split() for line in said]
        torch.save(model.module.state_dict(), "model.pt")
        result = {
            "loss": float(mean) / world,
            "world_size": world,
            "ranks": sorted(int(words[0]) for words in ranks),
            "world_size_proven": [words[:2] for words in ranks] == [[str(n), str(world)] for n in range(world)],
            "hosts": sorted({words[2] for words in ranks}),
            "models_identical": len({words[3] for words in ranks}) == 1,
            "model_saved": os.path.getsize("model.pt") > 0,
            "epochs": options.epochs,
            "seconds_per_epoch": seconds,
            "torch": torch.__version__,
        }
        temporary = Path("result.json.tmp")
        temporary.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        temporary.replace(os.environ.get("RANKZERO_ARTIFACT", "result.json"))
        print(f"saved model.pt; all {world} ranks agree: {result['world_size_proven']}", flush=True)
    dist.barrier()


if __name__ == "__main__":
    main()
    # The process group ends with the process. Freeing it waits for Gloo's threads and holds the interpreter's lock: one
    # that releases a tensor meanwhile waits for that lock, and the rank hangs. In a shutdown it aborts the process.
    sys.stdout.flush()
    os._exit(0)
