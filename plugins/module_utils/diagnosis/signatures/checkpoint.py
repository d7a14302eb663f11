# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checkpoint is damaged, incomplete, or from another model."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    RAISED,
    WEAK,
    Signature,
    raises,
)

_PICKLED = (
    "PyTorch 2.6 and newer load only tensors by default (`weights_only=True`): allow the class that it names "
    "(`torch.serialization.add_safe_globals`), or load a file that you trust with `weights_only=False`."
)

_OTHER_MODEL = (
    "The keys and sizes that differ are named there or on the lines below it: take the configuration that the weights "
    "were trained with, or leave out the layers that are new. Parallel parts of a model are loaded with the layout "
    "that they were saved in (`parallelism.*`)."
)

# Activation checkpointing stores nothing.
_STORED = r"(?<!utils\.)(?<!activation )(?!.*(?:use_reentrant|[Rr]ecomput|checkpointing))"

SIGNATURE = Signature(
    family="checkpoint",
    what="a checkpoint is damaged or does not fit the model",
    remedy=(
        "Start from an older one (`checkpoint.dir`), or with the layout it was saved in (`parallelism.*`). "
        "A file that is cut short was written when the disk was full or the job ended."
    ),
    look=(
        "See whether the file that it names is complete (size, time of its last change), and which layout it "
        "was saved in."
    ),
    matches=(
        raises(
            r"SafetensorError|[Ee]rror while deserializing header|"
            "HeaderTooLarge|MetadataIncompleteBuffer|InvalidHeader(?:Length|Start|Deserialization)|incomplete metadata|"
            "PytorchStreamReader failed|failed finding central directory|invalid load key|"
            "UnpicklingError|Ran out of input|"
            r"(?:incomplete|[Cc]orrupt\w*|truncated|[Ii]nvalid|(?<!found )not a(?: valid)?|"
            r"point to a valid) checkpoint\b|"
            rf"{_STORED}checkpoint.*(?:corrupt|mismatch|incompatible|not (?:match|compatible))|"
            r"[Mm]issing key in checkpoint|BadZipFile|invalid magic number|"
            r"not (?:found|present) in (?:the )?(?:\w+ )?(?:state[_ ]dict|checkpoint)\b|"
            "unexpected EOF(?! while parsing)|loaded state dict (?:contains|has)"
        ),
        raises(
            r"Error\(s\) in loading state_dict|(?:Missing|Unexpected) keys? (?:\(?s?\)? )?in (?:source )?"
            r"(?:state[_ ]dict|checkpoint)|size mismatch for \S+:",
            what="the weights are of a model with another configuration",
            remedy=_OTHER_MODEL,
        ),
        raises(
            r"Weights only load failed|Unsupported (?:global|class|operand)\b.*(?:weights_only|safe_globals)|"
            r"not an allowed global by default",
            strength=CAUSE + 2,
            remedy=_PICKLED,
            what="torch refuses to unpickle an object of the file",
        ),
        raises(
            r"KeyError: '?[\w]*(?:model|layers?|module|encoder|decoder|embed\w*|lm_head|optimizer|"
            r"state_dict|transformer)\.[\w.]+",
            frames="checkpoint|state_dict|load|convert",
        ),
        raises(
            "KeyError: '?(?:state_dict|model_state_dict|optimizer|model|optimizer_state_dict|iteration)'?$",
            frames="load_checkpoint|load_state|resume|restore",
        ),
        raises("CheckpointException ranks:", strength=WEAK),
        raises(
            r"Unable to load weights from|[Ii]nvalid magic number|corrupt file|"
            r"Size mismatch between saved|Trying to set a tensor of shape|"
            r"ignore_mismatched_sizes|filename 'storages' not found|pickle data was truncated|"
            r"(?:shape|size) mismatch for (?:loaded|key)|does not match the (?:saved|checkpoint)|"
            rf"{_STORED}[Cc]heckpoint.*(?:shape|version|key)s?\b.*(?:mismatch|differ|missing|not found)|"
            r"Not a gzipped file|header (?:too (?:large|small)|is too)|InvalidOffset",
            strength=CAUSE + 1,
        ),
        # Megatron's, of a damaged checkpoint as of a setting.
        raises("CheckpointingException", strength=RAISED + 2),
        raises(
            r"(?:EOFError|RuntimeError|ValueError|KeyError|AttributeError|TypeError|OSError)\b",
            frames=r"torch/serialization\.py|in load_state_dict\n(?:.*\n){0,3}$|"
            r"checkpoint/(?:state_dict_loader|default_planner|planner_helpers)\.py",
            strength=RAISED + 2,
        ),
        raises(r"^EOFError$", frames=r"serialization\.py|_unpickler\.py|pickle\.load|in load_checkpoint"),
        raises(
            r"OptimizerParamScheduler: class input value .* do not match",
            strength=CAUSE + 3,
            what="the schedule in the checkpoint is not that of the arguments",
            remedy=(
                "Give the program the schedule that the checkpoint was saved with (iterations, warm-up, decay), or "
                "Megatron's `--override-opt_param-scheduler` or `--use-checkpoint-opt_param-scheduler` in `command`."
            ),
        ),
        raises("does not contain the valid metadata", strength=CAUSE + 1),
    ),
    examples=(
        "AssertionError: OptimizerParamScheduler: class input value 2 and checkpointvalue 1 for it do not match",
        "RuntimeError: Error(s) in loading state_dict for GPT:",
        "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
        "_pickle.UnpicklingError: invalid load key, '\\x00'.",
    ),
)
