"""The policy, its reward, and how it goes from the trainer to the servers. Both programs build the same one."""

import io

import torch
from torch import nn

TOKENS = 12


class Policy(nn.Module):
    """A language model of a few thousand parameters."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens [batch, length] in, the odds of each next one out: logits [batch, length, TOKENS]."""
        return self.head(self.mix(self.embed(tokens))[0])


@torch.no_grad()
def generate(policy: Policy, prompts: torch.Tensor, length: int) -> torch.Tensor:
    """Prompts [batch, 1] with `length` sampled tokens behind them: [batch, 1 + length]."""
    tokens = prompts
    for _ in range(length):
        odds = policy(tokens)[:, -1].softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(odds, 1)], dim=1)
    return tokens


def reward(tokens: torch.Tensor) -> torch.Tensor:
    """The part of the tokens [..., length] that count on from the one before, 0 to 1: at random 1 of TOKENS."""
    return ((tokens[..., 1:] - tokens[..., :-1]) % TOKENS == 1).float().mean(-1)


def to_bytes(policy: nn.Module) -> bytes:
    """The weights, for the way to a server."""
    stream = io.BytesIO()
    torch.save(policy.state_dict(), stream)
    return stream.getvalue()


def load_bytes(policy: nn.Module, weights: bytes) -> None:
    """What `to_bytes` made. Nothing in it is executed."""
    policy.load_state_dict(torch.load(io.BytesIO(weights), weights_only=True))
