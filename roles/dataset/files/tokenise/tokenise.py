# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text -> shards of tokens: tokens/shard-RANK-NUMBER.bin, little-endian, two bytes a token (four where they need it).

Each rank takes every so-many-th file of $RANKZERO_DATA_TEXT. Rank 0 writes tokens.json, which describes the shards, and
SHA256SUMS, once all ranks have said that they are done. Standard library only, unless a tokenizer is named.
"""

from __future__ import annotations

import argparse
import array
import glob
import gzip
import hashlib
import json
import os
import shutil
import sys
import time

# How long rank 0 waits for the others without a new word of any.
PATIENCE = 3600.0
CHUNK = 1 << 20


def tokenizer(name):
    """(text -> numbers, what ends a text, how many there are)."""
    if name == "bytes":
        return (lambda text: text.encode("utf-8", "replace")), 256, 257
    try:
        if name.endswith(".json"):
            from tokenizers import Tokenizer

            loaded = Tokenizer.from_file(os.path.expanduser(name))
            ends = [loaded.token_to_id(word) for word in ("<|endoftext|>", "</s>", "<eos>", "[SEP]")]
            end = next((number for number in ends if number is not None), None)
            return (lambda text: loaded.encode(text, add_special_tokens=False).ids), end, loaded.get_vocab_size()
        from transformers import AutoTokenizer

        loaded = AutoTokenizer.from_pretrained(name)
        return (lambda text: loaded(text, add_special_tokens=False)["input_ids"]), loaded.eos_token_id, len(loaded)
    except ImportError as error:
        raise SystemExit(
            f"dataset_tokens_tokenizer: {name} needs the package {error.name}, which this job's Python lacks; give the "
            "job an environment that has it (dataset_tokens_job), or use bytes"
        ) from None


def texts(path, field):
    """The texts of a file: each line's field of JSON lines, else the file as a whole, in chunks of whole lines."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as stream:
        if path.removesuffix(".gz").endswith((".jsonl", ".ndjson")):
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                try:
                    yield json.loads(line)[field], True
                except (ValueError, KeyError, TypeError) as error:
                    raise SystemExit(
                        f"dataset_tokens_field: line {number} of {path} has no {field!r}: {error}"
                    ) from None
            return
        while lines := stream.readlines(CHUNK):
            yield "".join(lines), False
        yield "", True


class Shards:
    """Files of at most so many tokens each."""

    def __init__(self, folder, rank, size, kind):
        self.folder, self.rank, self.size, self.kind = folder, rank, size, kind
        self.left, self.done = array.array(kind), []

    def add(self, numbers):
        self.left.extend(numbers)
        while len(self.left) >= self.size:
            self.write(self.left[: self.size])
            self.left = self.left[self.size :]

    def finish(self):
        if self.left:
            self.write(self.left)
        return self.done

    def write(self, tokens):
        name = f"shard-{self.rank:05d}-{len(self.done):05d}.bin"
        if sys.byteorder == "big":
            tokens.byteswap()
        content = tokens.tobytes()
        with open(os.path.join(self.folder, name), "wb") as stream:
            stream.write(content)
        digest = hashlib.sha256(content).hexdigest()
        self.done.append({"file": name, "tokens": len(tokens), "sha256": digest})


def publish(path, text):
    with open(f"{path}.tmp", "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(f"{path}.tmp", path)


def all_said(folder, world):
    """What each rank has made, once all have said it."""
    known, changed = -1, time.monotonic()
    while True:
        # Listed: a network file system may remember that a name was missing.
        said = [name for name in os.listdir(folder) if name.startswith("rank-") and name.endswith(".json")]
        if len(said) == world:
            break
        if len(said) != known:
            known, changed = len(said), time.monotonic()
        if time.monotonic() - changed > PATIENCE:
            raise SystemExit(f"{world - known} of {world} ranks have not said for {PATIENCE:.0f} s that they are done")
        time.sleep(0.2)
    found = []
    for name in sorted(said):
        with open(os.path.join(folder, name), encoding="utf-8") as stream:
            found.append(json.load(stream))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tokenizer", default="bytes")
    parser.add_argument("--field", default="text")
    parser.add_argument("--shard", type=int, default=100_000_000)
    given = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    source, target = os.environ["RANKZERO_DATA_TEXT"], "tokens"
    said = f".said-{os.environ.get('RANKZERO_ATTEMPT', '0')}"
    os.makedirs(target, exist_ok=True)
    os.makedirs(said, exist_ok=True)
    for old in glob.glob(os.path.join(target, f"shard-{rank:05d}-*")):
        os.unlink(old)
    encode, end, size = tokenizer(given.tokenizer)
    files = sorted(
        os.path.join(place, name) for place, _folders, names in os.walk(source, followlinks=True) for name in names
    )
    kind = "H" if size <= 1 << 16 else "I"
    shards, mine = Shards(target, rank, given.shard, kind), files[rank::world]
    for number, path in enumerate(mine, 1):
        for text, ends in texts(path, given.field):
            shards.add(encode(text))
            if ends and end is not None:
                shards.add([end])
        print(f"rank {rank}: step {number}/{len(mine)} {os.path.relpath(path, source)}", flush=True)
    publish(os.path.join(said, f"rank-{rank}.json"), json.dumps(shards.finish()))
    if rank != 0:
        return
    made = [shard for one in all_said(said, world) for shard in one]
    shutil.rmtree(said)
    described = {
        "tokens": sum(shard["tokens"] for shard in made),
        "files": len(files),
        "tokenizer": given.tokenizer,
        "vocabulary": size,
        "end": end,
        "dtype": "uint16" if kind == "H" else "uint32",
        "shards": made,
    }
    text = json.dumps(described, indent=1, sort_keys=True) + "\n"
    sums = [(shard["sha256"], shard["file"]) for shard in made]
    sums.append((hashlib.sha256(text.encode()).hexdigest(), "tokens.json"))
    publish(os.path.join(target, "SHA256SUMS"), "".join(f"{digest}  {name}\n" for digest, name in sums))
    publish(os.path.join(target, "tokens.json"), text)


if __name__ == "__main__":
    main()
