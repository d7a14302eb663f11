# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What proves that a run ended well, what only seems to, and what batch systems and the last line say against it."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause
from tests.unit.diagnosis.test_appended import top
from tests.unit.diagnosis.test_cause import STEPS, raised, read, root

BARS = "".join(f"Epoch 3: {part}%|###   | {part}/100 [00:10<00:15,  4.00it/s]\r" for part in range(5, 100, 5))
LSF = (
    "\n------\nSender: LSF System <lsf@site>\nSubject: Job 7: <fit> in cluster <c> {0}\n\nYour job looked like:\n\n"
    "------\n# LSBATCH: User input\npython fit.py\n------\n\n{1}\n\nResource usage summary:\n\n    CPU time : 9 sec.\n"
)


@pytest.mark.parametrize(
    "ending",
    [
        "Monitored metric loss did not improve in the last 4 records. Best score: 0.1. Signaling Trainer to stop.\n",
        "Early stopping triggered after 9 epochs\n",
        "Epoch 9: early stopping\n",
        "2026-01-01 10:00:00 INFO Training Finished! best 0.9\n",
        "2026-01-01 10:00:00 fit INFO: Total training time: 2:03:04.5 (0.5s / it)\n",
        "Training time 1:20:45\n",
        "2026-01-01 10:00:00,1 INFO MainThread:7 [wandb_run.py:_atexit_cleanup():2469] got exitcode: 0\n",
        "wandb: Waiting for W&B process to finish... (success).\n",
        "005 (7.000.000) 2026-01-01 10:00:00 Job terminated.\n\t(1) Normal termination (return value 0)\n...\n",
        LSF.format("Done", "Successfully completed."),
    ],
)
def test_a_normal_end_is_a_proof(ending: str) -> None:
    found = cause.find_cause([read("loading\n" + ending)])
    assert (found.family, found.confidence) == (cause.HEALTHY, "high")
    # What ends the program itself is no part of it, whatever the script says afterwards.
    assert root(top("KeyError: 'a'") + ending)[1] == "KeyError: 'a'"


def test_a_progress_bar_that_is_redrawn_on_its_line_shows_steps() -> None:
    assert root("start\n" + BARS + "\n") == (cause.HEALTHY, "")
    # One bar may be of anything.
    assert root("start\n100%|####| 3/3 [00:01<00:00,  3.00it/s]\rwaiting for the data\n")[0] == cause.UNKNOWN


@pytest.mark.parametrize(
    "mention",
    [
        "Restored all states from the checkpoint at runs/a/epoch=18-val_loss=0.04.ckpt",
        "loaded the encoder of epoch 66 with msg: <All keys matched>",
        "resuming from step 100, loss 0.3",
        "[base.py:46] Model Loaded: runs/a/last @ iter:0, lr:0.1",
        "Namespace(model='a', batch=16, lr=0.1, loss='mse')",
        "trainer: mode=fit, epochs=9, pretrained=True, resume=False, batch=16, lr=0.1",
        "config: {'loss': 'huber', 'batch': 16, 'lr': 0.1, 'amp': True, 'seed': None}",
        "Capturing CUDA graph shapes: 100%|####| 35/35 [00:20<00:00,  1.72it/s]",
        "Preprocessing train: 100%|####| 350/350 [00:20<00:00,  9.72it/s]",
        "epoch 3 of the teacher is read from https://host/a",
    ],
)
def test_a_line_that_only_names_a_step_is_none(mention: str) -> None:
    assert root(f"start\n{mention}\nbuilding the index\n") == (cause.UNKNOWN, "")
    assert root(f"start\n{mention}\nstep 3 loss 0.2\n") == (cause.HEALTHY, "")


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (LSF.format("Exited", "Exited with exit code 1."), "Exited with exit code 1."),
        ("005 (7.0.0) Job terminated.\n\t(1) Normal termination (return value 1)\n...\n", "(return value 1)"),
        ("005 (7.0.0) Job terminated.\n\tJob terminated of its own accord with exit-code 3.\n...\n", "exit-code 3."),
        ("2026-01-01 10:00:00,1 INFO MainThread:7 [run.py:_atexit():24] got exitcode: 1\n", "exitcode: 1"),
        ("wandb: Waiting for W&B process to finish... (failed 255). Press Control-C to abort syncing.\n", "syncing."),
    ],
)
def test_what_a_batch_system_reports_of_a_failure_is_never_healthy(report: str, line: str) -> None:
    found = cause.find_cause([read(STEPS + report)])
    assert (found.family, found.confidence) == ("launcher", "low")
    assert found.root is not None
    assert found.root.text.endswith(line)
    assert root(raised("KeyError: 'a'") + report)[1] == "KeyError: 'a'"


@pytest.mark.parametrize(
    "last",
    [
        "stacking failed",
        "[Errno 2] No such file or directory: 'a'",
        "2026-01-01 10:00:00 ERROR main: no shard is left",
        "LookupError: no shard is left",
        "Error while merging: no shard is left",
    ],
)
def test_steps_prove_nothing_before_a_complaint_in_the_last_line(last: str) -> None:
    assert root(f"{STEPS}{last}\n") == (cause.UNKNOWN, "")
    assert root(f"{STEPS}{last}\n{STEPS}") == (cause.HEALTHY, "")
    assert root(f"{STEPS}Training completed\n{last}\n") == (cause.HEALTHY, "")


@pytest.mark.parametrize(
    "last",
    [
        "run.sh: 4: e: not found",
        "run.sh: line 4: e: command not found",
        "E0101 10:00:00.0 42 lamp.cc:15] no lamp answers",
        "step 21 loss 0.2 (3 files not found)",
        "2026-01-01 10:00:00 INFO 3 files are missing",
        "UserWarning: the mask is missing",
        "the index was not found, using the default one",
    ],
)
def test_what_is_no_complaint_of_the_program_leaves_the_proof(last: str) -> None:
    assert root(f"{STEPS}{last}\n")[0] == cause.HEALTHY


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("merging\nmerge failed with error: two rows have one label\n" + "part: ok\n" * 20, "exception"),
        ("merging\nmerge failed: two rows have one label\n" + "part: ok\n" * 20, cause.UNKNOWN),
        ("merging\nerror: resource(s) were provided, but no name was specified\nno job exists\n", cause.UNKNOWN),
        ("all done\nSuccess: 40 | Failed: 7\n", cause.UNKNOWN),
    ],
)
def test_what_a_program_says_last_of_an_error_that_it_caught(text: str, family: str) -> None:
    assert root(text)[0] == family


@pytest.mark.parametrize(
    ("complaint", "family"),
    [
        ("/var/spool/slurmd/job7/slurm_script: line 12: torchrun: command not found", "script_error"),
        ("bash: run_all.sh: No such file or directory", cause.UNKNOWN),
        ("python: can't open file '/home/me/fit.py': [Errno 2] No such file or directory", "file_missing"),
        ("fit.py: error: unrecognized arguments: --lamps", "usage"),
    ],
)
def test_what_a_script_says_at_its_end_does_not_mend_what_it_could_not_start(complaint: str, family: str) -> None:
    echoed = f"starting\n{complaint}\nJob completed successfully\n"
    assert root(echoed)[0] == family
    # What the program caught is not shown as a cause, and no proof of health either.
    caught = raised("LookupError: no lamp")
    assert root(f"{caught}exiting\nJob completed successfully\n")[0] == cause.UNKNOWN
    assert root("starting\nJob completed successfully\n")[0] == cause.HEALTHY
