# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Train a tokenizer: train_tokenizer.py FOLDER ALGORITHM VOCABULARY SPECIAL_TOKENS(JSON) TEXT...

ALGORITHM is `bpe` (byte-level, as GPT) or `wordpiece` (lower case, as BERT).

FOLDER is there whole or not at all. Needs the package tokenizers.
"""

import json
import os
import shutil
import sys

# The special tokens of BERT, in the order in which its own vocabularies have them.
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def byte_level(texts, vocabulary, tokens):
    """(tokenizer, its settings) of a byte-level BPE tokenizer."""
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    trained.train(texts, vocab_size=vocabulary, special_tokens=tokens)
    end = tokens[0] if tokens else None
    return trained, {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end, "pad_token": end}


def word_piece(texts, vocabulary, tokens):
    """(tokenizer, its settings) of a WordPiece tokenizer; `tokens` come after those of BERT."""
    from tokenizers import BertWordPieceTokenizer

    trained = BertWordPieceTokenizer(lowercase=True)
    tokens = BERT + [token for token in tokens if token not in BERT]
    trained.train(texts, vocab_size=vocabulary, special_tokens=tokens, show_progress=False)
    names = {f"{token[1:-1].lower()}_token": token for token in BERT}
    return trained, {"tokenizer_class": "BertTokenizerFast", "do_lower_case": True, **names}


def main(folder, algorithm, vocabulary, special, texts):
    texts = [os.path.expanduser(text) for text in texts]
    folder, tokens = os.path.expanduser(folder), json.loads(special)
    try:
        train = {"bpe": byte_level, "wordpiece": word_piece}[algorithm]
        trained, settings = train(texts, int(vocabulary), tokens)
    except ImportError as error:
        raise SystemExit(f"tokenizer_python: {sys.executable} has no package tokenizers ({error})") from None
    config = {"vocab_size": trained.get_vocab_size()}
    if algorithm == "wordpiece":
        config["model_type"] = "bert"
    fresh = f"{folder}.{os.getpid()}"
    os.makedirs(fresh)
    try:
        trained.save(os.path.join(fresh, "tokenizer.json"))
        # What a library looks for first when it is given the name only.
        documents = {"tokenizer_config.json": settings, "config.json": config}
        for name, content in documents.items():
            with open(os.path.join(fresh, name), "w", encoding="utf-8") as stream:
                json.dump(content, stream, indent=1)
        os.rename(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
