# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes do not match: those of tensors, or of the parallel layout."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    MEANT,
    Signature,
    raises,
)

_PARALLELISM = (
    "World size = tensor x pipeline x context x data; heads and layers divide too: check "
    "`parallelism.*`, `parallelism.attention_heads`, `resources.nodes` x `resources.gpus_per_node`, "
    "batch sizes in `command`."
)
# What a message or the failing line of code is about, where sizes depend on how the ranks divide the work.
_DIVIDED = (
    r"(?:world|node)[ _-]?size|WORLD_SIZE|\bmesh\b|\w*heads\b|query_groups|partition|[Pp]arallel|\bshard|"
    r"\b[tpdce]p(?:_size|_degree)?\b|micro_?batch|train_batch|global[_ ](?:train[_ ])?batch|"
    r"[Nn]umber of (?:GPUs|ranks|devices|processes|layers)|total number of ranks|"
    r"Check batch related parameters|Mesh should"
)

_SIZES = "|".join(
    (
        (
            "(?:is|are) not divisible by|must be (?:evenly )?(?:divisible by|a multiple of)|"
            "should be (?:divisible by|a multiple of)|not (?:evenly )?divis|is not a multiple of|"
            "has to be divisible|needs to be divisible"
        ),
        (
            r"shapes? (?:mismatch|cannot be multiplied|\S+ (?:and|is) .*(?:invalid|incompatible|"
            "not aligned))|mat1 and mat2 (?!.*dtype)|must match (?:the (?:existing )?size|except)|"
            "[Ee]xpanded size of the tensor|size of tensor a|Sizes of tensors must match|"
            "stack expects each tensor to be equal size|[Ss]izes? mismatch|Expected (?:input|size|hidden|"
            "tensor)(?!.*(?:scalar type|dtype|requires_grad|device|type)).*(?:to (?:have|be)|but got|to match target)|"
            "is invalid for input of size|"
            "inconsistent tensor (?:size|shape)|could not (?:be )?broadcast|Incompatible shapes|"
            "dimension mismatch|[Ii]ncorrect number of dimensions"
        ),
        (
            r"world[ _]size \(?\d+\)?.*(?:not|must|!=|divis)|(?:micro_batch|train_batch|"
            r"global[_ ]batch)\S* .*(?:not equal|divis|is not|!=)|[Nn]umber of (?:devices|GPUs|ranks|"
            r"processes)\b.*(?:must|should|does not|divis|not match)|Mesh should not be bigger|"
            "total number of ranks"
        ),
        (
            r"Given groups=\d+, weight of size|to have \d+ channels, but got|expected (?:\d+D|"
            r"\S*dimensional) .*(?:input|tensor).*but got|"
            r"(?:expected|got) input with shape|split_with_sizes expects|which does not broadcast with|EinopsError|"
            "input array dimensions .*must match|must have (?:the )?same (?:number of dimensions|shape|size)|"
            "that is different to the input size|to have the same shape|[Ii]nvalid parallel dims|"
            r"[Ss]hape mismatch|mismatch in shape|\bshapes? .*(?:do(?:es)? not|don't) match|"
            r"does not match (?:the )?(?:shape|size)|"
            r"expected \w+ to have (?:shape|size|\d+ dim)|number of dimensions? (?:don't|doesn't|"
            r"do not|does not) match|"
            r"Dimension out of range|expects? .*(?:same|equal) (?:shape|size|length)|input\.size\(-1\) must be equal|"
            r"size \d+ is different from|batch_size.*does(?:n't| not) match|not divisible|"
            r"Expected more than 1 value per channel|"
            r"All arrays must be of the same length|inconsistent numbers of samples|"
            r"dimensions? .*incompatible|cannot reshape array|"
            r"calculated padded input size|\bWORLD_SIZE\b.*(?:!=|must)|(?:!=|"
            r"must equal) *(?:WORLD_SIZE|world[_ ]size)"
        ),
        (
            r"Kernel size can't be greater|[Ee]xpected \d+-?[Dd](?:imensional)?\b.*(?:but got|got)|inhomogeneous shape|"
            r"Shapes must be equal|incompatible shapes|must be equal rank"
        ),
    )
)

SIGNATURE = Signature(
    family="shape_or_divisibility",
    what="sizes do not fit: {place}",
    remedy=(
        "The shapes of the data or of the model differ there. The message names the sizes: the items of a batch (pad "
        "or crop them to one size), a batch of another length, or a layer made for other sizes."
    ),
    look="Compare the sizes in that line with those of the data and of the model's configuration.",
    matches=(
        raises(rf"^(?=.*(?:{_DIVIDED}))(?:.*(?:{_SIZES}))", remedy=_PARALLELISM),
        # The source line of the innermost frame.
        raises(
            _SIZES,
            frames=rf"(?:{_DIVIDED})[^\n]*\n(?:[\s^~]*\n)?\Z",
            remedy=_PARALLELISM,
        ),
        raises(
            r"divisible by|not (?:evenly )?divis|multiple of",
            what="a number is not a multiple of another: {place}",
            remedy=(
                "One of the two numbers must change: heads, layers, the batch or the vocabulary in `command` (padded "
                "to a multiple), or the parallel sizes (`parallelism.*`) and the number of ranks."
            ),
        ),
        raises(
            _SIZES,
            frames=r"[\\/]torch[\\/]optim[\\/]\w+\.py\"[^\n]*\n(?:(?!\s+File)[^\n]*\n)*\Z",
            strength=CAUSE + 1,
            what="a parameter, its gradient and its optimizer state differ in size: {place}",
            remedy=(
                "Create the optimizer after the model is wrapped (FSDP, DDP), with the wrapped model's parameters, "
                "and load its state only into the layout that it was saved with."
            ),
        ),
        raises(_SIZES),
        # Of lists of settings as of data.
        raises("must have (?:the )?same length|does not match (?:the )?number of", strength=MEANT),
    ),
    examples=(
        "AssertionError: 151851 is not divisible by 4",
        "AssertionError: 30 is not divisible by 4",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x2)",
        "RuntimeError: The size of tensor a (20) must match the size of tensor b (23) at non-singleton dimension 1",
        "RuntimeError: world size (8) is not divisible by total_model_size (encoder=0 + decoder=6)",
        (
            "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_pe"
            "r_gpu * gradient_acc_step * world_size 16 != 2 * 1 * 4"
        ),
    ),
)
