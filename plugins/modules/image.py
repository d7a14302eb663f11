#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image
short_description: Build a container image once, as one reproducible file for all nodes
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Makes C(store_root/images/KEY/image.sqsh) on the cluster, a squashfs file that pyxis and enroot, apptainer and the
    runtime V(oci) of a job all start from, out of a Containerfile, a Debian suite, a root file system, an image of a
    registry or an OCI layout, or takes one that is there.
  - The key is that of the recipe and its inputs (the Containerfile's text, the files of the context that it names,
    build arguments, packages, the content of what lies on the host), so it is known before anything is built, and the
    same recipe is built once. Of two recipes of one O(name) the result says which input changed.
  - The file is canonical. Everything in it is root's and of one time, in one order, without extended attributes,
    devices, logs, and what an engine leaves of the machine. The same tree gives the same bytes, whoever built it.
    Compiled Python stays valid. The image's environment (C(ENV)) lies in C(/etc/environment) and
    C(/.singularity.d/env).
  - Builds happen in a folder on a local disk that is thrown away afterwards, in an engine's storage of their own. As an
    ordinary user they need a range of user numbers (C(/etc/subuid)). A killed build leaves nothing that a later one
    would take for an image.
extends_documentation_fragment:
  - rankzero.slurm.store.trusted
  - rankzero.slurm.store.stores
  - rankzero.slurm.store.roots
  - rankzero.slurm.attributes
  - rankzero.slurm.attributes.actiongroup_slurm
attributes:
  check_mode:
    support: full
    details:
      - Returns the same RV(ref), with C(present=false) where the image would have to be built, and what changed.
  diff_mode:
    support: full
    details:
      - Shows the inputs of the last image of this O(name) against the new ones, by name and digest.
options:
  name:
    description:
      - A name for what the image is for. Recipes of the same name are compared. It is no part of the key.
    type: str
    default: image
  containerfile:
    description:
      - Containerfile (Dockerfile) on the controller, or a folder that has one. Needs buildah or podman on the host.
      - Where it says C(FROM base), one of O(suite), O(rootfs) and O(reference) says what that is; this needs no
        registry.
    type: str
  context:
    description:
      - Folder on the controller that C(COPY) and C(ADD) take files from, without O(context) that of the Containerfile.
        Only files that the Containerfile names and C(.containerignore) or C(.dockerignore) does not exclude are sent,
        and are part of the key. Empty folders are not.
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
      - Files on the host that C(RUN --mount=type=secret,id=ID) sees, by id. What they hold is in no layer, no argument
        and no message, and is no part of the key.
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
    description: A root file system on the host, as a folder or a tar file (also packed by gzip or zstd).
    type: str
  reference:
    description:
      - An image by name, as C(REGISTRY/NAME:TAG) or C(REGISTRY/NAME@DIGEST), fetched by skopeo, buildah, podman or
        enroot, whichever the host has; or C(oci:FOLDER[:TAG]), C(oci-archive:FILE), C(docker-archive:FILE) or
        C(dir:FOLDER) on the host, which need none of them.
      - A tag that its registry moves is not noticed, because the key is of the name. A digest is always right.
    type: str
  squashfs:
    description: A C(.sqsh) file on the host, taken as it is.
    type: str
  env:
    description: Variables of the image, over its own.
    type: dict
    default: {}
  compression:
    description: How the file is packed. V(lz4) is larger and faster to read.
    type: str
    choices: [zstd, lz4, gzip]
    default: zstd
  formats:
    description:
      - What else to make of it. V(sif) is C(image.sif) for apptainer before 1.4; V(oci) is C(bundle), a folder with
        C(config.json) and the unpacked root, for runtimes that need one. C(image.sqsh) is always made.
    type: list
    elements: str
    choices: [sqsh, sif, oci]
    default: [sqsh]
  engine:
    description: What builds a O(containerfile).
    type: str
    choices: [auto, buildah, podman]
    default: auto
  work_dir:
    description:
      - Folder on a local disk of the host for the build; by default C($TMPDIR), else C(/var/tmp). Needs room for a few
        times the unpacked image.
    type: str
  store_root:
    description:
      - Storage that is shared by all nodes of the cluster and may be purged. V(~) and variables are the cluster's.
    type: str
    default: ~/.rankzero/store
  key:
    description: With O(state=absent), the key of the image to remove. The controller's files are not looked at then.
    type: str
  state:
    description:
      - V(present) builds the image, V(absent) removes it, or the one that O(key) names.
    type: str
    choices: [present, absent]
    default: present
  _request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
notes:
  - Exactly one of O(containerfile), O(suite), O(rootfs), O(reference) and O(squashfs), or O(containerfile) with a base.
  - What a C(RUN) fetches from outside is not part of the key. Pin versions there.
  - Jobs that use an image lose it when it is removed.
seealso:
  - module: rankzero.slurm.uv_environment
  - module: rankzero.slurm.job
  - module: rankzero.slurm.store_prune
"""

EXAMPLES = r"""
- name: Build on a Debian base that is made here, without any registry
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

- name: Say what would be built, and why
  rankzero.slurm.image:
    name: torch
    containerfile: "{{ playbook_dir }}/Containerfile"
    suite: bookworm
    packages: [python3, python3-venv]
  check_mode: true
  diff: true

- name: Take an image from a registry, also as a SIF file
  rankzero.slurm.image:
    reference: nvcr.io/nvidia/pytorch:24.07-py3
    formats: [sqsh, sif]

- name: Take over a file that somebody has made
  rankzero.slurm.image:
    squashfs: /project/images/torch.sqsh
    store_root: /scratch/ml/rankzero
"""

RETURN = r"""
ref:
  description: Names the image for other modules. The same under check mode.
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
      description: sha256 of C(image.sqsh); null where it is not there.
      type: str
    present:
      description: Whether it is there.
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
  description: Which inputs differ from the last image of this name; empty where there was none.
  returned: when O(state=present)
  type: list
  elements: str
  sample: ["context/requirements.txt: changed", "packages: +git"]
way:
  description: How the image would be built on this host (engine, isolation, storage, tools), with reasons.
  returned: in check mode, when it would be built
  type: dict
image:
  description: The record that lies beside the image as C(image.json).
  returned: when the image is there
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
      description: The variables of the image.
      type: dict
    settings:
      description: Entrypoint, command, user, working directory and labels of the OCI image. The ranks heed none of it.
      type: dict
    inputs:
      description: What the key was made of, by name.
      type: dict
    way:
      description: How it was built (engine, isolation, storage, tools), with reasons.
      type: dict
    seconds:
      description: How long it took.
      type: float
"""

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import IMAGE, REQUEST
from ansible_collections.rankzero.slurm.plugins.module_utils.image.ensure import ensure_image


def main() -> None:
    run_module(
        {**IMAGE, **REQUEST},
        lambda module: ensure_image(module.params, module.params["_request"] or {}, check_mode=module.check_mode),
        publishes=True,
        supports_check_mode=True,
    )


if __name__ == "__main__":
    main()
