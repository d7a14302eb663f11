# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render the batch script of a plan. Plain jinja2: a site's templates take precedence, ours are under `rankzero/`.

Every value that a template prints is quoted for the shell, unless a filter makes it safe in another way.
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from types import CodeType
from typing import Any, ClassVar

import jinja2
import jinja2.bccache
import jinja2.runtime

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import digest_token
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import user_cache
from ansible_collections.rankzero.slurm.plugins.module_utils.core.user_cache import UserCache
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import short_key
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.shell import container_of, folder_of, values_of

TEMPLATES = os.path.join(os.path.dirname(__file__), "templates")
SCRIPT = "rankzero/job.sbatch.j2"
SHELL = "rankzero/shell.sh.j2"
SITE_SCRIPT = "job.sbatch.j2"


class Safe(str):
    """Text that needs no quoting, because a filter has made it safe where it is used."""


def _quoted(value: object) -> str:
    return str(value) if isinstance(value, Safe) else shlex.quote(str(value))


def _words(values: Iterable[str]) -> Safe:
    return Safe(" ".join(shlex.quote(str(value)) for value in values))


def _program(argv: Sequence[str], python: str) -> Safe:
    """The ranks' command. The job's Python is given as a variable, because a node may have its own copy."""
    own = argv[0] == python
    return Safe(('"$RANKZERO_PYTHON" ' if own else "") + _words(argv[own:]))


def _bare(value: object) -> Safe:
    """Names that the spec's patterns limit to harmless characters."""
    text = str(value)
    if not re.fullmatch(r"[A-Za-z0-9._/-]+", text):
        raise RankzeroError(f"{text!r} needs quotes in a script")
    return Safe(text)


def _sbatch(value: object) -> Safe:
    """A value of an #SBATCH line. sbatch parses it: double quotes group, a backslash escapes, # starts a comment."""
    text = str(value)
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise RankzeroError(f"the sbatch value {text!r} must be one line without control characters")
    if re.fullmatch(r"[A-Za-z0-9_.,:@%/+=-]+", text):
        return Safe(text)
    return Safe('"' + re.sub(r'([\\"#])', r"\\\1", text) + '"')


def _comment(value: object) -> Safe:
    """The rest of a comment line, without characters that could end the line."""
    return Safe("".join(char if char.isprintable() else " " for char in str(value)))


def _tilde(value: object) -> Safe:
    """A path on the cluster, in which a leading ~/ is the user's home directory there."""
    text = str(value)
    return Safe('"$HOME"/' + shlex.quote(text[2:])) if text.startswith("~/") else Safe(shlex.quote(text))


def _shell_line(value: object) -> Safe:
    """A line of the spec's `setup.commands`, the only place where a job contains shell code."""
    return Safe(str(value))


class _Context(jinja2.runtime.Context):
    """Marks what `super()` returns in a site's template as safe: it is part of a script, and quoting would break it."""

    def super(self, name: str, current: Any) -> Any:
        parent = super().super(name, current)
        return parent if isinstance(parent, jinja2.Undefined) else lambda: Safe(parent())


class _Compiled(jinja2.BytecodeCache):
    """Keeps compiled templates by their text: for the other launches of a sweep, and for the user's next commands."""

    codes: ClassVar[dict[tuple[str, str], CodeType]] = {}

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        """Take over what an earlier rendering has made of the same text."""
        bucket.code = self.codes.get((bucket.key, bucket.checksum))
        if bucket.code is None and (kept := _kept().read(_name(bucket))):
            with contextlib.suppress(EOFError, ValueError, TypeError):  # damaged
                code = marshal.loads(kept)
                if isinstance(code, CodeType):
                    bucket.code = self.codes[bucket.key, bucket.checksum] = code

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        """Keep the code for later renderings."""
        if bucket.code is not None:
            self.codes[bucket.key, bucket.checksum] = bucket.code
            _kept().write(_name(bucket), marshal.dumps(bucket.code))


def _kept() -> UserCache:
    return UserCache(user_cache("templates"))


def _name(bucket: jinja2.bccache.Bucket) -> str:
    """The name of a compiled template: of its path and text, and of what compiles it, our filters too."""
    of = (bucket.key, bucket.checksum, sys.version, jinja2.__version__, _own_digest())
    return f"{sha256(repr(of).encode()).hexdigest()}.code"


@functools.cache
def _own_digest() -> str:
    with open(__file__, "rb") as stream:
        return sha256(stream.read()).hexdigest()


def environment(site_templates: str | None = None) -> jinja2.Environment:
    """The Jinja environment of the scripts. `site_templates`: a folder whose templates take precedence over ours."""
    ours = jinja2.PrefixLoader({"rankzero": jinja2.FileSystemLoader(TEMPLATES)})
    loaders: list[jinja2.BaseLoader] = [jinja2.FileSystemLoader(site_templates)] if site_templates else []
    result = jinja2.Environment(
        loader=jinja2.ChoiceLoader([*loaders, ours]),
        undefined=jinja2.StrictUndefined,
        finalize=_quoted,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=_Compiled(),
    )
    result.context_class = _Context
    result.filters.update(
        words=_words, program=_program, bare=_bare, sbatch=_sbatch, comment=_comment, shell_line=_shell_line,
        digest=digest_token, tilde=_tilde,
    )  # fmt: skip
    return result


def render_script(plan: Plan, site_templates: str | None = None) -> str:
    """The batch script, with the token of the generation not yet replaced."""
    templates, name = _opened(site_templates)
    with _mistakes_named(name, site_templates):
        return templates.get_template(name).render(_values(plan))


def render_shell(plan: Plan, site_templates: str | None = None, role: str = "") -> str:
    """The script of an interactive shell: the batch script's blocks `setup` and `environment`, then a shell. `role`:
    whose program the plan is of, in a launch with several.
    """
    templates, name = _opened(site_templates)
    with _mistakes_named(name, site_templates):
        values = _values(plan)
        blocks = {block: _block(templates, name, block, values) for block in ("setup", "environment")}
        own = {"folder": folder_of(plan), "container": container_of(plan), "values": values_of(plan, role)}
        return templates.get_template(SHELL).render(values, **blocks, **own)


def _block(templates: jinja2.Environment, name: str, block: str, values: Mapping[str, Any]) -> Safe:
    """One block of a job's template: the site's if it has one, with ours as its `super()`."""
    chain = [templates.get_template(each) for each in dict.fromkeys([name, SCRIPT])]
    context = chain[0].new_context(dict(values))
    blocks = [template.blocks[block] for template in chain if block in template.blocks]
    context.blocks[block] = blocks
    return Safe("".join(blocks[0](context)).strip("\n"))


def _opened(site_templates: str | None) -> tuple[jinja2.Environment, str]:
    """The templates, and the name of the job's script template. Raises `RankzeroError`."""
    name = SITE_SCRIPT if site_templates else SCRIPT
    if site_templates and not os.path.isfile(os.path.join(site_templates, SITE_SCRIPT)):
        raise RankzeroError(
            f"launch_cluster.templates: there is no {SITE_SCRIPT} in {site_templates} on the controller; write one "
            f"that extends {SCRIPT}, or leave the setting out"
        )
    return environment(site_templates), name


def _values(plan: Plan) -> dict[str, Any]:
    code = plan.ref(CODE.name)
    return {
        "plan": plan,
        "key": short_key(plan.key),
        "code_dir": code.path if code else "",
        "environment_dir": plan.environment_dir,
    }


@contextlib.contextmanager
def _mistakes_named(name: str, site_templates: str | None) -> Iterator[None]:
    """Turn a template's errors into errors that tell the user what to do."""
    try:
        yield
    except jinja2.TemplateError as error:
        where = f" line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise RankzeroError(f"template {name}{where} of {site_templates or 'the collection'}: {error}") from error
