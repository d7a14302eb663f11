# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container of the ranks could not be created or started."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    RAISED,
    Signature,
    says,
)

SIGNATURE = Signature(
    family="container_start",
    what="the container could not start",
    remedy=(
        "Check `container.image` (does the path exist on every node, may it be read?), `container.mounts` "
        "(each source must exist on the nodes) and free space where images are unpacked."
    ),
    look=(
        "Read the lines of the container runtime next to it: they name the image, the mount or the folder "
        "that it could not use."
    ),
    matches=(
        says(
            # Below a failure, pyxis shows what the runtime logged: there is its reason.
            r"pyxis:\s+(?:\[ERROR\]|mktemp|nvidia-container|no such|invalid|could not find)|"
            r"pyxis: {2,}(?!\[(?:INFO|WARN))\S.{0,300}(?:[Ee]rror\b|[Ff]ail|[Cc]ould not|[Cc]annot|[Nn]o (?:such|"
            r"space)|"
            r"[Dd]enied|"
            r"[Ii]nvalid|[Nn]ot (?:found|permitted|supported)|[Uu]nable)|"
            r"enroot-\w+|^\[ERROR\] .*(?:enroot|No such file or directory: .*sqsh|"
            "[Cc]ould not process JSON input|Invalid image|Command not found|URL http)|"
            "slurmstepd: error: (?:container|_)|FATAL: +(?:[Cc]ould not open image|"
            "[Ww]hile|[Uu]nable to|[Cc]ontainer|[Ii]mage|container creation failed)|(?:oci|OCI) runtime|"
            "^ERROR  : .*(?:namespace|overlay|setuid|container)|"
            "runc run failed|crun: |container_linux|failed to create (?:container|shim)|"
            "could not open image|manifest unknown|toomanyrequests|pull access denied|"
            "Error response from daemon",
            "pyxis:",
            "enroot-",
            "[ERROR]",
            "FATAL: ",
            "ERROR  ",
            "OCI runtime",
            "oci runtime",
            "runc run",
            "crun: ",
            "container_linux",
            "failed to create",
            "could not open image",
            "manifest unknown",
            "toomanyrequests",
            "pull access denied",
            "Error response from daemon",
            strength=CAUSE,
        ),
        says(
            r"^FATAL:\s+\S.*(?:executable file not found|not found in \$PATH)|"
            r"^Error: unable to copy from source|nvidia-container-cli: |"
            r"requested access to the resource is denied|enroot-nsenter: |"
            r"^Error: (?:initializing source|reading manifest|OCI|crun)",
            "FATAL: ",
            "unable to copy from source",
            "nvidia-container-cli",
            "access to the resource",
            "enroot-nsenter",
            "initializing source",
            strength=CAUSE + 2,
        ),
        says(
            "permission denied while trying to connect to the Docker",
            "connect to the Docker",
            what="this user may not use Docker on that node",
            remedy=(
                "Start the container with a runtime that any user may use: `container.runtime: pyxis`, `apptainer` or "
                "`oci`."
            ),
        ),
        says(
            r"error: pyxis: (?!.*(?:\[INFO\]|printing|terminated with signal))|"
            r"Failed to invoke spank plugin stack|required plugin spank_pyxis",
            "error: pyxis:",
            "spank",
            strength=RAISED - 1,
        ),
    ),
    examples=(
        "Got permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
        "slurmstepd: error: pyxis: container start failed with error code: 1",
        (
            "FATAL:   could not open image /images/x.sif: failed to retrieve path for /images/x.sif: lstat /"
            "images/x.sif: no such file or directory"
        ),
        "enroot-mount: failed to mount: /data at /x: No such file or directory",
    ),
)
