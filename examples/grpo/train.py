"""GRPO in small: servers sample several answers to each prompt, and the policy learns from how they compare.

Each rank of the trainer asks the servers for answers to its own prompts. An answer counts by how much better it is than
the others to the same prompt. The ranks learn one policy together (DDP); a server gets its new weights from who asks.
"""

import argparse
import json
import os
import time
import urllib.request
from datetime import datetime

import policy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

PROMPTS, ANSWERS, LENGTH = 8, 16, 8
SECONDS, TRIES = 20, 60


def send(method: str, url: str, body: "bytes | None") -> "dict[str, object]":
    """What a server answers. Raises OSError."""
    with urllib.request.urlopen(urllib.request.Request(url, body, method=method), timeout=SECONDS) as answer:
        return json.load(answer)


def sample(servers: list[str], rank: int, version: int, model: torch.nn.Module, prompts: torch.Tensor) -> torch.Tensor:
    """Answers of a server to prompts [batch]: [batch, 1 + LENGTH]. Each rank begins with another server.

    A server that has other weights gets these first. One that starts again has time.
    """
    body = json.dumps({"prompts": prompts.tolist(), "length": LENGTH}).encode()
    for number in range(TRIES):
        server = servers[(rank + number) % len(servers)]
        try:
            if send("GET", f"{server}/version", None)["version"] != str(version):
                send("PUT", f"{server}/weights/{version}", policy.to_bytes(model))
            return torch.tensor(send("POST", f"{server}/generate/{version}", body)["tokens"])
        except OSError as error:
            print(f"{server}: {error} (try {number + 1} of {TRIES})", flush=True)
            time.sleep(1)
    raise SystemExit(f"no server has answered in {TRIES} tries")


def loss_of(model: torch.nn.Module, tokens: torch.Tensor, rewards: torch.Tensor) -> torch.Tensor:
    """Answers [prompts, ANSWERS, 1 + LENGTH] and their rewards: those above the mean of their prompt become likelier.

    The samples come from this very policy, so the ratio of GRPO is 1 and nothing is clipped.
    """
    advantage = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    flat = tokens.flatten(0, 1)
    odds = model(flat[:, :-1]).log_softmax(-1).gather(-1, flat[:, 1:, None])[..., 0]
    return -(advantage.flatten()[:, None] * odds).mean()


def mean(value: float) -> float:
    """The mean over all ranks."""
    total = torch.tensor(value)
    dist.all_reduce(total)
    return float(total) / dist.get_world_size()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollout", required=True, help="URLs of the servers, with commas between them")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--lr", type=float, default=0.02)
    given = parser.parse_args()
    servers = given.rollout.split(",")
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ["RANKZERO_SEED"]))
    model = DistributedDataParallel(policy.Policy())
    optimizer = torch.optim.Adam(model.parameters(), lr=given.lr)
    draw = torch.Generator().manual_seed(rank)
    rewards: list[float] = []
    for step in range(given.steps):
        prompts = torch.randint(policy.TOKENS, (PROMPTS,), generator=draw).repeat_interleave(ANSWERS)
        tokens = sample(servers, rank, step, model.module, prompts).view(PROMPTS, ANSWERS, -1)
        earned = policy.reward(tokens)
        loss = loss_of(model, tokens, earned)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rewards.append(mean(float(earned.mean())))
        if rank == 0 and (step == 0 or (step + 1) % 10 == 0):
            now = datetime.now().isoformat(" ", "milliseconds")
            print(f"{now} step {step + 1}/{given.steps} reward {rewards[-1]:.3f} loss {loss:.4f}", flush=True)
    own = torch.cat([value.flatten() for value in model.module.state_dict().values()])
    everyone = [torch.empty_like(own) for _ in range(world)]
    dist.all_gather(everyone, own)
    if rank == 0:
        last = rewards[-5:]
        result = {
            "reward": round(sum(last) / len(last), 4),
            "first_reward": round(rewards[0], 4),
            "parameters_identical": all(torch.equal(own, other) for other in everyone),
            "steps": given.steps,
            "servers": len(servers),
        }
        with open("result.json.tmp", "w", encoding="utf-8") as stream:
            json.dump(result, stream)
        os.replace("result.json.tmp", "result.json")
    dist.barrier()
    # Gloo's threads may abort the process while the interpreter shuts down.
    os._exit(0)


if __name__ == "__main__":
    main()
