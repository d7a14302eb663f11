"""Train a small BERT to classify short texts, by the Trainer of transformers, and prove that all ranks took part.

The corpus and the tokenizer come from local storage (see trainer.yml): nothing here needs a network.
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
import transformers
from datasets import load_from_disk
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

LONGEST = 32  # tokens of a text


class Losses(TrainerCallback):
    """Print the losses that the Trainer logs in the form that the launch follows."""

    def __init__(self):
        self.last = None

    def on_log(self, args, state, control, logs=None, **_kwargs):
        if logs and "loss" in logs:
            self.last = logs["loss"]
            if state.is_world_process_zero:
                now = time.strftime("%Y-%m-%d %H:%M:%S")
                print(f"{now} step {state.global_step}/{state.max_steps} loss {logs['loss']:.4f}", flush=True)


def fingerprint(model):
    values = torch.cat([value.detach().flatten().float() for _name, value in sorted(model.state_dict().items())])
    return hashlib.sha256(values.numpy().tobytes()).hexdigest()[:16]


def model_of(tokenizer, labels):
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256}
    config = BertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=256,
        num_labels=labels,
        pad_token_id=tokenizer.pad_token_id,
        **sizes,
    )
    return BertForSequenceClassification(config)


def save(trainer, tokenizer, folder):
    """Rank 0 saves model and tokenizer, as from_pretrained reads them."""
    print(f"Saving model to {folder}", flush=True)
    trainer.save_model(folder)
    tokenizer.save_pretrained(folder)
    return sorted(os.listdir(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tokenizer", default="course/wordpiece")
    parser.add_argument("--subset", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--out", default="tiny_out")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"[RANK {rank}] WORLD_SIZE={world} host={socket.gethostname()} threads={torch.get_num_threads()}", flush=True)
    transformers.set_seed(int(os.environ.get("RANKZERO_SEED", "1")))

    tokenizer = AutoTokenizer.from_pretrained(options.tokenizer)
    corpus = load_from_disk(os.environ["RANKZERO_DATA_NEWS"])
    corpus = corpus.select(range(min(options.subset, len(corpus))))
    tokens = corpus.map(
        lambda texts: tokenizer(texts["text"], truncation=True, max_length=LONGEST),
        batched=True,
        remove_columns=["text"],
        keep_in_memory=True,  # the corpus lies on storage that no job writes to
    )
    labels = corpus.features["label"].num_classes
    losses = Losses()
    trainer = Trainer(
        model=model_of(tokenizer, labels),
        args=TrainingArguments(
            output_dir=options.out,
            num_train_epochs=options.epochs,
            per_device_train_batch_size=options.batch,
            learning_rate=5e-3,
            logging_steps=10,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            ddp_backend="gloo",
            ddp_find_unused_parameters=False,
            disable_tqdm=True,
        ),
        train_dataset=tokens,
        data_collator=DataCollatorWithPadding(tokenizer),
        callbacks=[losses],
    )
    done = trainer.train()

    statements = [None] * world
    dist.all_gather_object(statements, [rank, world, socket.gethostname(), fingerprint(trainer.model), losses.last])
    if rank == 0:
        files = save(trainer, tokenizer, options.out)
        result = {
            "loss": losses.last,
            "mean_loss": done.training_loss,
            "steps": done.global_step,
            "world_size": world,
            "ranks": [statement[0] for statement in statements],
            "world_size_proven": [statement[:2] for statement in statements] == [[n, world] for n in range(world)],
            "hosts": sorted({statement[2] for statement in statements}),
            "models_identical": len({statement[3] for statement in statements}) == 1,
            "losses_identical": losses.last is not None and len({statement[4] for statement in statements}) == 1,
            "model_saved": "config.json" in files and any(name.startswith("model.") for name in files),
            "files": files,
            "epochs": options.epochs,
            "samples": len(corpus),
            "seconds_per_epoch": done.metrics["train_runtime"] / options.epochs,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }
        temporary = Path("result.json.tmp")
        temporary.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        temporary.replace(os.environ.get("RANKZERO_ARTIFACT", "result.json"))
    dist.barrier()


if __name__ == "__main__":
    main()
    # The process group ends with the process. Freeing it waits for Gloo's threads and holds the interpreter's lock: one
    # that releases a tensor meanwhile waits for that lock, and the rank hangs. In a shutdown it aborts the process.
    sys.stdout.flush()
    os._exit(0)
