# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller reads answers as dataclasses: a key that is spelled in a subscript is a field without a type."""

from __future__ import annotations

import ast
import collections
import re

from tests.repository import ROOT, bullet_list, files, syntax_tree

#: How many subscripts with a text there are. Only their number may fall: a lower number belongs here.
MOST = 18
#: Files whose data has types to the edge of Ansible.
TYPED = (
    "plugins/action/code_snapshot.py",
    "plugins/action/hub_cache.py",
    "plugins/action/reconcile.py",
    "plugins/plugin_utils/actions/launch.py",
    "plugins/plugin_utils/actions/launcher.py",
    "plugins/plugin_utils/sources/hub.py",
)
MOST_OF_TYPED = 5


def keys_spelled() -> collections.Counter[str]:
    """File -> the number of subscripts with a text, of the actions and what they load."""
    count: collections.Counter[str] = collections.Counter()
    for path in files("plugins/", ".py"):
        if path.startswith(("plugins/action/", "plugins/plugin_utils/")):
            count[path] = sum(
                isinstance(node, ast.Subscript)
                and isinstance(node.slice, ast.Constant)
                and isinstance(node.slice.value, str)
                for node in ast.walk(syntax_tree(path))
            )
    return count


def test_no_more_keys_are_spelled_than_before() -> None:
    count = keys_spelled()
    assert sum(count.values()) <= MOST, bullet_list([f"{path}: {number}" for path, number in count.most_common(12)])
    assert all(count[path] <= MOST_OF_TYPED for path in TYPED)


def test_a_request_becomes_a_dict_where_a_module_gets_it() -> None:
    """Everywhere else it is a Request or a SweepRequest, with the types of its fields."""
    calls = {
        path
        for path in files("plugins/", ".py")
        if path.startswith(("plugins/action/", "plugins/plugin_utils/"))
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sent"
    }
    assert calls == {"plugins/plugin_utils/actions/launcher.py", "plugins/plugin_utils/actions/launch_many.py"}


def test_the_cluster_reads_a_request_where_it_arrives() -> None:
    """From there on it is a Request or a SweepRequest: its JSON goes no further."""
    readers = {
        path
        for path in [*files("plugins/modules/", ".py"), *files("plugins/module_utils/submit/", ".py")]
        for text in [(ROOT / path).read_text(encoding="utf-8")]
        if re.search(r"submit\.(sweep_)?request import", text) and re.search(r"\b(\w*Request|kind)\.of\(", text)
    }
    assert readers == {
        "plugins/modules/job.py",
        "plugins/modules/job_sweep.py",
        "plugins/module_utils/submit/many/launches.py",
        "plugins/module_utils/submit/sweep_request.py",
    }
    plain = [
        f"{path}:{node.lineno}"
        for path in files("plugins/module_utils/submit/", ".py")
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("request")
    ]
    assert not plain, bullet_list(plain)


def test_nothing_is_written_into_a_finished_request() -> None:
    written = []
    for path in files("plugins/", ".py"):
        if path.startswith(("plugins/action/", "plugins/plugin_utils/")):
            for node in [node for node in ast.walk(syntax_tree(path)) if isinstance(node, ast.Assign)]:
                written += [
                    f"{path}:{node.lineno}"
                    for target in node.targets
                    if isinstance(target, ast.Subscript)
                    and any(getattr(part, "attr", "") in ("arguments", "request") for part in ast.walk(target.value))
                ]
    assert not written, bullet_list(written)
