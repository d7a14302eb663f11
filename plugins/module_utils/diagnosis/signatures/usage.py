# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program does not accept its arguments or its configuration."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    RAISED,
    WEAK,
    Signature,
    raises,
    says,
)

# "Must be" and "is not supported" say little: only of a setting are they about the arguments.
_OF_A_SETTING = (
    r"(?=.*(?:`\w+`|--[a-z]|\b\w+[_-]\w+\b|(?<!Invalid)[Aa]rgument|[Oo]ption|[Pp]arameter|[Ss]etting|"
    r"[Ii]mplementation|\bmode\b|"
    r"[Bb]ackend|[Cc]onfig|[Ss]chedule|[Oo]ptimizer|[Pp]recision|\b(?:FSDP|DDP|ZeRO|LoRA|AMP)\b|"
    r"[Pp]arallel))(?!.*\b(?:[Tt]ensors?|gradients?|scalar|dtype)\b)"
)

# A call of these is written by a programmer: what they refuse is seldom an argument of the program.
_FRAME = (
    r"File \"(?![^\"]*/(?:numpy|pandas|scipy|sympy|sklearn|jax/_src|PIL|matplotlib|networkx|"
    r"torch(?!/(?:distributed|optim|utils/data|_ops))|torchvision|typing_extensions|keras/src/(?:ops|layers|backend)|"
    r"tensorflow/python/(?:framework|ops|eager))[/.])"
    r"[^\"]*\", line \d+, in (?!(?:_?forward\w*|_?backward|__getitem__|__getattr__)\n)[^\n]+\n"
)
_LAST = r"(?:(?!\s*File \")[^\n]*\n)*\Z"
_NO_CALL = rf"{_FRAME}{_LAST}|\A\Z"
# Python code raises it, no operation of a compiled library.
_BY_A_CHECK = rf"{_FRAME}\s*(?:raise|assert)\b{_LAST}|\A\Z"
# Devices and operating systems refuse calls as well; the types of objects are no settings.
_OF_A_CALL = (
    r"(?!.*(?:(?:CUDA|HIP|cuDNN|NCCL|[Dd]river)\w* (?:[Ee]rror|[Ff]ailure)|CUDNN_|CUBLAS_|[Ee]rrno|device-side|"
    r"<class '|[Pp]ositional argument|"
    r"must (?:not )?be (?:None|a (?:tensor|list|tuple|dict|string|callable|subclass))|\b[Tt]ensors?\b.*(?:dtype|"
    r"device|shape)|"
    r"\bdtypes?\b|process group has not))"
)

SIGNATURE = Signature(
    family="usage",
    what="an argument or a setting is not accepted",
    remedy=("Correct the arguments in `command`, or the configuration file that it reads: the line says which one."),
    look=(
        "See where the value in that line comes from: the arguments in `command` (compare its `--help`), a "
        "configuration file, or a call in the program (its traceback shows it)."
    ),
    matches=(
        says(
            "error: unrecognized arguments:.* --local[-_]rank",
            "error: unrecognized",
            strength=CAUSE + 1,
            remedy=(
                "The launcher adds `--local-rank`, not `command`: `launcher.kind: torchrun` sets LOCAL_RANK in the "
                "environment instead. A program of its time must accept the argument."
            ),
        ),
        says(
            r"^[^\s:(]+(?: \S+)?: error: (?:unrecognized arguments|the following arguments are required|"
            "argument|ambiguous option|invalid choice|one of the arguments|expected)|"
            "^Error: (?:No such (?:option|command)|Missing (?:option|argument|parameter|command)|"
            "Got unexpected|Invalid value)|"
            r"^(?:Could not override|Error merging|In '\S+': Could not find|LexerNoViableAltException|"
            "Missing mandatory value)",
            "error: ",
            "Error: ",
            "Could not override",
            "Error merging",
            "Could not find",
            "LexerNoViable",
            "Missing mandatory",
        ),
        # What click, typer, tyro, fire and absl print, also in a box.
        says(
            r"^\W*(?:No such option: |Required options? (?:were|was) not|Missing (?:option|argument) |"
            r"Could not consume arg: |Unknown command line flag |Got unexpected extra argument)|"
            r"^ERROR: Could not consume arg: ",
            "No such option",
            "Required option",
            "Missing option",
            "Missing argument",
            "Could not consume arg",
            "Unknown command line flag",
            "Got unexpected extra",
            strength=CAUSE - 1,
        ),
        says("There are not enough slots available in the system", "not enough slots", strength=WEAK + 6),
        raises(
            r"\d+ validation errors? for|ConfigAttributeError|ConfigKeyError|"
            "MissingMandatoryValue|ConfigCompositionException|MissingConfigException|"
            "OverrideParseException|InterpolationKeyError|HfArgumentParser|DeepSpeedConfigError|"
            r"yaml\.\w+\.\w+Error|TOMLDecodeError|tyro|UnsupportedFieldAttribute|"
            "UnrecognizedFlagError|"
            "IllegalFlagValueError|"
            "on purely quantized models|Target modules .* not found",
            strength=CAUSE - 4,
        ),
        raises(
            "does not exist or is not currently imported|does not recognize this architecture|"
            "[Uu]nrecognized model|Unrecognized configuration class",
            strength=CAUSE - 4,
            remedy=(
                "The name or the folder is of no such model (look at `model_type` in its config.json), or the "
                "installed transformers is older than the model: take a newer one in `environment.project`."
            ),
        ),
        raises(
            "chat_template is not set|does not have a padding token",
            strength=CAUSE - 4,
            remedy=(
                "Set it in the program or in the files of the tokenizer: `tokenizer.pad_token = tokenizer.eos_token`, "
                "or the chat template of the model that it is for."
            ),
        ),
        raises(
            rf"(?:ValueError|AssertionError|KeyError|\bException)\b{_OF_A_CALL}{_OF_A_SETTING}.*(?:"
            r"(?:does|do|is|are|did)(?: not|n't) (?:currently )?(?:support(?:ed)?|allowed|recogni[sz]ed|valid|"
            r"compatible|enabled)|"
            r"(?:must|should|cannot|can't|can not|has to|have to|needs? to|may not) "
            r"(?:be|only|use|set|provide|specify|contain|enable|both)|must (?:specify|provide|set|not))",
            frames=_NO_CALL,
            strength=RAISED + 1,
        ),
        # What the classes are called in which libraries refuse a setting.
        raises("ValidationError|(?<![a-z])ArgumentError|UsageError|ConfigError|InvalidConfig", strength=RAISED + 1),
        raises(
            rf"(?:ValueError|AssertionError|KeyError|\bException)\b{_OF_A_CALL}.*(?:"
            r"unsupported|[Oo]nly supports?|only (?:works|available|valid|compatible)|"
            r"requires?\b(?! grad)|[Pp]lease (?:set|add|use|specify|provide|pass|enable|disable|check|make sure)|"
            r"incompatible|mutually exclusive|[Uu]nknown |[Uu]nrecogni[sz]ed|not a valid|"
            r"[Ii]nvalid (?:value|choice|option|config|argument|combination|type|mode|backend)|"
            r"not in (?:the )?(?:list|supported|choices)|not (?:found )?in (?:the )?\S* ?registry|"
            r"(?:[Aa]vailable|[Ss]upported|[Vv]alid|[Aa]llowed|[Pp]ossible) (?:options|choices|values|models|names|"
            r"types|modes)\b|"
            r"in the config|[Cc]onfig(?:uration)?\b|"
            r"[Cc]ould not find (?:the )?(?:transformer )?(?:layer|class|module)|"
            r"--[a-z][\w-]+)",
            frames=_NO_CALL,
            strength=RAISED + 1,
        ),
        # PyTorch raises this mostly for programming errors: only messages about settings count.
        raises(
            rf"RuntimeError\b{_OF_A_CALL}(?:{_OF_A_SETTING}.*(?:does|do|is|are)(?: not|n't) (?:currently )?"
            r"(?:support(?:ed)?|enabled|recogni[sz]ed)|.*(?:"
            r"unsupported|[Oo]nly supports?|mutually exclusive|incompatible|"
            r"[Uu]nrecogni[sz]ed|[Uu]nknown |[Cc]onfig(?:uration)?\b|--[a-z][\w-]+|"
            r"[Ii]nvalid (?:value|choice|option|config|argument|combination|mode|backend)|"
            r"must (?:be set|specify|provide|use|set)|(?:cannot|can not|can't) (?:use|set|enable)|"
            r"[Pp]lease (?:set|add|specify|provide|pass|enable|disable)|you must use))",
            frames=_BY_A_CHECK,
            strength=RAISED + 1,
        ),
        raises(
            r"RuntimeError\b.*(?:No backend type associated with|only supports head dim|[Cc]annot re-initialize CUDA|"
            r"\b(?:FSDP|DDP|ZeRO|LoRA)\b.*(?: not|n't) (?:yet )?support)",
            strength=RAISED + 1,
        ),
        raises(
            r"omegaconf\.errors\.|hydra\.errors\.|pydantic\w*\.\S*ValidationError|yaml\.\w+\.\w+Error",
            strength=CAUSE + 1,
        ),
        raises(
            r"^KeyError: '",
            frames=r"configuration_auto\.py|auto_factory\.py|CONFIG_MAPPING|in from_dict|parse_args|argparse\.py",
            strength=CAUSE - 4,
        ),
        raises(r"ValueError: .*\bis required\b|materialized from meta device", strength=RAISED + 1),
    ),
    examples=(
        "│ No such option: --warmt Did you mean --warmth? │",
        "ERROR: Could not consume arg: --warmth",
        "Unknown command line flag 'warmt'. Did you mean: warmth ?",
        "│ Required options were not parsed: --data.path. │",
        "fit.py: error: unrecognized arguments: --local-rank=0",
        "There are not enough slots available in the system to satisfy the 9",
        "train.py: error: unrecognized arguments: --sed 1",
        "ValueError: Template `x` does not support packing.",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for Config",
        "omegaconf.errors.ConfigAttributeError: Key 'x' is not in struct",
    ),
)
