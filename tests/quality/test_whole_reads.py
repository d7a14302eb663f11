# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing in plugins/ reads all of a file that others write: of any size, it would take any amount of memory.

Whole files are read by module_utils/core/whole_files.py (`content_of`, `text_of`, `json_of`, `last_text`, `last_bytes`)
and by runtime/core/files.py (`content`, `document`), which have a limit. Everything else reads parts of a given size.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.repository import bullet_list, files, syntax_tree

#: Why all of a file may be read -> `file function`.
READS_ALL = {
    "a file of the collection": (
        "plugins/plugin_utils/jobs/render.py _own_digest",
        "plugins/plugin_utils/sources/carrier.py _code",
        "plugins/plugin_utils/sources/carrier.py _loader",
        "plugins/plugin_utils/waits/checker.py _gather",
        "plugins/plugin_utils/jobs/prepare.py runtime_bundle",
        "plugins/plugin_utils/jobs/version.py collection_version",
        "plugins/plugin_utils/page/render.py _file",
        "plugins/runtime/container/outside.py facts",
        "plugins/runtime/node/reports.py versions",
    ),
    "what the kernel says, at a path that is given": (
        "plugins/module_utils/lab/machine/cgroups.py join",
        "plugins/plugin_utils/sources/outputs.py _mode",
        "plugins/plugin_utils/sources/outputs.py _process",
        "plugins/runtime/preflight/limits.py groups_of",
        "plugins/runtime/preflight/limits.py of_process",
        "plugins/runtime/preflight/limits.py words_of",
        "plugins/runtime/preflight/network.py number_in",
        "plugins/runtime/preflight/program.py identity",
        "plugins/runtime/start/ports.py of_connections",
        "plugins/runtime/start/ports.py _rows",
    ),
    "code in the user's own cache, whose owner is checked": ("plugins/module_utils/core/module_cache.py read",),
}
#: What opens a stream, by the last part of its name.
OPENS = {"open", "fdopen", "regular", "stream", "opened", "makefile", "extractfile"}
#: What takes all of a stream, or its lines one by one, each of any length. json.load takes nothing but streams.
TAKES_ALL = {"enumerate", "list", "iter", "islice", "map", "filter", "set", "sorted", "tuple", "csv.reader"}
TAKES_ALL |= {"yaml.load", "yaml.safe_load", "tomllib.load", "marshal.load", "pickle.load"}


def streams(function: ast.AST) -> dict[str, str]:
    """Name -> how it was opened, of the streams of a function."""
    opened: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, (ast.With, ast.AsyncWith)):
            pairs = [(item.context_expr, item.optional_vars) for item in node.items]
        elif isinstance(node, ast.Assign):
            pairs = [(node.value, target) for target in node.targets]
        elif isinstance(node, ast.arg) and node.annotation is not None and "IO[" in ast.unparse(node.annotation):
            opened[node.arg] = "an argument"
            continue
        else:
            continue
        for made, name in pairs:
            if isinstance(made, ast.Call) and isinstance(name, ast.Name):
                how = ast.unparse(made.func)
                if how.rpartition(".")[2] in OPENS and not how.startswith("tarfile."):
                    opened[name.id] = ast.unparse(made)
    return opened


def is_output(node: ast.AST) -> bool:
    """Whether this is the stdout or stderr of a process."""
    return isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr")


def reads(function: ast.AST) -> Iterator[str]:
    """What a function reads without a limit, as `stream: how it was opened`."""
    opened = streams(function)
    for node in ast.walk(function):
        taken: list[ast.AST] = []
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if isinstance(node.func, ast.Attribute):
                method = node.func.attr
                unlimited = method in ("read", "readline", "readlines") and not node.args and not node.keywords
                if unlimited or method in ("read_text", "read_bytes"):
                    taken.append(node.func.value)
            if name in TAKES_ALL or name == "json.load":
                taken += [each for each in node.args if name == "json.load" or ast.unparse(each) in opened]
        elif isinstance(node, (ast.For, ast.comprehension)):
            taken += [node.iter] if ast.unparse(node.iter) in opened or is_output(node.iter) else []
        for stream in taken:
            text = ast.unparse(stream)
            yield f"{text}: {opened.get(text, '')}"


def of_kernel(read: str) -> bool:
    """Whether a stream comes from a path of the kernel's that stands where it is opened."""
    return any(f"{quote}/{folder}/" in read for quote in "'\"" for folder in ("proc", "sys"))


def unlimited(path: str, tree: ast.AST) -> set[str]:
    """The functions of a file that read all of a stream."""
    return {
        f"{path} {function.name}"
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for read in reads(function)
        if not of_kernel(read)
    }


def test_all_of_a_file_is_read_only_with_a_limit() -> None:
    seen = {name for path in files("plugins/", ".py") for name in unlimited(path, syntax_tree(path))}
    listed = {name for names in READS_ALL.values() for name in names}
    assert seen == listed, bullet_list(sorted(seen ^ listed))


@pytest.mark.parametrize(
    "lines",
    [
        "    with open(p) as s:\n        return s.read()",
        "    with regular(p) as s:\n        return s.readlines()[-1]",
        "    s = open(p)\n    return [line for line in s]",
        "    with open(p) as s:\n        for line in s:\n            pass",
        "    with open(p) as s:\n        return csv.reader(s)",
        "    with open(p) as s:\n        return json.load(s)",
        "    return Path(p).read_text()",
        "    for line in process.stdout:\n        pass",
        "    return process.stderr.read()",
    ],
)
def test_an_unlimited_read_is_seen(lines: str) -> None:
    assert unlimited("x.py", ast.parse(f"def f(p):\n{lines}\n")) == {"x.py f"}


@pytest.mark.parametrize(
    "lines",
    [
        "    with open(p) as s:\n        return s.read(most)",
        "    with open('/proc/self/stat') as s:\n        return s.read()",
        "    with open(f'/proc/{p}/mounts') as s:\n        return [line for line in s]",
        "    with tarfile.open(p) as s:\n        return [entry for entry in s]",
        "    return list(iter(lambda: stream.read(4096), b''))",
    ],
)
def test_a_read_with_a_limit_is_none(lines: str) -> None:
    assert not unlimited("x.py", ast.parse(f"def f(p):\n{lines}\n"))
