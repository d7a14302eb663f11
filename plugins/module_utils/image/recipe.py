# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inputs of an image and its key, which is known before the build and the same in check mode. Pure.

The key is a hash over named inputs. The same names later tell which inputs changed since the last image of a name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, made_of
from ansible_collections.rankzero.slurm.plugins.module_utils.image.containerfile import BASE, Needs, needs

# Increased when the same recipe must give another image: every image is then built again.
FORMAT = 1
SOURCES = ("suite", "rootfs", "reference", "squashfs")
COMPRESSIONS = ("zstd", "lz4", "gzip")

_SUITE = re.compile(r"[a-z][a-z0-9.-]*")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.:-]*(=[A-Za-z0-9.+:~-]+)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TRANSPORT = re.compile(r"(docker|oci|oci-archive|docker-archive|dir)://?")
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")


@dataclass(frozen=True)
class ImageRequest:
    """The request that the action of module `image` sends to the host: `text` is the Containerfile's.

    `context`: path with kind and sha256 of each context file; `archive`: these files on this host, if it requested
    them.
    """

    text: str | None = None
    context: Sequence[tuple[str, str]] = ()
    archive: str | None = None

    @classmethod
    def of(cls, given: JsonObject) -> ImageRequest:
        """The request from the module's argument. Raises RankzeroError."""
        request = made_of(cls, given)
        try:
            return replace(request, context=tuple((str(path), str(what)) for path, what in request.context))
        except (TypeError, ValueError) as error:
            raise RankzeroError(f"context: expected path, and kind and sha256, of each file ({error})") from error


@dataclass(frozen=True)
class Recipe:
    """The inputs of an image. `text`: the Containerfile's, `context`: its files as (path, kind and sha256)."""

    suite: str | None = None
    packages: tuple[str, ...] = ()
    mirror: str | None = None
    rootfs: str | None = None
    reference: str | None = None
    squashfs: str | None = None
    text: str | None = None
    context: tuple[tuple[str, str], ...] = ()
    target: str | None = None
    build_args: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    compression: str = "zstd"

    @property
    def base(self) -> str | None:
        """The option that names a source other than a Containerfile; None without one."""
        return next((name for name in SOURCES if getattr(self, name) is not None), None)

    @property
    def local_path(self) -> str | None:
        """The path on the host whose content is part of the key; None without one."""
        if self.base in ("rootfs", "squashfs"):
            return str(getattr(self, self.base))
        return layout_path(self.reference) if self.reference else None


def recipe(options: Mapping[str, object], text: str | None, context: Iterable[tuple[str, str]] = ()) -> Recipe:
    """The recipe that a module's options describe. Raises RankzeroError for invalid or contradictory options."""
    made = Recipe(
        suite=_text(options, "suite"),
        packages=tuple(sorted(set(_list(options, "packages")))),
        mirror=_text(options, "mirror"),
        rootfs=_text(options, "rootfs"),
        reference=_text(options, "reference"),
        squashfs=_text(options, "squashfs"),
        text=text,
        context=tuple(sorted(context)),
        target=_text(options, "target"),
        build_args=_map(options, "build_args"),
        secrets=tuple(sorted(_keys(options, "secrets"))),
        env=_map(options, "env"),
        compression=_text(options, "compression") or "zstd",
    )
    _check(made)
    return made


def _check(made: Recipe) -> None:
    given = [name for name in SOURCES if getattr(made, name) is not None]
    if len(given) > 1 or (not given and made.text is None):
        mistake = f"not {' and '.join(given)}" if given else "none is given"
        raise RankzeroError(
            f"image: give one of containerfile, {', '.join(SOURCES)}; {mistake}. (With containerfile, one of suite, "
            f"rootfs and reference may be given in addition as its base, FROM {BASE}.)"
        )
    if made.text is not None:
        wanted = _containerfile_needs(made)
        if made.base == "squashfs":
            raise RankzeroError("squashfs: is taken as it is; a containerfile builds on suite, rootfs or reference")
        if BASE in wanted.bases and made.base is None:
            raise RankzeroError(f"containerfile: has FROM {BASE}, so name what that is: suite, rootfs or reference")
        if BASE not in wanted.bases and made.base is not None:
            there = ", ".join(wanted.bases) or "scratch"
            raise RankzeroError(
                f"{made.base}: the Containerfile has FROM {there} and no FROM {BASE} that would take it"
            )
        missing = sorted(set(wanted.secrets) - set(made.secrets))
        if missing:
            raise RankzeroError(
                f"secrets: the Containerfile mounts {', '.join(missing)}; name a file of the host for each"
            )
    else:
        for name in ("target", "build_args", "secrets"):
            if getattr(made, name):
                raise RankzeroError(f"{name}: requires containerfile; omit it, or give containerfile")
    if made.suite is None and (made.packages or made.mirror):
        raise RankzeroError("packages, mirror: require suite; in a Containerfile, install packages with RUN")
    if made.squashfs is not None and (made.env or made.compression != "zstd"):
        raise RankzeroError("squashfs: an existing squashfs file is used unchanged; omit env and compression")
    if made.compression not in COMPRESSIONS:
        raise RankzeroError(f"compression: {made.compression!r}; allowed are {', '.join(COMPRESSIONS)}")
    _matches("suite", _SUITE, [made.suite] if made.suite else [], "the name of a release such as bookworm")
    _matches("packages", _PACKAGE, made.packages, "the name of a Debian package, or NAME=VERSION")
    _matches("secrets", _SECRET, made.secrets, "an id of RUN --mount=type=secret,id=...")
    for name in ("build_args", "env"):
        _matches(name, _VARIABLE, [key for key, _value in getattr(made, name)], "the name of a variable")
    for key, value in (*made.env, *made.build_args):
        if "\n" in value or "\0" in value:
            raise RankzeroError(f"env: {key} has several lines, which /etc/environment does not support")
    if made.reference is not None:
        name = _TRANSPORT.sub("", made.reference, count=1)
        if not (made.local_path or _REFERENCE.fullmatch(name)):
            raise RankzeroError(
                f"reference: {made.reference!r} is neither a registry's name such as REGISTRY/NAME:TAG nor oci:FOLDER, "
                "oci-archive:FILE, docker-archive:FILE or dir:FOLDER"
            )
    path = made.local_path
    if path is not None and not path.startswith(("/", "~", "$")):
        raise RankzeroError(f"{made.base}: {path!r} must be an absolute path on the host of the task")


def _containerfile_needs(made: Recipe) -> Needs:
    return needs(made.text or "", dict(made.build_args), made.target)


def layout_tag(reference: str) -> str | None:
    """TAG of oci:PATH:TAG."""
    return reference.split(":", 2)[2] if reference.count(":") > 1 else None


def layout_path(reference: str) -> str | None:
    """The path of a reference to a file or folder on the host; None for a registry's name."""
    transport, colon, rest = reference.partition(":")
    if not colon or transport not in ("oci", "oci-archive", "docker-archive", "dir"):
        return None
    return rest.partition(":")[0]


def inputs(made: Recipe, content: str | None = None) -> dict[str, str]:
    """The hashed inputs by name. `content`: the digest of the file or folder at `local_path`."""
    inputs = {"format": str(FORMAT), "compression": made.compression}
    if made.text is not None:
        inputs["containerfile"] = _sha256(made.text)
        inputs.update({f"context/{path}": digest for path, digest in made.context})
    for name in ("suite", "mirror", "target", "reference"):
        value = getattr(made, name)
        if value is not None:
            inputs[name] = value
    for name in ("packages", "secrets"):
        if getattr(made, name):
            inputs[name] = " ".join(getattr(made, name))
    inputs.update({f"build_args.{name}": value for name, value in made.build_args})
    inputs.update({f"env.{name}": value for name, value in made.env})
    if content is not None and made.base is not None:
        # The content matters, not the path.
        inputs[made.base] = content
    return inputs


def key_of(named: Mapping[str, str]) -> str:
    """The key of the inputs: 32 hexadecimal digits."""
    return hashlib.sha256(json.dumps(dict(named), sort_keys=True).encode()).hexdigest()[:32]


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The differences between inputs, as sentences."""
    lines = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if old is None or new is None:
            lines.append(f"{name}: {'added' if old is None else 'removed'}")
        elif name == "packages":
            gone, come = sorted(set(old.split()) - set(new.split())), sorted(set(new.split()) - set(old.split()))
            lines.append(f"packages: {' '.join([*(f'+{word}' for word in come), *(f'-{word}' for word in gone)])}")
        elif re.fullmatch(r"(. )?[0-9a-f]{64}", new):
            lines.append(f"{name}: changed")
        else:
            lines.append(f"{name}: {old} -> {new}")
    return lines


def listing(named: Mapping[str, str]) -> str:
    """Inputs as lines, for a diff."""
    return "".join(f"{name} {value[:64]}\n" for name, value in sorted(named.items()))


def image_folder(store_root: str, key: str) -> str:
    """The folder of the image with this key: it contains IMAGE, SIDECAR, and other requested formats."""
    return f"{store_root.rstrip('/')}/images/{key}"


def check_name(name: str) -> str:
    """The name, if it is valid for an image. Raises RankzeroError otherwise."""
    if not _NAME.fullmatch(name):
        raise RankzeroError(
            f"name: {name!r} must be letters, digits, '.', '_' and '-', at most 64, beginning with a letter or digit"
        )
    return name


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _text(options: Mapping[str, object], name: str) -> str | None:
    value = options.get(name)
    return None if value in (None, "") else str(value)


def _list(options: Mapping[str, object], name: str) -> list[str]:
    value = options.get(name) or []
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)]


def _map(options: Mapping[str, object], name: str) -> tuple[tuple[str, str], ...]:
    value = options.get(name) or {}
    if not isinstance(value, Mapping):
        raise RankzeroError(f"{name}: must be a map, not {value!r}")
    for key, text in value.items():
        if not isinstance(text, str):
            raise RankzeroError(f'{name}.{key}: must be text, not {text!r}; quote it: "{text}"')
    return tuple(sorted((str(key), text) for key, text in value.items()))


def _keys(options: Mapping[str, object], name: str) -> list[str]:
    value = options.get(name) or {}
    if not isinstance(value, Mapping):
        raise RankzeroError(f"{name}: must be a map of id to file, not {value!r}")
    return [str(key) for key in value]


def _matches(option: str, form: re.Pattern[str], values: Sequence[str], wanted: str) -> None:
    for value in values:
        if not form.fullmatch(value):
            raise RankzeroError(f"{option}: {value!r} is not {wanted}")
