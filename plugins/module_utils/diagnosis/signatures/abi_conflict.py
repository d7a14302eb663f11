# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A compiled extension was built for another version of what it is loaded with."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="abi_conflict",
    what="a compiled extension does not fit the libraries that it runs with",
    remedy=(
        "Build it in the environment that runs it: lock torch and the extension together "
        "(`environment.project`), one CUDA only (`setup.modules`, `container.image`), and nothing in "
        "`env.LD_LIBRARY_PATH` or `env.PYTHONPATH` from elsewhere."
    ),
    look=(
        "Compare the versions in that line with what the ranks import: `preflight.imports` shows each "
        "package's version on each node."
    ),
    matches=(
        says(
            "(?:ImportError|OSError|RuntimeError|AttributeError|"
            "symbol lookup error).*undefined symbol: (?P<symbol>(?!_*(?:nvJitLink|cu(?:blas|dnn|sparse|"
            r"solver|fft))|nccl)\S+)",
            "undefined symbol:",
            strength=CAUSE + 1,
        ),
        says(r"version [`']?(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+'? not found", "GLIBC_", "GLIBCXX_", "CXXABI_"),
        raises(
            "module compiled against (?:API|ABI) version|was compiled (?:with|against|"
            "for) (?:a different|another)|"
            r"Detected that PyTorch and \S+ were compiled with different CUDA|"
            "partially initiali[sz]ed module|object has no attribute '(?:__version__|_C)'"
        ),
        raises(
            r"module '(?:torch|transformers|triton|deepspeed|jax|flax|megatron|apex|flash_attn|"
            r"transformer_engine)[\w.]*' "
            "has no attribute"
        ),
        raises(
            "got an unexpected keyword argument '(?:dispatch_batches|use_auth_token|logits_to_keep|num_items_in_batch)'"
        ),
        raises(
            "cannot import name '(?P<name>[^']+)' from (?:partially initialized module )?'(?:torch|"
            "transformers|numpy|deepspeed|megatron|apex|accelerate|flash_attn|peft|datasets|"
            r"huggingface_hub|tokenizers)\b",
            strength=CAUSE + 1,
        ),
        raises(
            "Failed to import \\S+ because of the following error|"
            "operator torchvision::\\w+ does not exist|Could not load this library: "
        ),
        raises(
            r"'(?:Dynamic|Static|Encoder)\w*Cache' object has no attribute|'\w*(?:Tokenizer\w*|"
            r"ForCausalLM|Config|Trainer|"
            r"Accelerator)' object has no attribute '_?(?:[a-z]+_)*(?:cache|tokens?|state|keys|"
            r"version|engine|special_tokens\w*|ds_\w+)'$",
            strength=CAUSE - 4,
        ),
        raises(
            r"\b(?:\w*Trainer|\w*Arguments|Accelerator|(?:SFT|DPO|GRPO|PPO|KTO|ORPO|Lora|Peft|"
            r"BitsAndBytes|Training)\w*Config"
            r"|\w+For(?:CausalLM|SequenceClassification|ConditionalGeneration|TokenClassification|QuestionAnswering)"
            r"|AdamW|ModelCheckpoint|Dataset\w*|load_dataset|from_pretrained|snapshot_download|hf_hub_download)"
            r"(?:\.__init__|\.\w+)?\(\) got an unexpected keyword argument",
            strength=CAUSE - 4,
        ),
        raises("has no attribute 'ImpImporter'"),
    ),
    examples=(
        "ImportError: /x/fused.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda20example",
        "ImportError: /lib/libc.so.6: version `GLIBC_2.34' not found (required by x.so)",
        "ImportError: cannot import name 'CommitInfo' from 'huggingface_hub' (/x/__init__.py)",
    ),
)
