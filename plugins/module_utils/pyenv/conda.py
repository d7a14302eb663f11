# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conda environments in the store: from an environment.yml, an explicit lock, or a conda-pack archive.

A conda environment contains its own path, so it is built at its final path. env.json, written last, marks it as
complete. Only one builder works at a time; an incomplete environment of a killed builder has no env.json, and the next
builder removes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children, extraction
from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    JsonObject,
    ModuleResult,
    Parameters,
    made_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import named_text
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import json_of
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import ENVIRONMENT
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.manifest import (
    EnvironmentRecord,
    present,
    ref_of,
    write_record,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import environment_path, text_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.pip_settings import redact
from ansible_collections.rankzero.slurm.plugins.module_utils.store import uses
from ansible_collections.rankzero.slurm.plugins.module_utils.store.archive import said_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import (
    free_space,
    make_read_only,
    remove,
    trouble,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.locks import hold
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import borrowed, ready, take_away
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2")
TOOLS = ("micromamba", "mamba", "conda")
USUAL = (
    "~/.local/bin",
    "~/micromamba/bin",
    "~/miniforge3/bin",
    "~/miniconda3/bin",
    "~/mambaforge/bin",
    "/opt/conda/bin",
)
_HASHED = re.compile(r"\S+#(sha256:)?[0-9a-f]{32,64}")
_WAIT = 3600.0
# An explicit lock has one line per package; larger files (bytes) are refused.
_MOST_TEXT = 10_000_000
_FORMAT = 1


@dataclass(frozen=True)
class CondaRecipe:
    """The source of a conda environment. `text` of a file, or `sha256` and `size` (bytes) of an archive at `path`."""

    form: str
    text: str = ""
    path: str = ""
    sha256: str = ""
    size: int = 0

    @property
    def key(self) -> str:
        """32 hexadecimal digits, known before the build."""
        content = self.sha256 if self.form == "archive" else text_sha256(self.text)
        inputs = json.dumps({"format": _FORMAT, "mode": "conda", "form": self.form, "content": content}, sort_keys=True)
        return hashlib.sha256(inputs.encode("ascii")).hexdigest()[:32]


def conda_recipe(path: str) -> CondaRecipe:
    """The recipe in a file of the controller. Raises RankzeroError if the file is invalid or unreadable."""
    try:
        if path.endswith(ARCHIVES):
            return CondaRecipe(
                "archive", path=os.path.abspath(path), sha256=file_sha256(path), size=os.path.getsize(path)
            )
        text = named_text(path, "environment.file", _MOST_TEXT)
    except OSError as error:
        raise RankzeroError(
            f"environment.file: {path} cannot be read ({error}). Name an environment.yml, an explicit lock "
            f"(`conda list --explicit --md5`) or a conda-pack archive ({', '.join(ARCHIVES)})."
        ) from error
    if not re.search(r"(?m)^@EXPLICIT\s*$", text):
        if not re.search(r"(?m)^dependencies\s*:", text):
            raise RankzeroError(
                f"environment.file: {path} is neither an environment.yml (it has no `dependencies:`) nor an explicit "
                "lock (it has no line @EXPLICIT)"
            )
        return CondaRecipe("yml", text=text)
    unhashed = [line for line in _packages(text) if not _HASHED.fullmatch(line)]
    if unhashed:
        raise RankzeroError(
            f"environment.file: {len(unhashed)} packages in {path} have no hash, {redact(unhashed[0])} the first. "
            "Write it with `conda list --explicit --md5` (or --sha256), so that what is installed is what was locked."
        )
    return CondaRecipe("explicit", text=text)


@dataclass(frozen=True)
class CondaRequest:
    """The controller's request: the recipe, and the path that its archive was `sent` to."""

    conda: CondaRecipe
    sent: str | None = None

    @classmethod
    def of(cls, given: JsonObject) -> CondaRequest:
        """The request from the module's argument. Raises RankzeroError."""
        request = made_of(cls, given)
        return replace(request, conda=made_of(CondaRecipe, given["conda"]))


def ensure_conda(
    options: Parameters, given: JsonObject, *, check_mode: bool = False, meter: Meter | None = None
) -> ModuleResult:
    """Like `ensure_environment`, for mode conda. `given`: the module's request, a `CondaRequest`."""
    stores = ready(options, check_mode=check_mode)
    request = CondaRequest.of(given)
    made = request.conda
    path = environment_path(stores[-1].path, made.key)
    if options["state"] == "absent":
        there = present(path) is not None
        return take_away(ENVIRONMENT, made.key, path, there=there, check_mode=check_mode)
    warnings: list[str] = []
    other = borrowed(stores, ENVIRONMENT, made.key, lambda path: present(path) is not None, warnings)
    notes = {"warnings": warnings} if warnings else {}
    path = other or path
    if not other and not check_mode:
        uses.mark(path)
    manifest = present(path)
    if other or manifest is not None:
        return {"changed": False, "ref": ref_of(made.key, path, manifest), "environment": manifest, **notes}
    if check_mode:
        if made.form != "archive":
            find_tool(os.environ)  # check mode must not promise what cannot be built
        return {"changed": True, "ref": ref_of(made.key, path, None)}
    archive = None
    if made.form == "archive":
        archive = next((copy for copy in (request.sent, made.path) if copy and _is(copy, made)), None)
        if archive is None:
            return {"changed": False, "ref": ref_of(made.key, path, None), "needs": {"files": [made.path]}}
    # The mark was set before waiting for the lock, so that a prune sees that the environment is in use.
    with hold(os.path.join(os.path.dirname(path), f".{made.key}.lock"), _WAIT):
        manifest = present(path)
        if manifest is not None:
            return {"changed": False, "ref": ref_of(made.key, path, manifest), "environment": manifest}
        if meter is not None:
            meter.begin("unpacking" if archive is not None else "installing")
        manifest = _build(made, path, archive)
    uses.mark(path)
    return {"changed": True, "ref": ref_of(made.key, path, manifest), "environment": manifest, **notes}


def find_tool(environ: Mapping[str, str]) -> str:
    """The program that makes conda environments on this host. Raises RankzeroError if there is none."""
    named = [environ[name] for name in ("MAMBA_EXE", "CONDA_EXE") if environ.get(name)]
    folders = os.pathsep.join([environ.get("PATH", ""), *(os.path.expanduser(folder) for folder in USUAL)])
    installed = [shutil.which(name, path=folders) for name in TOOLS]
    for path in [*named, *filter(None, installed)]:
        if os.access(path, os.X_OK):
            return path
    raise RankzeroError(
        f"environment.mode: conda needs {', '.join(TOOLS[:-1])} or {TOOLS[-1]} on the host that builds, and none is "
        f"in PATH, MAMBA_EXE, CONDA_EXE or {', '.join(USUAL)}. Install one there, give a conda-pack archive as "
        "environment.file, or name an environment that the site has (environment.mode path)."
    )


def _build(made: CondaRecipe, path: str, archive: str | None) -> EnvironmentRecord:
    """Build the environment at its final path and verify it; env.json is written last. A failed one is removed."""
    began = time.monotonic()
    with _whole_or_gone(path):
        if archive is not None:
            tool = "conda-pack"
            _unpack(archive, path)
        else:
            tool = find_tool(os.environ)
            _create(tool, made, path)
            _verify(path)
        python = os.path.realpath(os.path.join(path, "bin", "python"))
        version = _python_version(python)
        packages = _installed(path)
        digest = hashlib.sha256("".join(f"{line}\n" for line in sorted(packages.values())).encode()).hexdigest()
        manifest: EnvironmentRecord = {
            "format": 1,
            "key": made.key,
            "mode": "conda",
            "form": made.form,
            "digest": digest,
            "python": {"path": python, "version": version},
            "packages": {name: line.split("=")[1] for name, line in sorted(packages.items())},
            "made_by": os.path.basename(tool),
            "seconds": round(time.monotonic() - began, 1),
        }
        make_read_only(path)
        os.chmod(path, 0o755)
        write_record(path, manifest)
        os.chmod(path, 0o555)
        return manifest


def _python_version(python: str) -> str:
    """The version, such as 3.11.2. Raises RankzeroError if the Python does not start."""
    if not os.access(python, os.X_OK):
        raise RankzeroError("environment: the new conda environment has no Python: name python among its dependencies")
    question = [python, "-I", "-c", "import platform; print(platform.python_version())"]
    done = children.run(question, child_environment(os.environ))
    if done.returncode != 0:
        raise RankzeroError(
            f"environment: the Python of the new conda environment does not start: {done.stderr.strip()[-300:]}"
        )
    return done.stdout.strip()


@contextmanager
def _whole_or_gone(path: str) -> Iterator[None]:
    try:
        remove(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            remove(path)
        if isinstance(error, OSError):
            raise trouble(error, os.path.dirname(path)) from error
        raise


def _create(tool: str, made: CondaRecipe, path: str) -> None:
    """Make the environment at `path` with micromamba, mamba or conda. Raises RankzeroError with their last lines."""
    micro = os.path.basename(tool).startswith("micromamba")
    source = f"{path}.{'yml' if made.form == 'yml' else 'txt'}"
    words = ["create"] if micro or made.form == "explicit" else ["env", "create"]
    # Copies instead of links into the cache: an edit there must not change this environment. conda reads these settings
    # only from variables.
    settings = {"ALWAYS_YES": "true", "ALWAYS_COPY": "true", "SAFETY_CHECKS": "enabled"}
    environment = {
        **child_environment(os.environ, "CONDA_", "MAMBA_", "PIP_"),
        **{f"{name}_{key}": value for name in ("CONDA", "MAMBA") for key, value in settings.items()},
    }
    try:
        with open(source, "w", encoding="utf-8") as stream:
            stream.write(made.text)
        done = children.run([tool, *words, "--quiet", "--prefix", path, "--file", source], environment)
    finally:
        with contextlib.suppress(OSError):
            os.remove(source)
    if done.returncode != 0:
        lines = [line.rstrip() for line in redact(done.stderr or done.stdout).splitlines() if line.strip()]
        shown = "\n".join(f"  {line}" for line in lines[-12:]) or f"  (no output, exit code {done.returncode})"
        room = f" ({free_space(path)})" if "No space left" in done.stderr else ""
        raise RankzeroError(f"environment: {os.path.basename(tool)} {' '.join(words)} failed{room}:\n{shown}")


def _verify(path: str) -> None:
    """Compare each file with its package's conda record. Raises RankzeroError with the first names that differ."""
    wrong = []
    for record in _records(path):
        for entry in (record.get("paths_data") or {}).get("paths", []):
            expected = entry.get("sha256_in_prefix") or entry.get("sha256")
            if not expected or entry.get("path_type") == "softlink":
                continue
            try:
                changed = file_sha256(os.path.join(path, entry["_path"])) != expected
            except OSError:
                wrong.append(f"{entry['_path']} (missing)")
                continue
            if changed:
                wrong.append(f"{entry['_path']} (changed)")
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise RankzeroError(
            f"environment: {len(wrong)} installed files differ from their packages' records: "
            f"{', '.join(wrong[:5])}{more}. The cache of packages is damaged (`conda clean --packages`), or the "
            "storage is."
        )


def _records(path: str) -> Iterator[dict[str, Any]]:
    folder = os.path.join(path, "conda-meta")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith(".json"):
            yield json_of(os.path.join(folder, name))


def _installed(path: str) -> dict[str, str]:
    """Package -> name=version=build=sha256."""
    return {
        str(record["name"]): "=".join(str(record.get(part, "")) for part in ("name", "version", "build", "sha256"))
        for record in _records(path)
        if "name" in record
    }


def _unpack(archive: str, path: str) -> None:
    """Unpack a conda-pack archive and adapt its paths. Raises RankzeroError and OSError."""
    os.mkdir(path)
    with said_of(f"environment.file: {archive}", "Make it again with `conda-pack -p ENVIRONMENT`."):
        extraction.untar(archive, path, extraction.Rules(links="inside"))
    program = os.path.join(path, "bin", "conda-unpack")
    if not os.path.isfile(program):
        raise RankzeroError(
            f"environment.file: {archive} has no bin/conda-unpack, so its paths cannot be adjusted. Make it with "
            "`conda-pack -p ENVIRONMENT`."
        )
    done = children.run([os.path.join(path, "bin", "python"), "-I", program], child_environment(os.environ))
    if done.returncode != 0:
        raise RankzeroError(f"environment.file: conda-unpack of {archive} failed: {done.stderr.strip()[-300:]}")


def _is(path: str, made: CondaRecipe) -> bool:
    """Whether the file at `path` on this host is the archive of the recipe."""
    try:
        return os.path.getsize(path) == made.size and file_sha256(path) == made.sha256
    except OSError:
        return False


def _packages(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "@"))]
