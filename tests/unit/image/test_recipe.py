# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of images, and which input changed."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.image.recipe import (
    changes,
    check_name,
    inputs,
    key_of,
    layout_path,
    layout_tag,
    recipe,
)

FILE = "FROM base\nARG WHO\nCOPY a /\nRUN --mount=type=secret,id=pip true\n"
CONTEXT = [("a", "f " + "0" * 64)]
BUILD: dict[str, Any] = {"suite": "bookworm", "build_args": {"WHO": "me"}, "secrets": {"pip": "/s"}}


def key(options: dict[str, Any], text: str | None = None, context: Any = (), content: str | None = None) -> str:
    return key_of(inputs(recipe(options, text, context), content))


def test_keys_never_change_from_release_to_release() -> None:
    """A golden key: with another one every image would be built anew, and every launch that uses one."""
    assert key({"suite": "bookworm", "packages": ["python3"]}) == "7873b67330fc6b602615ae82a170ee2a"
    assert key(BUILD, FILE, CONTEXT) == "10f2417564dd0a48486bbf945ce9504e"


def test_what_is_no_part_of_the_key() -> None:
    base = key({"suite": "bookworm", "packages": ["b", "a"]})
    same: list[dict[str, Any]] = [
        {
            "suite": "bookworm",
            "packages": ("a", "b", "a"),
            "compression": "zstd",
            "env": {},
            "target": "",
            "mirror": None,
        },
        {
            "suite": "bookworm",
            "packages": ["a", "b"],
            "name": "x",
            "formats": ["sif"],
            "engine": "podman",
            "work_dir": "/w",
        },
    ]
    assert {key(options) for options in same} == {base}
    # Where a secret's file lies, and what it holds.
    assert key({**BUILD, "secrets": {"pip": "/elsewhere"}}, FILE, CONTEXT) == key(BUILD, FILE, CONTEXT)
    assert (
        key({"rootfs": "/a"}, content="d1")
        == key({"rootfs": "/b"}, content="d1")
        != key({"rootfs": "/a"}, content="d2")
    )


@pytest.mark.parametrize(
    ("options", "text", "context"),
    [
        ({"suite": "trixie"}, FILE, CONTEXT),
        ({"mirror": "copy:///d"}, FILE, CONTEXT),
        ({"packages": ["git"]}, FILE, CONTEXT),
        ({"env": {"A": "b"}}, FILE, CONTEXT),
        ({"compression": "lz4"}, FILE, CONTEXT),
        ({"build_args": {"WHO": "you"}}, FILE, CONTEXT),
        ({"target": "0"}, FILE, CONTEXT),
        ({"secrets": {"pip": "/s", "more": "/m"}}, FILE, CONTEXT),
        ({}, FILE + "RUN true\n", CONTEXT),
        ({}, FILE, [("a", "x " + "0" * 64)]),
        ({}, FILE, [("a", "f " + "1" * 64)]),
    ],
)
def test_what_is_part_of_it(options: dict[str, Any], text: str, context: Any) -> None:
    assert key({**BUILD, **options}, text, context) != key(BUILD, FILE, CONTEXT)


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        ({}, None, "image: give one of containerfile, suite, rootfs, reference, squashfs; none is given"),
        ({"suite": "a", "rootfs": "/b"}, None, "not suite and rootfs"),
        ({}, "FROM base\n", "containerfile: has FROM base, so name what that is: suite, rootfs or reference"),
        ({"suite": "a"}, "FROM scratch\n", "suite: the Containerfile has FROM scratch and no FROM base"),
        ({"squashfs": "/a"}, "FROM base\n", "squashfs: is taken as it is"),
        ({"suite": "a"}, FILE, "secrets: the Containerfile mounts pip; name a file of the host for each"),
        ({"suite": "a", "target": "x"}, None, "target: requires containerfile"),
        ({"rootfs": "/a", "packages": ["git"]}, None, "packages, mirror: require suite"),
        ({"squashfs": "/a", "env": {"A": "b"}}, None, "squashfs: an existing squashfs file is used unchanged"),
        ({"suite": "a", "compression": "xz"}, None, "compression: 'xz'; allowed are zstd, lz4, gzip"),
        ({"suite": "Book Worm"}, None, "suite: 'Book Worm' is not the name of a release"),
        ({"suite": "a", "packages": ["--x"]}, None, "packages: '--x' is not the name of a Debian package"),
        ({"suite": "a", "env": {"A-B": "x"}}, None, "env: 'A-B' is not the name of a variable"),
        ({"suite": "a", "env": {"A": "x\ny"}}, None, "env: A has several lines"),
        ({"suite": "a", "env": {"A": 1}}, None, 'env.A: must be text, not 1; quote it: "1"'),
        ({"suite": "a", "env": ["A"]}, None, "env: must be a map"),
        ({"reference": "--debug"}, None, "reference: '--debug' is neither a registry's name"),
        ({"reference": "oci:images/x"}, None, "reference: 'images/x' must be an absolute path on the host"),
        ({"rootfs": "root"}, None, "rootfs: 'root' must be an absolute path on the host of the task"),
    ],
)
def test_what_cannot_be_meant(options: dict[str, Any], text: str | None, message: str) -> None:
    with pytest.raises(RankzeroError) as caught:
        recipe(options, text)
    assert message in caught.value.message


def test_the_changed_inputs_are_named() -> None:
    before = inputs(recipe({**BUILD, "packages": ["git", "gcc"]}, FILE, CONTEXT))
    after = inputs(
        recipe({**BUILD, "packages": ["git", "make"], "suite": "trixie", "build_args": {"WHO": "you"}},
               FILE + "\n", [("a", "f " + "1" * 64), ("b", "f " + "2" * 64)])
    )  # fmt: skip
    assert changes(before, after) == [
        "build_args.WHO: me -> you",
        "containerfile: changed",
        "context/a: changed",
        "context/b: added",
        "packages: +make -gcc",
        "suite: bookworm -> trixie",
    ]
    assert changes(after, before)[3] == "context/b: removed"
    assert changes(before, before) == []


def test_references_to_what_lies_on_the_host() -> None:
    assert layout_path("oci:/i/torch:v1") == "/i/torch" and layout_tag("oci:/i/torch:v1") == "v1"
    assert layout_path("docker-archive:~/t.tar") == "~/t.tar" and layout_tag("dir:/i/torch") is None
    assert layout_path("registry.invalid:5000/t:1") is None and layout_path("docker://a/b:1") is None


def test_a_name_becomes_no_path() -> None:
    assert check_name("torch-2.5") == "torch-2.5"
    for name in ("../x", "", "a/b", "-x", "x" * 65):
        with pytest.raises(RankzeroError, match="name: "):
            check_name(name)
