# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Train a byte-level BPE tokenizer: train_tokenizer.py FOLDER VOCABULARY SPECIAL_TOKENS(JSON) TEXT...

FOLDER is there whole or not at all. Needs the package tokenizers.
"""

import json
import os
import shutil
import sys


def main(folder, vocabulary, special, texts):
    try:
        from tokenizers import ByteLevelBPETokenizer
    except ImportError as error:
        raise SystemExit(f"tokenizer_python: {sys.executable} has no package tokenizers ({error})") from None
    folder, tokens = os.path.expanduser(folder), json.loads(special)
    trained = ByteLevelBPETokenizer()
    trained.train([os.path.expanduser(text) for text in texts], vocab_size=int(vocabulary), special_tokens=tokens)
    fresh = f"{folder}.{os.getpid()}"
    os.makedirs(fresh)
    try:
        trained.save(os.path.join(fresh, "tokenizer.json"))
        end = tokens[0] if tokens else None
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end, "pad_token": end}
        # What a library looks for first when it is given the name only.
        documents = {"tokenizer_config.json": settings, "config.json": {"vocab_size": trained.get_vocab_size()}}
        for name, content in documents.items():
            with open(os.path.join(fresh, name), "w", encoding="utf-8") as stream:
                json.dump(content, stream, indent=1)
        os.rename(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
