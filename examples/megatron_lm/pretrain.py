"""One rank of Megatron-LM's own pretrain_gpt.py, with the sizes of the job; then rank 0 writes the proof.

The options that are given here go on to Megatron-LM. Told to end by SIGTERM, Megatron-LM saves itself and exits
(--exit-signal-handler), and no proof is written; started again, it goes on from the same folder.
"""

import json
import os
import runpy
import sys
from pathlib import Path


def size(name: str) -> str:
    """A number of the job's section `parallelism`."""
    return os.environ[f"RANKZERO_{name}"]


def options_of(checkpoints: Path) -> "list[str]":
    return [
        *("--tensor-model-parallel-size", size("TP")),
        *("--pipeline-model-parallel-size", size("PP")),
        *("--context-parallel-size", size("CP")),
        *("--micro-batch-size", size("MBS")),
        *("--global-batch-size", size("GBS")),
        *("--seq-length", "2048", "--max-position-embeddings", "2048"),
        *("--bf16", "--lr", "3e-4", "--lr-decay-style", "cosine", "--log-interval", "10"),
        *("--seed", os.environ["RANKZERO_SEED"], "--distributed-backend", "nccl"),
        *("--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", "50257"),
        *("--save", str(checkpoints), "--load", str(checkpoints), "--save-interval", "100"),
        "--exit-signal-handler",
    ]


def main() -> None:
    checkpoints = Path(os.environ["RANKZERO_CHECKPOINT_DIR"])
    framework = Path(os.environ["MEGATRON_LM"])
    # The mounted worktree comes before a package that the image may have.
    sys.path.insert(0, str(framework))
    sys.argv = ["pretrain_gpt.py", *options_of(checkpoints), *sys.argv[1:]]
    runpy.run_path(str(framework / "pretrain_gpt.py"), run_name="__main__")
    if os.environ["RANK"] == "0":
        iteration = int((checkpoints / "latest_checkpointed_iteration.txt").read_text(encoding="utf-8"))
        artifact = Path(os.environ["RANKZERO_ARTIFACT"])
        temporary = artifact.with_name(artifact.name + ".tmp")
        temporary.write_text(json.dumps({"iteration": iteration, "checkpoints": str(checkpoints)}), encoding="utf-8")
        temporary.replace(artifact)


if __name__ == "__main__":
    main()
