# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages whose versions do not fit: a compiled extension, or code that expects another version of a library."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    RAISED,
    Signature,
    raises,
    says,
)

_VERSIONS = (
    "The code expects another version of that package: choose versions that fit each other in the project "
    "(`environment.project`) and lock them. If the project has them, another copy comes first: `env.PYTHONPATH`, "
    "`setup.modules`, the image. `preflight.imports` shows each package's version on each node."
)
_NO_SUCH_NAME = (
    "The installed version of the package has no such name. See in its documentation how the name is spelled, and "
    "which versions have it: correct the import, or lock one of those in the project (`environment.project`). "
    "`preflight.imports` shows each package's version on each node."
)
_UNFIT = "the code expects another version of a package"
_CIRCULAR = (
    "Two modules import each other, or a file of the program has the name of that package: rename the file, or import "
    "where the name is used."
)
# A library called another one: none of the program's own calls is wrong.
# Wrappers call what the program has written.
_IN_A_LIBRARY = (
    r"(?:site|dist)-packages/[^\"]*\", line \d+, in (?!__getattr__|_?_?(?:wrapped_)?call_|decorate_|wrap|inner\b)\S+\n"
    r"(?!\s*raise\b)(?:(?!\s*File \")[^\n]*\n)*\Z"
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
        says(
            r"version [`']?(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+'? not found",
            "GLIBC_",
            "GLIBCXX_",
            "CXXABI_",
            what="a binary needs a newer system library than the node has",
            remedy=(
                "Run it in an image with a newer system (`container.image`), or build it on a system like the nodes'. "
                "A newer libstdc++ may come from a module (`setup.modules`) or from conda; a newer glibc may not."
            ),
        ),
        raises(
            "module compiled against (?:API|ABI) version|was compiled (?:with|against|"
            "for) (?:a different|another)|"
            r"Detected that PyTorch and \S+ were compiled with different CUDA|"
            "object has no attribute '(?:__version__|_C)'"
        ),
        raises(
            "partially initiali[sz]ed module",
            strength=CAUSE + 2,
            remedy=_CIRCULAR,
            what="a module is imported before it is complete",
        ),
        raises(
            r"module '(?:torch|transformers|triton|deepspeed|jax|flax|megatron|apex|flash_attn|"
            r"transformer_engine)[\w.]*' "
            "has no attribute",
            remedy=_VERSIONS,
            what=_UNFIT,
        ),
        raises(
            "got an unexpected keyword argument '(?:dispatch_batches|use_auth_token|logits_to_keep|"
            "num_items_in_batch)'",
            remedy=_VERSIONS,
            what=_UNFIT,
        ),
        raises(
            "cannot import name '(?P<name>[^']+)' from '(?:torch|transformers|numpy|deepspeed|megatron|apex|accelerate|"
            r"flash_attn|peft|datasets|huggingface_hub|tokenizers|trl|diffusers|timm|(?:pytorch_)?lightning|jax|flax|"
            r"tensorflow|keras|sklearn|scipy|pandas|torchvision|torchaudio|torchtext|torchmetrics|triton|vllm|ray|"
            r"pydantic|typing_extensions|importlib_metadata|packaging|collections|markupsafe|jinja2|werkzeug)\b",
            strength=CAUSE + 1,
            remedy=_NO_SUCH_NAME,
            what="a package has no such name: {name}",
        ),
        # The message of an import names the version that it found.
        raises(
            r"ImportError\b(?!.*compute capability)(?=.*(?:>=|==|\b(?:[Uu]pgrade|or (?:higher|newer|above|later)|"
            r"incompatible|at least)\b))"
            r".*(?:[Yy]our (?:\w+ )?version|but found|[Ff]ound (?:an? )?(?:\w+ )?version|[Cc]urrently|current version|"
            r"installed version|(?:\bversion|[=<>]=) ?\d\S* (?:is|was) (?:found|installed))",
            strength=CAUSE + 1,
            remedy=_VERSIONS,
            what=_UNFIT,
        ),
        raises(
            r"ImportError\b.*(?:requires? (?:PyTorch|torch) ?(?:>=|v?\d)|"
            r"at least version \d)",
            remedy=_VERSIONS,
            what=_UNFIT,
        ),
        raises(
            "Failed to import \\S+ because of the following error|"
            "operator torchvision::\\w+ does not exist|Could not load this library: "
        ),
        raises(
            r"'(?:Dynamic|Static|Encoder)\w*Cache' object has no attribute|'[A-Z]\w+(?:Tokenizer\w*|"
            r"ForCausalLM|Config|Trainer|"
            r"Accelerator)' object has no attribute '_?(?:[a-z]+_)*(?:cache|tokens?|state|keys|"
            r"version|engine|special_tokens\w*|ds_\w+)'$",
            # A program has classes of such names as well.
            strength=RAISED + 2,
            remedy=_VERSIONS,
            what=_UNFIT,
        ),
        raises(
            r"\b(?:(?:Seq2Seq|SFT|DPO|GRPO|PPO|KTO|ORPO|RLOO|Reward)Trainer|(?:Seq2Seq)?TrainingArguments|Accelerator|"
            r"(?:SFT|DPO|GRPO|PPO|KTO|ORPO|Lora|Peft|BitsAndBytes|Training)\w*Config"
            r"|\w+For(?:CausalLM|SequenceClassification|ConditionalGeneration|TokenClassification|QuestionAnswering)"
            r"|AdamW|ModelCheckpoint|load_dataset|from_pretrained|snapshot_download|hf_hub_download)"
            r"(?:\.__init__|\.\w+)?\(\) got an unexpected keyword argument",
            strength=CAUSE - 4,
            remedy=_VERSIONS,
            what=_UNFIT,
        ),
        raises(
            # A program may have a class of that name as well.
            r"\bTrainer(?:\.__init__)?\(\) got an unexpected keyword argument",
            strength=RAISED + 2,
            remedy=_VERSIONS,
            what=_UNFIT,
        ),
        raises(
            r"got an unexpected keyword argument|module '[\w.]+' has no attribute",
            frames=_IN_A_LIBRARY,
            strength=RAISED + 2,
            remedy=_VERSIONS,
            what=_UNFIT,
        ),
        raises("has no attribute 'ImpImporter'", remedy=_VERSIONS, what=_UNFIT),
    ),
    examples=(
        "ImportError: /x/fused.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda20example",
        "ImportError: /lib/libc.so.6: version `GLIBC_2.34' not found (required by x.so)",
        "ImportError: cannot import name 'CommitInfo' from 'huggingface_hub' (/x/__init__.py)",
    ),
)
