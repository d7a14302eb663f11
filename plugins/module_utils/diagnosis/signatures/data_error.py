# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data does not have the form that the program expects."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    RAISED,
    WEAK,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="data_error",
    what="the data is not what the program expects",
    remedy=(
        "Look at the record that it names; check the columns and the format of `data`, and that each rank "
        "has at least one batch."
    ),
    look="Look at the record or the file that the traceback was about, and whether other ranks read the same one.",
    matches=(
        raises(
            r"EOFError: Compressed file ended|ReadError: \(?[\"']?(?:unexpected end of data|not a gzip file)|"
            r"BadGzipFile|zlib\.error"
        ),
        raises(
            r"generator raised StopIteration|pyarrow\.lib\.Arrow\w+|"
            "DatasetGenerationError|DatasetGenerationCastError|UnidentifiedImageError|"
            "image file is truncated|UnicodeDecodeError|JSONDecodeError|(?:[Cc]olumn|"
            r"Feature)s? .*not (?:found|in|present)\b|not in the dataset(?! registry)|"
            "num_samples should be a positive integer|(?:[Dd]ataset|[Dd]ata ?loader|"
            "[Bb]atch).* (?:is empty|has no(?! attribute)|contains no|not enough|too (?:small|few))|CastError|BadZip|"
            "ParserError"
        ),
        raises(
            r"^StopIteration\b",
            frames=r"torch/utils/data/dataloader\.py\", line \d+, in __next__",
            strength=CAUSE,
            what="the data loader has no further batch",
            remedy=(
                "`next()` asked for more batches than there are: begin a new iterator for each epoch, or loop over "
                "the loader. On one rank only: it has fewer batches than the others (its sampler, `drop_last`)."
            ),
        ),
        # In any array: of the data, or of the program.
        raises(r"index \d+ is out of bounds|too many indices for array", strength=RAISED + 1),
        raises(
            # What is wrong with the arguments of a function is a mistake in the program.
            r"^(?!.*(?:argument|must be (?:a|an|one|in|set|spec)|not supported|DataLoader worker|does not support))"
            r"(?:KeyError|IndexError|ValueError|TypeError(?!: \w+\(\))|AttributeError: 'NoneType'|"
            r"StopIteration|RuntimeError|"
            r"AssertionError)\b",
            # What prepares or reads a record. An item of another object is none.
            frames=r"torch/utils/data/_utils/(?:fetch|collate|worker)|"
            r"(?:site|dist)-packages/datasets/[^\"]{0,200}\", line \d+, "
            r"in (?:map|_map_single|apply_function\w*|__iter__|"
            r"_?iter_\w+|_generate_\w+|_prepare_split\w*|decode_\w+|encode_\w+|cast_\w+|__getitem__|_getitem)\n|"
            r"in \w*collate\w*$|[Dd]ata[^\"/]{0,80}(?:/[^\"/]{0,80})?\", line \d+, in __getitem__\n",
            strength=RAISED + 1,
        ),
        raises(
            r"EmptyDataError|not in index\"?$|are in the \[columns\]|Unknown split|"
            r"corresponds to no data|BuilderConfig '?\S+'? not found|"
            r"Unable to infer (?:channel|dimension)|cannot identify image file|"
            r"[Cc]orrupt(?:ed)? (?:record|data|JPEG|image|PNG)|"
            r"\bDataLossError|Unsupported image|invalid (?:JSON|json|jsonl|csv)|Expecting (?:value|"
            r"property name|',' delimiter)|moov atom not found|"
            r"column names? .*(?:not|must)|[Ss]plit .*(?:not found|"
            r"does not exist|not in\b)|[Dd]ataset.*(?:has no (?!attribute)|no column|no samples|empty)",
            strength=CAUSE,
        ),
        # HDF5.
        raises(r"Unable to (?:synchronously )?open (?:file|object) \((?:truncated|file signature|bad )"),
        # Lightning ends normally without a step.
        says(
            r"`Trainer\.fit` stopped: No training batches",
            "No training batches",
            strength=WEAK + 4,
            what="there are no batches to train on",
            remedy=(
                "The data loader of the training is empty: look at the path and the filters of the data, and at a "
                "batch size that is larger than the data of a rank (`drop_last`)."
            ),
        ),
        raises("Cannot find sufficient samples|not enough (?:samples|data)"),
        raises(
            r"ValueError: Couldn't cast|default_collate: batch must contain|DecompressionBombError|"
            r"broken data stream|csv\.Error|cannot find video stream|You should supply an encoding"
        ),
        raises(
            r"expected sequence of length \d+ at dim|Unable to create tensor, you should probably",
            remedy=(
                "The samples of a batch differ in length: pad or cut them to one length (the tokenizer's padding and "
                "truncation, or the collator of the data loader)."
            ),
        ),
    ),
    examples=(
        "RuntimeError: generator raised StopIteration",
        "pyarrow.lib.ArrowInvalid: JSON parse error: Missing a name for object member.",
        "ValueError: num_samples should be a positive integer value, but got num_samples=0",
    ),
)
