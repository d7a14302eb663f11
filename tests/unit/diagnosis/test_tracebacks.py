# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The forms that tracebacks take: groups of exceptions, rich's boxes, compiled code, chains, and none at all.

The logs are written for the test, in words of their own.
"""

from __future__ import annotations

import pytest

from tests.unit.diagnosis.test_cause import CHILD, read, root

IN_MAIN = 'Traceback (most recent call last):\n  File "fit.py", line 9, in <module>\n    main()\n'
IN_A_FUNCTION = 'Traceback (most recent call last):\n  File "tables.py", line 4, in get\n    return cells[key]\n'
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "fit.py", line 9, in <module>
  |     asyncio.run(main())
  | {name}: unhandled errors in a TaskGroup (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "shards.py", line 3, in load
    |     raise LookupError(f"shard {{number}} is empty")
    | LookupError: shard 7 is empty
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "shards.py", line 3, in load
    | LookupError: shard 8 is empty
    +------------------------------------
"""
BOX = """\
╭─────────────── Traceback (most recent call last) ────────────────╮
│ /code/fit.py:10 in <module>                                      │
│                                                                  │
│    8                                                             │
│ ❱ 10 main()                                                      │
│                                                                  │
│ /code/very/long/folder/of/a/pack │
│ age/layers.py:20 in forward                                      │
╰──────────────────────────────────────────────────────────────────╯
{exception}
"""


@pytest.mark.parametrize("name", ["ExceptionGroup", "exceptiongroup.ExceptionGroup", "BaseExceptionGroup"])
def test_of_a_group_of_exceptions_the_first_member_is_the_root(name: str) -> None:
    assert root(GROUP.format(name=name)) == ("exception", "LookupError: shard 7 is empty")


def test_a_table_with_a_margin_is_no_group() -> None:
    table = '  | layer | size |\n  |   File "x" | 3 |\n  +-------+------+\n'
    assert read(table).events == []


def test_a_program_whose_tracebacks_rich_draws_raises_once_in_a_run() -> None:
    first = BOX.format(exception="OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    again = BOX.format(exception="ValueError: the sample is larger than its population")
    assert root(first)[0] == "cuda_oom"
    assert root(first + "loading the model\n" + again) == (
        "exception",
        "ValueError: the sample is larger than its population",
    )


def test_compiled_code_names_its_exceptions_without_a_word_for_error() -> None:
    frames = '  File "table/_json.pyx", line 30, in table._json.read\n'
    assert root(frames + "table.lib.TableInvalid: a cell changed its type\n") == (
        "exception",
        "table.lib.TableInvalid: a cell changed its type",
    )


@pytest.mark.parametrize("tried", ["KeyError: 'graph'", "KeyError: Node(name='a', size=3)", "StopIteration"])
def test_the_look_up_that_a_function_tried_is_not_what_failed(tried: str) -> None:
    then = f"{IN_MAIN}NotImplementedError: no kernel for this graph\n"
    assert root(f"{IN_A_FUNCTION}{tried}\n{DURING}{IN_A_FUNCTION}KeyError: 'b'\n{DURING}{then}")[1] == (
        "NotImplementedError: no kernel for this graph"
    )
    # Any other exception is what failed, and the later one is of who cleans up.
    assert root(f"{IN_A_FUNCTION}ZeroDivisionError: division by zero\n{DURING}{then}")[1] == (
        "ZeroDivisionError: division by zero"
    )


def test_an_exception_without_a_traceback_is_the_last_word_before_a_launcher() -> None:
    assert root(f"TypeError: connect() got two values for 'backend'\n{CHILD}") == (
        "exception",
        "TypeError: connect() got two values for 'backend'",
    )
    # A name alone is torn from a message, and says nothing.
    assert root(f"RuntimeError\n{CHILD}")[0] == "launcher"


@pytest.mark.parametrize("tracker", ["semaphore_tracker", "resource_tracker"])
def test_what_cleans_up_after_a_killed_process_is_no_other_program(tracker: str) -> None:
    killed = f"{IN_MAIN}Exception: process 1 terminated with signal SIGKILL\n"
    leaked = f"/usr/lib/python3/multiprocessing/{tracker}.py:14: UserWarning: there appear to be 20 leaked objects\n"
    assert root(killed + leaked)[0] == "host_oom_killed"


@pytest.mark.parametrize("loading", ["Reading labels", "Scanning '/data/labels'", "Caching images", "Uploading parts"])
def test_the_bar_of_a_preparation_is_no_step(loading: str) -> None:
    bar = f"{loading}: 100%|##########| 117/117 [00:11<00:00, 10.1it/s]\n"
    assert read(bar).progress == 0
    assert root(f"{bar}  0%|          | 0/29 [00:00<?, ?it/s]WARNING: nan loss detected, ending\n")[0] == "nan_loss"
