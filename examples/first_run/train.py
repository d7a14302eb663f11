"""Train a small language model on every rank, and prove that the ranks trained one model together.

The program knows nothing about Slurm: it reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torch
does. It runs under srun (one task a rank) and under torchrun alike, and by hand: `python train.py --steps 20`.

Rank 0 writes the proof, result.json: how far the loss fell on text that no rank trained on, and whether all ranks hold
the same parameters to the last bit.

Told to end by SIGTERM, the ranks agree on a step, rank 0 saves it to checkpoint.pt in the working directory, and all
end. Started there again, they go on at that very step, with the batches that would have come next.
"""

import argparse
import hashlib
import json
import math
import os
import signal
import socket
import sys
import time
from datetime import datetime
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

VOCABULARY = 256  # the model reads bytes


class Block(nn.Module):
    """One transformer layer: causal attention, then a small network, each added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_network = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.query_key_value(self.norm_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.network(self.norm_network(x))


class LanguageModel(nn.Module):
    """Bytes in, for every position the odds of the next byte out."""

    def __init__(self, context: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.byte, self.position = nn.Embedding(VOCABULARY, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.05)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.byte(tokens) + self.position(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def windows_of(text: bytes, context: int) -> torch.Tensor:
    """Cut the text into windows of `context` bytes and the byte after each: a tensor [windows, context + 1]."""
    count = (len(text) - 1) // context
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    return torch.stack([data[start : start + context + 1] for start in range(0, count * context, context)])


def shard(windows: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """The windows of one rank: no two ranks share one, all have equally many, at most world_size - 1 are left out."""
    return windows[: len(windows) // world_size * world_size][rank::world_size]


def batch_at(windows: torch.Tensor, step: int, size: int, seed: int) -> torch.Tensor:
    """The batch of a step: the rank's windows in an order that is drawn anew for each pass over them."""
    size = min(size, len(windows))
    step_of_pass, passes = step % (len(windows) // size), step // (len(windows) // size)
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(seed + passes))
    return windows[order[step_of_pass * size : (step_of_pass + 1) * size]]


def loss_of(model: nn.Module, windows: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of the next byte, in nats. Guessing at random gives ln 256 = 5.5."""
    logits = model(windows[:, :-1])
    return functional.cross_entropy(logits.reshape(-1, VOCABULARY), windows[:, 1:].reshape(-1))


def learning_rate(step: int, steps: int, peak: float) -> float:
    """A short rise, then half a cosine down to a tenth of the peak."""
    rise = max(1, steps // 10)
    if step < rise:
        return peak * (step + 1) / rise
    return peak * (0.55 + 0.45 * math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def parameter_hash(model: nn.Module) -> str:
    """sha256 over the bytes of every parameter: equal only if the models are equal to the last bit."""
    total = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        total.update(name.encode())
        total.update(bytes(value.contiguous().flatten().view(torch.uint8).tolist()))
    return total.hexdigest()


def gather_text(text: str, length: int = 64) -> list[str]:
    """What every rank says, in the order of ranks."""
    said = text.encode()[:length].ljust(length)
    mine = torch.frombuffer(bytearray(said), dtype=torch.uint8)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, mine)
    return [bytes(one.tolist()).decode(errors="replace").strip() for one in everyone]


def mean_over_ranks(value: torch.Tensor) -> float:
    total = value.detach().clone()
    dist.all_reduce(total)
    return float(total) / dist.get_world_size()


def say(line: str) -> None:
    """Print a line with the time, in one piece, at once: the ranks of a node may share one log."""
    sys.stdout.write(f"{datetime.now().isoformat(' ', 'milliseconds')} {line}\n")
    sys.stdout.flush()


def join() -> tuple[int, int, int]:
    """Meet the other ranks (or nobody, when run by hand) and return (rank, local rank, world size)."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group("gloo")
    return dist.get_rank(), int(os.environ.get("LOCAL_RANK", "0")), world_size


class Stop:
    """Whether someone asked the program to end. The handler only notes it: a signal may come in mid-calculation."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self.note)

    def note(self, *_: object) -> None:
        self.asked = True

    def agreed(self) -> bool:
        """True on all ranks or on none: the signal reaches them at different steps, and a rank alone cannot save."""
        asked = torch.tensor(int(self.asked))
        dist.all_reduce(asked, op=dist.ReduceOp.MAX)
        return bool(asked)


def save(path: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Keep what the next step needs; the file is the old one or the new one, never half of one."""
    temporary = path.with_name(path.name + ".tmp")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, temporary)
    temporary.replace(path)


def restore(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The step to go on at: 0 where nothing was saved."""
    if not path.exists():
        return 0
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["step"]


def train(options: argparse.Namespace) -> "dict[str, object] | None":
    """Train together with the other ranks; the result is the same on all of them. None: told to end before the end."""
    stop = Stop()
    rank, local_rank, world_size = join()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.manual_seed(options.seed)

    windows = windows_of(options.data.read_bytes(), options.context)
    held_out = max(world_size, len(windows) // 10)
    mine, unseen = shard(windows[:-held_out], rank, world_size), shard(windows[-held_out:], rank, world_size)
    say(
        f"rank {rank}/{world_size} local rank {local_rank} host {socket.gethostname()} pid {os.getpid()} "
        f"threads {torch.get_num_threads()} windows {len(mine)}"
    )

    model = DistributedDataParallel(LanguageModel(options.context, options.width, options.layers, options.heads))
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.01)
    with torch.no_grad():
        first_loss = mean_over_ranks(loss_of(model.module, unseen))

    start = restore(options.checkpoint, model.module, optimizer)
    if start and rank == 0:
        say(f"resumed at step {start}")
    began, speed = time.perf_counter(), 0.0
    for step in range(start, options.steps):
        stopping = stop.agreed()
        due = options.save_every and step > start and step % options.save_every == 0
        if rank == 0 and (stopping or due):
            save(options.checkpoint, step, model.module, optimizer)
            say(f"saved checkpoint at step {step}")
        if stopping:
            dist.barrier()  # a rank that ends early could have the others ended before rank 0 has saved
            return None
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options.steps, options.lr)
        loss = loss_of(model, batch_at(mine, step, options.batch, options.seed))
        optimizer.zero_grad()
        loss.backward()  # DDP averages the gradients over all ranks meanwhile
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step == start or (step + 1) % options.log_every == 0 or step + 1 == options.steps:
            mean = mean_over_ranks(loss)
            speed = (step + 1 - start) * min(options.batch, len(mine)) * options.context * world_size
            speed = speed / (time.perf_counter() - began)
            if rank == 0:
                say(f"step {step + 1}/{options.steps} loss {mean:.3f} tokens/s {speed:.0f}")

    with torch.no_grad():
        final_loss = mean_over_ranks(loss_of(model.module, unseen))
    rank_sum = torch.tensor(rank)
    dist.all_reduce(rank_sum)
    hashes = gather_text(parameter_hash(model.module))
    result = {
        "loss": round(final_loss, 4),
        "first_loss": round(first_loss, 4),
        "steps": options.steps,
        "world_size": world_size,
        "tokens_per_s": round(speed),
        "rank_sum": int(rank_sum),
        "parameters_identical": len(set(hashes)) == 1,
        "parameter_hashes": hashes,
        "hosts": gather_text(socket.gethostname()),
        "seed": options.seed,
        "torch": torch.__version__,
    }
    return result


def write_result(path: Path, result: dict[str, object]) -> None:
    """Write the whole file or nothing: whoever waits for it must never read half of it."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


def parse(arguments: "list[str] | None" = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=8, help="windows a rank and step")
    parser.add_argument("--context", type=int, default=64, help="bytes the model sees")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--lr", type=float, default=6e-3)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("RANKZERO_SEED", "1")))
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--save-every", type=int, default=0, help="steps; 0: only when told to end")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    parser.add_argument("--data", type=Path, default=Path(__file__).with_name("data") / "text.txt")
    parser.add_argument("--result", type=Path, default=Path(os.environ.get("RANKZERO_ARTIFACT", "result.json")))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse()
    result = train(options)
    if result is not None and int(os.environ.get("RANK", "0")) == 0:
        write_result(options.result, result)
        say(f"result {options.result} loss {result['loss']} parameters_identical {result['parameters_identical']}")
    # The process group ends with the process. Freeing it waits for Gloo's threads and holds the interpreter's lock: one
    # that releases a tensor meanwhile waits for that lock, and the rank hangs. In a shutdown it aborts the process.
    sys.stdout.flush()
    os._exit(0)
