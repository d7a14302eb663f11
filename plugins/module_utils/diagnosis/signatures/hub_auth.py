# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hub refuses access: no token, a wrong token, or a gated repository."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    WEAK,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="hub_auth",
    what="a hub requires a token, or the token may not read this",
    remedy=(
        "Give the token as a secret: `secrets: {HF_TOKEN: {from_env: HF_TOKEN}}`, `WANDB_API_KEY` "
        "likewise; accept the terms of a gated repository on its page; or `env.WANDB_MODE: offline`."
    ),
    look="See whether the name of the repository is right and whether the token of the ranks may read it.",
    matches=(
        raises(
            "GatedRepoError|gated repo|401 Client Error|403 Client Error|Invalid (?:username or password|"
            "user token|credentials)|[Rr]epository Not Found for url|RepositoryNotFoundError|"
            "api_key not configured|(?:API|api)[ _]key (?:must be|is (?:not|invalid|required)|not)|"
            "LocalTokenNotFoundError|AuthenticationError(?!: digest)|PERMISSION_ERROR|[Uu]nauthori[sz]ed"
        ),
        raises(
            "is not a local folder and is not a valid model identifier|"
            # Without an owner it is rather the name of a folder.
            r"401 Client Error.*huggingface\.co/[^/\s]+/resolve/",
            strength=CAUSE + 1,
            what="this is neither a folder of the node nor a name that the hub shows",
            remedy=(
                "A path must exist on the node: put it on shared storage, or in `container.mounts`. A name on the hub "
                "must be written as there. Only a private or gated one needs a token: "
                "`secrets: {HF_TOKEN: {from_env: HF_TOKEN}}`."
            ),
        ),
        says(
            "wandb: ERROR (?:api_key not configured|.*(?:API key|permission denied|not logged in))|"
            r"Cannot access gated repo|Access to model \S+ is restricted",
            "wandb: ERROR",
            "gated repo",
            "is restricted",
        ),
        # git, before the program: the batch script may go on.
        says(
            r"fatal: (?:Authentication failed|could not read Username)|Permission denied \(publickey",
            "fatal: Authentication",
            "could not read Username",
            "(publickey",
            strength=WEAK + 5,
            what="a server refused the key or the password",
            remedy=(
                "git: give the job the code (`environment.project`, `code`), or a key that it may use on that node. "
                "mpirun: start the ranks with srun, which needs no ssh, or let the nodes accept your key."
            ),
        ),
        raises(
            r"CommError: .*(?:permission|not logged in|unauthori[sz]ed|40[13])|user is not logged in|"
            r"[Tt]oken is required|api_key client option must be|"
            r"NoCredentialsError|Unable to locate credentials|do not have permission to access|OPENAI_API_KEY|"
            r"AccessDenied|InvalidAccessKeyId|ExpiredToken|Permission denied to|Access to \S+ is restricted",
            strength=CAUSE + 2,
        ),
        says(
            r"^remote: (?:Invalid username|Repository not found|HTTP Basic: Access denied|"
            r"Permission to)|^fatal: (?:unable to access|could not read)",
            "remote: ",
            "fatal: ",
            strength=WEAK + 4,
        ),
        raises(
            r"[Mm]ust be authenticated|(?:Hugging ?Face|[Hh]ub|API|[Uu]pload)\b.*[Aa]uthentication failed|"
            r"[Aa]uthentication failed .*upload|(?<!Tunnel connection failed: )40[13] (?:Forbidden|Unauthorized)|"
            r"[Nn]o (?:[\w&]+ ){0,4}(?:API key|credentials) (?:configured|provided|found)|is a gated (?:dataset|"
            r"repo|model)",
            strength=CAUSE + 2,
        ),
    ),
    examples=(
        "fatal: Authentication failed for 'https://git.example/lamp.git/'",
        "requests.exceptions.HTTPError: 401 Client Error: x: https://huggingface.co/sd-lamp/resolve/main/a",
        "wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: x)",
        (
            "OSError: x/y is not a local folder and is not a valid model identifier listed on 'https://huggi"
            "ngface.co/models'"
        ),
    ),
)
