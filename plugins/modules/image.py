#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image
short_description: Build a container image once, as one reproducible file for all nodes
version_added: 0.1.0
author: []
description:
  - Builds C(store_root/images/KEY/image.sqsh) on the cluster, a squashfs file for pyxis and enroot, apptainer, and the
    job's runtime V(oci). The source is a Containerfile, a Debian suite, a root file system, an image of a registry, an
    OCI layout, or an existing squashfs file.
  - The key is computed from the recipe and its inputs (the text of the Containerfile, the files of the context that it
    uses, build arguments, packages, and files on the host). It is known before the build, and the same recipe is built
    only once. If a recipe of the same O(name) was built before, the result says which inputs changed.
  - The file is reproducible. Everything in it belongs to root and has one time stamp and a fixed order, without
    extended attributes, devices, logs and traces of the build machine. The same tree results in the same bytes.
    Compiled Python stays valid. The image's environment (C(ENV)) is in C(/etc/environment) and
    C(/.singularity.d/env).
  - Builds run in a temporary folder on a local disk, with separate storage for the engine. An ordinary user needs a
    range of user ids (C(/etc/subuid)). An interrupted build never leaves an incomplete image.
extends_documentation_fragment:
  - rankzero.slurm.store.trusted
  - rankzero.slurm.store.group_writable
  - rankzero.slurm.store.roots
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Returns the same RV(ref), with C(present=false) if the image would have to be built, and what changed.
  diff_mode:
    support: full
    details:
      - Compares the inputs of the last image of this O(name) with the new ones, by name and digest.
options:
  name:
    description:
      - A name for the purpose of the image. Recipes of the same name are compared. It is not part of the key.
    type: str
    default: image
  containerfile:
    description:
      - Containerfile (Dockerfile) on the controller, or a folder that has one. Needs buildah or podman on the host.
      - For C(FROM base), one of O(suite), O(rootfs) and O(reference) provides the base. This needs no registry.
    type: str
  context:
    description:
      - Folder on the controller from which C(COPY) and C(ADD) take files. Default is the folder of the Containerfile.
        Only files that the Containerfile uses and that C(.containerignore) or C(.dockerignore) does not exclude are
        sent and are part of the key. Empty folders are not.
    type: str
  target:
    description: The stage of the Containerfile to build; the last by default.
    type: str
  build_args:
    description: Values for C(ARG), as text. They can be read in the image; see O(secrets).
    type: dict
    default: {}
  secrets:
    description:
      - Files on the host for C(RUN --mount=type=secret,id=ID), by id. Their content is not in any layer, argument or
        message, and is not part of the key.
    type: dict
    default: {}
  suite:
    description:
      - Release of Debian, such as V(bookworm), bootstrapped by mmdebstrap. Needs no engine and no registry.
    type: str
  packages:
    description: Packages to install with O(suite).
    type: list
    elements: str
    default: []
  mirror:
    description: URI of the Debian archive for O(suite); by default that of the host's own apt.
    type: str
  rootfs:
    description: A root file system on the host, as a folder or a tar file (may be compressed with gzip or zstd).
    type: str
  reference:
    description:
      - An image by name, as C(REGISTRY/NAME:TAG) or C(REGISTRY/NAME@DIGEST), fetched with skopeo, buildah, podman or
        enroot; or C(oci:FOLDER[:TAG]), C(oci-archive:FILE), C(docker-archive:FILE) or
        C(dir:FOLDER) on the host, which need none of these tools.
      - If a tag changes in its registry, the change is not noticed, because only the name is part of the key. Use a
        digest to be exact.
    type: str
  squashfs:
    description: A C(.sqsh) file on the host, used unchanged.
    type: str
  env:
    description: Environment variables of the image, in addition to its own or replacing them.
    type: dict
    default: {}
  compression:
    description: Compression of the file. V(lz4) is larger and faster to read.
    type: str
    choices: [zstd, lz4, gzip]
    default: zstd
  formats:
    description:
      - Additional formats. V(sif) is C(image.sif) for apptainer before 1.4; V(oci) is C(bundle), a folder with
        C(config.json) and the unpacked root, for runtimes that need one. C(image.sqsh) is always made.
    type: list
    elements: str
    choices: [sqsh, sif, oci]
    default: [sqsh]
  engine:
    description: The engine that builds a O(containerfile).
    type: str
    choices: [auto, buildah, podman]
    default: auto
  work_dir:
    description:
      - Folder on a local disk of the host for the build; by default C($TMPDIR), else C(/var/tmp). Needs space for
        several copies of the unpacked image.
    type: str
  store_root:
    description:
      - Storage that all nodes of the cluster share and that may be purged. V(~) and variables are expanded on the
        cluster.
    type: str
    default: ~/.rankzero/store
  key:
    description: With O(state=absent), the key of the image to remove. The files on the controller are not read then.
    type: str
  state:
    description:
      - V(present) builds the image. V(absent) removes it, or the one named by O(key).
    type: str
    choices: [present, absent]
    default: present
  x_request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
notes:
  - Give exactly one of O(containerfile), O(suite), O(rootfs), O(reference) and O(squashfs), or O(containerfile) with a
    base.
  - Files that a C(RUN) downloads are not part of the key. Pin their versions.
  - Jobs that use an image lose it when it is removed.
seealso:
  - module: rankzero.slurm.uv_environment
  - module: rankzero.slurm.job
  - module: rankzero.slurm.store_prune
"""

EXAMPLES = r"""
- name: Build on a Debian base, without a registry
  rankzero.slurm.image:
    name: torch
    containerfile: "{{ playbook_dir }}/Containerfile" # FROM base
    suite: bookworm
    packages: [python3, python3-venv]
    build_args:
      TORCH: "2.5"
    secrets:
      pip: /home/ml/.pip-secret.conf
    store_root: /scratch/ml/rankzero
  register: torch

- name: Show what would be built, and why
  rankzero.slurm.image:
    name: torch
    containerfile: "{{ playbook_dir }}/Containerfile"
    suite: bookworm
    packages: [python3, python3-venv]
  check_mode: true
  diff: true

- name: Fetch an image from a registry, also as a SIF file
  rankzero.slurm.image:
    reference: nvcr.io/nvidia/pytorch:24.07-py3
    formats: [sqsh, sif]

- name: Use an existing file
  rankzero.slurm.image:
    squashfs: /project/images/torch.sqsh
    store_root: /scratch/ml/rankzero
"""

RETURN = r"""
ref:
  description: Identifies the image for other modules. The same in check mode.
  returned: always
  type: dict
  contains:
    kind:
      description: Always V(image).
      type: str
    key:
      description: Key of the recipe and its inputs.
      type: str
    path:
      description: The image's folder on the cluster.
      type: str
    digest:
      description: sha256 of C(image.sqsh); null if it does not exist.
      type: str
    present:
      description: Whether it exists.
      type: bool
  sample:
    kind: image
    key: 4b8a051185db81be0a796dce16a4cbc8
    path: /scratch/ml/rankzero/images/4b8a051185db81be0a796dce16a4cbc8
    digest: b8aa6fd38325e6ca9c3a1ac33b57a38a0e6bb1a62ad2a76ff1cf23a8b17b2a4d
    present: true
files:
  description: Paths by format, for C(container.image) of a job.
  returned: when O(state=present)
  type: dict
  sample:
    sqsh: /scratch/ml/rankzero/images/4b8a051185db81be0a796dce16a4cbc8/image.sqsh
changes:
  description: Inputs that differ from the last image of this name; empty if there was none.
  returned: when O(state=present)
  type: list
  elements: str
  sample: ["context/requirements.txt: changed", "packages: +git"]
way:
  description: How the image would be built on this host (engine, isolation, storage, tools), with reasons.
  returned: in check mode, when it would be built
  type: dict
image:
  description: The record of the image, C(image.json) in its folder.
  returned: when the image exists
  type: dict
  contains:
    digest:
      description: sha256 of C(image.sqsh).
      type: str
    bytes:
      description: Its size.
      type: int
    files:
      description: Number of files in it.
      type: int
    environment:
      description: The environment variables of the image.
      type: dict
    settings:
      description: Entrypoint, command, user, working directory and labels of the OCI image. The ranks do not use them.
      type: dict
    inputs:
      description: The inputs of the key, by name.
      type: dict
    way:
      description: How it was built (engine, isolation, storage, tools), with reasons.
      type: dict
    seconds:
      description: Duration of the build in seconds.
      type: float
"""

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import IMAGE, REQUEST
from ansible_collections.rankzero.slurm.plugins.module_utils.image.ensure import ensure_image
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.background import run_or_follow


def main() -> None:
    run_module(
        {**IMAGE, **REQUEST},
        lambda module: run_or_follow("builds the image", ensure_image, module.params, check_mode=module.check_mode),
        publishes=True,
        supports_check_mode=True,
    )


if __name__ == "__main__":
    main()
