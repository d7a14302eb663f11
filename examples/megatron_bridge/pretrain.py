"""One rank of a Megatron Bridge recipe, with the sizes of the job; then rank 0 writes the proof.

Told to end by SIGTERM, Megatron Bridge saves itself and exits, and no proof is written; started again, it goes on from
the same folder.
"""

import argparse
import json
import os
from pathlib import Path

from megatron.bridge.recipes.llama import llama32_1b_pretrain_config
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.pretrain import pretrain


def size(name: str) -> int:
    """A number of the job's section `parallelism`."""
    return int(os.environ[f"RANKZERO_{name}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--train-iters", type=int, default=500)
    options = parser.parse_args()
    checkpoints = Path(os.environ["RANKZERO_CHECKPOINT_DIR"])

    config = llama32_1b_pretrain_config()
    config.model.tensor_model_parallel_size = size("TP")
    config.model.pipeline_model_parallel_size = size("PP")
    config.model.context_parallel_size = size("CP")
    config.model.expert_model_parallel_size = size("EP")
    config.train.micro_batch_size = size("MBS")
    config.train.global_batch_size = size("GBS")
    config.train.train_iters = options.train_iters
    config.train.exit_signal_handler = True
    config.rng.seed = int(os.environ["RANKZERO_SEED"])
    config.checkpoint.save = config.checkpoint.load = str(checkpoints)
    pretrain(config=config, forward_step_func=forward_step)

    if os.environ["RANK"] == "0":
        iteration = int((checkpoints / "latest_checkpointed_iteration.txt").read_text(encoding="utf-8"))
        artifact = Path(os.environ["RANKZERO_ARTIFACT"])
        temporary = artifact.with_name(artifact.name + ".tmp")
        temporary.write_text(json.dumps({"iteration": iteration, "checkpoints": str(checkpoints)}), encoding="utf-8")
        temporary.replace(artifact)


if __name__ == "__main__":
    main()
