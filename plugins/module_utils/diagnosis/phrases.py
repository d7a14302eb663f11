# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patterns for lines that belong to no family: tracebacks, echoes, noise, steps and ends."""

from __future__ import annotations

import re

TRACEBACK = "Traceback (most recent call last)"
# Any traceback's first line, also one that a launcher quotes; a line of its frames.
RECENT_CALL = "(most recent call last)"
# A traceback that is not quoted, as Python writes it and as rich draws it.
OWN_HEADER = ("Traceback", "Exception Group", "\u256d")
ESCAPED = "(most recent call last):\\n"
HEADER = re.compile(r"[Tt]raceback\b[^()]{0,80}\(most recent call last\)")
FRAME = re.compile(r"(\s+)File \"")
# A frame as only tracebacks have it: the file and the function; without a function the file is no valid Python.
CALL = re.compile(r"\s+File \"[^\"]+\", line \d+, in ")
OUTERMOST = re.compile(
    r"\s+File \"(?P<file>[^\"]+)\", line \d+(?:, in (?P<function>\S+))?"
    # In rich's box; a long path is broken, and its rest says as much.
    r"|\u2502 (?P<boxed>\S+) in (?P<called>\S+) *\u2502?$"
)
DURING = "During handling of the above exception"
DIRECT = "The above exception was the direct cause"
# The last line of a traceback: the name of an exception, with or without a message.
NAME = (
    r"(?:[A-Za-z_]\w*\.)*(?:[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Iteration|Timeout|Failure|Expired|Warning))"
)
EXCEPTION = re.compile(rf"{NAME}(?::(?: |$)|$)|Exception: ")
BARE = re.compile(rf"{NAME}:?\s*$")
# The same class name several times: ranks that write to one file at the same moment.
_DOUBLED = re.compile(r"[\s:]*((?:(?:[a-z_]\w*\.)*[A-Z][A-Za-z]*?(?:Error|Exception)){2,})[\s:]*(.*)")
_ONE_NAME = re.compile(r"(?:[a-z_]\w{0,60}\.){0,8}[A-Z][A-Za-z]{0,80}?(?:Error|Exception)")
ANY_CLASS = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:: |$)|(?:[a-z_]\w*\.)+\w+: ")
# With its module: also below frames without a header.
FULL_CLASS = re.compile(r"(?:[A-Za-z_]\w*\.)+[A-Z]\w*: ")
EXCEPTION_INSIDE = re.compile(r"(?<![\w.])((?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): )")
WARNING = re.compile(r"\w*Warning\b")
# What a launcher, a store or a rank logs because of another failure: never the cause.
ECHOES = re.compile(
    r"ChildFailedError|RendezvousConnectionError|DistNetworkError: (?:Connection was likely|failed to recv)"
    r"|got 0 bytes"
    r"|TCPStore|(?:recv|send)(?:Value|Bytes|Vector)|HeartbeatMonitor|sigkill_handler(?!.*[Rr]eceived SIG)"
    r"|Force Terminated|exitcode: -15"
    r"|SignalException|Root Cause \(first observed failure\)|ProcessExitedException|ProcessRaisedException"
    r"|failed \(exitcode: -?\d+\) local_rank|Container failed !!!|status failed cmd \["
    r"|ABORT!!! Out of all \d+ trainers"
    r"|srun: (?:error: .*(?:Exited with exit code|Terminated|Killed)|Job step aborted|Force)|Terminating StepId"
    r"|CANCELLED AT \S+ DUE TO TASK FAILURE"
    r"|exits with return code|Sending process \d+ closing signal|BrokenPipeError|ConnectionResetError"
    # A compiler gets the folder of Python's headers, and is no launcher.
    r"|CalledProcessError: Command ['\"\[]*(?!\S*(?:cc|\+\+|clang|ninja|make)[ '])"
    r".*(?:python|torchrun|srun|deepspeed|mpirun)"
    r"|died with <Signals"
    r"|SystemExit|\bCancelledError\b|Horovod has been shut down|NCCL communicator was aborted on rank \d+\.?$"
    r"|the rank (?:of the )?first process to fail|Primary job +terminated normally|(?:mpi|prte)run (?:detected|noticed)"
    r"|MPI_ABORT was invoked|application called MPI_Abort\("
    r"|BAD TERMINATION OF ONE OF YOUR|KILLED BY SIGNAL: \d|APPLICATION TERMINATED WITH THE EXIT STRING"
    # R's, LSF's and HTCondor's reports, and W&B's.
    r"|^Execution halted$|^Exited with exit code \d|with exit-code [1-9]|Normal termination \(return value [1-9]"
    r"|got exitcode: [1-9]|W&B process to finish\b.{0,40}\(failed \d"
    r"|data reader raises an exception|EOFError$|raise_error|UnboundLocalError: .*(?:sock|conn)"
    r"|Process group watchdog thread terminated(?!.*operation timeout)"
    r"|(?:[Tt]raining|Command execution|[Jj]ob|[Rr]un|[Ss]cript|[Pp]rogram|[Pp]rocess|"
    r"[Tt]ask)\b.{0,40} (?:failed|crashed|exited)"
    r" with (?:a )?(?:non-?zero )?(?:exit |return )?(?:code|status)[: =]+(?!0\b)\d"
)
# What a program says of a connection that its other end closed.
CLOSED = re.compile(r"(?:BrokenPipeError|ConnectionResetError|EOFError)\b")
# The files of trackers of experiments: what they log of themselves ends no program.
TRACKER = re.compile(r"[/\\](?:wandb|mlflow|comet_ml|neptune|swanlab|trackio|clearml|tensorboardX?)[/\\]")
# What a process says whose peer on the same node is gone, and the frames that lead there.
GONE = re.compile(r"^(?:ConnectionRefusedError: |FileNotFoundError: \[Errno 2\] No such file or directory$)")
TO_A_PEER = re.compile(r"multiprocessing/connection\.py\", line \d+, in SocketClient")
# A launcher's own frames.
LAUNCHERS = re.compile(r"torch/distributed/(?:run|launch|elastic)|accelerate/commands|deepspeed/launcher|bin/torchrun")
# Exceptions that only carry another one, which has its own traceback in the same log.
CARRIERS = re.compile(
    r"Caught \w+ in (?:DataLoader worker|pin memory thread|replica)|PapermillExecutionError|"
    r"JaxStackTraceBeforeTransformation"
    # The message, or NCCL's reason, follows on the lines below it.
    r"|^\w*(?:Error|Exception):$"
    r"|NCCL error in: \S+, (?:invalid usage|invalid argument|internal error|unhandled)"
    # A group of exceptions, which are listed below it.
    r"|^\S*ExceptionGroup: "
    # HCCL's reason is on the lines below it.
    r"|OPS function error: Hccl"
    # The exception that follows names the host.
    r"|urllib3\.exceptions\.NewConnectionError| raised:$"
    # The reason is that of the rank which raises another one.
    r"|RuntimeError: NCCL Error \d+: (?:unhandled|internal)"
    # Torn from its message by other ranks.
    r"|^(?:Runtime|Value|Type|OS|Key|Index|Import|Attribute)Error$"
    # TensorFlow lists what failed on the lines below it.
    r"|\d+ root error\(s\) found"
    r"|RemoteTraceback|_RemoteError|managers\.RemoteError|See (?:the )?(?:root cause|stack trace|traceback) above|"
    r"(?:Engine core|Worker) \w+ failed"
    r"|failed to import on the worker"
    r"|One or more background workers are no longer alive|InstantiationException|Error in call to target"
)
ECHO_NEEDLES = (
    "ChildFailedError",
    "exitcode: ",
    "Container failed",
    "status failed cmd",
    "ABORT!!!",
    "srun: error: ",
    "exits with return code",
    "Exited with exit code",
    "died with <Signals",
    "terminated with signal",
    "SignalException",
    "Terminating StepId",
    "Root Cause (first",
    "mpirun noticed",
    "mpirun detected",
    "prterun detected",
    "Execution halted",
    "exit-code ",
    "Normal termination (",
    "W&B process to",
    "prterun noticed",
    "BAD TERMINATION OF",
    "MPI_ABORT was",
    "called MPI_Abort",
    "KILLED BY SIGNAL",
    "THE EXIT STRING",
    "Horovod has been",
    "Job step aborted",
    "DUE TO TASK FAILURE",
    "Force Terminated",
    " failed with ",
    " exited with ",
    " crashed with ",
)
# Lines that look like failures and are none; what follows `ignored` is no failure either.
NOISE = re.compile(
    r"Exception ignored (?:in|while)|Error in atexit|^\w*Warning: |UserWarning|FutureWarning|DeprecationWarning"
    r"|\bWARNING\b.*\(OOM\)"
    # Bash reports a background helper that the script itself ended.
    r"|: line \d+: +\d+ (?:Killed|Terminated) +(?:sleep|tail|watch|top|nvidia-smi|dcgmi|vmstat|iostat|sar)\b"
    r"|libaio|NUMEXPR|inotify|_find_nvidia|OSError: .*lspci|destroy_process_group\(\) was not called"
    r"|[Ff]ailed to find ncclNetPlugin|ncclNet\w* (?:symbol|plugin)|NCCL INFO|ignored, because|"
    r"PythonFinalizationError"
    r"|can be ignored|safely ignore|[Ww]ill be ignored|[Rr]etrying|will (?:fall ?back|retry)|falling back"
    # Optional parts of NCCL: its monitoring, tuners and in-network reductions.
    r"|NCCL WARN (?:Error: corrupted comm|RAS)|\bras/\w+\.cc:\d+ NCCL WARN"
    r"|NCCL WARN .*(?:TUNER|Tuner|PROFILER|SHARP|CollNet)"
)
# Text of a program with several processes, and the fixed strings that it contains.
SEVERAL_WORDS = ("ank", "orld")
SEVERAL = re.compile(r"\b[Rr]ank\W{0,3}[1-9]|[Ww]orld[_ ][Ss]ize\W{1,4}(?:[2-9]|1\d)")
# A line that its writer marks as a warning or less: a symptom on it proves nothing.
NO_ERROR = re.compile(
    r"^\[?[WI](?:\d{3,4})? (?!.*\*\*\* SIG)"
    r"|\b(?:WARNING|INFO|DEBUG|warning)\b(?!.*(?:\bERROR\b|[Rr]eceived SIG|nterrupted by))"
    r"|^\w{0,12}[Ww]arning: "
)
# A batch script could not activate the environment of its program.
NOT_ACTIVATED = "/activate: No such file|EnvironmentNameNotFound|[Cc]ould not find conda environment"
# What Python prints of a warning while a program runs, not as it ends.
PYTHON_WARNS = re.compile(r"(?!.*(?:resource|semaphore)_tracker).*\.py:\d+: \w*Warning: ")
# A warning of PyTorch's C++ code: the program goes on, or an exception follows that says more.
WARNED = re.compile(r"\[W\d{0,4} ?\S*\.cpp:|\[?(?:[\d:.,/ T-]{8,30}[\]| ]*)?\[?(?:INFO|DEBUG)\b")
# What glog and absl write of an error, and before they abort the program.
GLOG = re.compile(r"(?:[\d:. -]{19,30}: )?(?P<level>[EF])(?:\d{4,8} \d\d:\d\d:\d\d| \S+\.(?:cc|cpp|cu|h):\d+\] )")
# What a logger writes of an error.
LOGGED_ERROR = re.compile(r"(?!.*\b(?:INFO|DEBUG)\b).{0,80}?(?:^|[\s\[(|:-])(?:ERROR|FATAL)(?:$|[\s\])|:-])")
# What a program says of an error that it caught, before it sums up.
FAILED_WITH = re.compile(r".{0,80}\bfailed with (?:an? )?(?:error|exception): \S")
# What a program prints of a failure without an exception: a box, a level, a sentence.
# An error that a program printed itself, in place of a traceback.
PRINTED_ERROR = re.compile(
    r"(?!.*\b(?:INFO|DEBUG|WARN(?:ING)?)\b)(?:\W{0,4}(?:Error|ERROR|(?:[Aa]n|[Ff]atal|[Uu]nexpected) [Ee]rror)\b"
    r"[^:]{0,100}: +\S|(?:\S+ ){1,5}failed(?: with (?:an )?(?:error|exception))?: +\S)"
)
COMPLAINT = re.compile(
    r".{0,60}\b(?:CRITICAL|FATAL)\b|"
    r"\W*(?:[EF]\d{4} \d\d:|\[?(?:ERROR|FATAL|CRITICAL|[Ee]rror|[Ff]atal)\b|terminate called|Abort|Assertion)|"
    r".*\b(?:[Ff]ailed|[Cc]annot|[Cc]ould not|[Cc]ouldn't|[Uu]nable to|[Ii]nvalid|[Uu]nrecogni[sz]ed|[Mm]issing|"
    r"not found|[Nn]o such|[Rr]equired|[Dd]enied|[Rr]efused|exceeds?|exceeded)\b"
)
IGNORED = re.compile(
    r"Exception ignored (?:in|while)|Error in (?:atexit|sys\.excepthook)"
    # compileall goes on with the next file.
    r"|^\*\*\*   File \""
    r"|Exception in (?:thread (?:NetStatThr|asyncio)|callback )|exception was never retrieved|--- Logging error ---"
)
# Functions that run as the interpreter ends.
AT_EXIT = re.compile(r", in (?:_exit_barrier|_run_finalizers|_exitfunc|_run_exitfuncs|_exit_function|__del__)\b")
# What Python prints before the traceback of a thread.
IN_A_THREAD = "Exception in thread "
# Follows a complaint at once where the program handles it.
_RECOVERS = re.compile(
    r"\b(?:re-?trying\b|will re-?try\b|(?:will try|trying) again|attempt \d+ (?:of|/) ?\d+|going on (?:without|with)"
    r"|continu(?:e|ing) without|is optional|(?:skipp|ignor)(?:ing|ed) (?:it|this)\b|fall(?:ing|s)? ?back (?:to|on)"
    r"|\bretry attempt\b"
    r"|, skipping\b|\bcontinuing:?$|\btrial \d+ failed\b|\d+ fits failed\b|failed\b.{0,40}\bcontinuing\b"
    r"|(?:not (?:found|available|installed)|unavailable|missing)\b.{0,40}\busing"
    r"|\busing (?:the latest cached|a?n? ?fallback)\b"
    r"|using (?:the )?(?:default|cpu) instead)|^skipping [a-z]|^\+ (?:true|:)$",
    re.IGNORECASE,
)
# What a person may do.
_ADVISES = re.compile(r"\b(?:please|you (?:can|may|should|could)|to (?:start|continue|enable) )", re.IGNORECASE)
# The same within the complaint itself: its writer goes on.
FALLBACK = re.compile(
    r"\b(?:going to|switching to|changing to|defaulting to|reverting to|using) \S+(?: \S+)? instead\b"
    r"|\b(?:continuing|proceeding|going on) (?:without|with|anyway)\b|\b(?:recovered|retried)\b|\bretry in \d"
    r"|[(,] ?ignored\)|, using \d+$",
    re.IGNORECASE,
)
RECOVERY_LINES = 3
IGNORED_WORDS = ("ignored", "***   File", "atexit", "excepthook", "Exception in", "never retrieved", "Logging error")
# srun names the node and the rank that its message is about.
TASK = re.compile(r"srun: error: (?P<node>[\w.-]+): tasks? (?P<rank>\d+)")
_STEPS = re.compile(
    r"\b(?:iter(?:ation)?|step|global_step|epoch|Training step|batch)\b[^\w\n]{0,4}\d+.*"
    r"(?:[Ll]oss|time|it/s|tflop|(?<![a-z])(?:ms\b|tps|lr))"
    r"|'loss': |\bTrial \d+ finished with value|\[ *\d+/\d+\] +eta: \d|[Ll]oss\b[^\w\n]{1,4}-?\d"
)
_BAR = re.compile(
    r"^(?!\W*(?:Load|Download|Fetch|Resolv|Generating|Capturing|Pre-?process|Read|Scann|Cach|Upload|Convert|"
    r"Running tokenizer|Tokeniz|Map\b|Filter|Extract|Sanity))"
    r"[^|%]{0,200}?(?<!\d)(?!0%\|[^|]*\| *0/)\d+%\|.*(?:it/s|s/it)"
)
# A line that only names a step: the file of an earlier run is read, or the arguments are printed.
_READS_WORDS = ("oad", "estor", "esum", "Namespace(", "True", "False", "None")
_READS = re.compile(r"\b(?:[Ll]oad|[Rr]estor|[Rr]esum)(?:ed|ing)\b|Namespace\(")
_SETTINGS = re.compile(r"(?:=|['\"]: )(?:True|False|None)\b.*(?:=|['\"]: )(?:True|False|None)\b")
PROGRESS = f"{_STEPS.pattern}|{_BAR.pattern}"
# The last of all requested steps: as good as a message of a normal end.
LAST_STEP = re.compile(r"\b(?:iter(?:ation)?|(?:global_)?step)\b\W{0,4}(\d+) ?/ ?(\d+)\b")
# Fixed strings: each such line contains one of them. They are checked first, as the regular expression is slow.
PROGRESS_WORDS = ("Trial ", "eta: ", "loss", "it/s", "s/it", "iter", "step", "epoch", "batch", "Loss")
# Failures that may share a line with a step: a message that was appended to a progress bar.
BESIDE_PROGRESS = ("rror", "CANCEL", "illed", "xcept", "ailed", "emory", "nan loss", "NaN loss", "space left", "topp")
# Begins with a fixed string, and is searched first.
_LOSS_NAN = re.compile(r"loss['\"]?\s{0,24}(?:[:=|]\s{0,24})?['\"]?[Nn]a[Nn]")
_NAN_LOSS = re.compile(
    r"(?<![\w-])(?:(?:train|training|lm|total|avg|mean|step)[ _/])?loss['\"]?\s{0,24}"
    r"(?:[:=|]\s{0,24})?['\"]?[Nn]a[Nn]\b"
)
LOSS = re.compile(r"\bloss['\"]?\s{0,24}(?:[:=|]\s{0,24})?['\"]?-?\d")
DONE = re.compile(
    r"Training (?:is |runs? )?(?:[Cc]ompleted?|[Ff]inished|[Dd]one)\b|`max_(?:epochs|steps)=\d+` reached|"
    r"[Ff]inished training|[Ee]nd of training\b|[Tt]raining (?:has )?ended"
    r"|exiting program (?:at|after)|\bTrain(?:ing)? runtime\b|'train_runtime'|after training is done|"
    r"exits successfully|Total run time: [\d.]+ seconds \("
    r"|worker group successfully finished|State: COMPLETED \(exit code 0\)"
    # Stopped by its own rule; how LSF, HTCondor and W&B report a normal end.
    r"|Signaling Trainer to stop|\bEarly stopping (?:triggered|activated|at epoch)|poch \d+: [Ee]arly stopping"
    r"|^Successfully completed\.$|Normal termination \(return value 0\)"
    r"|got exitcode: 0$|W&B process to finish\b.*\(success\)"
    # The whole time, as hours: torchvision's reference programs, and those derived from them.
    r"|(?:^|: )(?:Total t|T)raining time:? \d+:\d\d:\d\d\b"
)
DONE_WORDS = ("rain", "exit", "uccess", "run time", "to stop", "topping", "Normal term")
# Hydra, when the program that it runs has raised.
HYDRA_FAILED = "Error executing job with overrides"
# A new run begins at this line; everything before it belongs to an earlier run.
BEGIN = re.compile(r"^(?:\[rankzero\] job \S+ attempt \d+ on |=+ ?(?:RESTART|JOB START|START OF JOB)|Starting job \d+)")
# Slurm requeues the job: what the program logs after this belongs to the next attempt.
REQUEUED = re.compile(r"\*\*\* JOB \S+ ON \S+ CANCELLED AT \S+ DUE TO (?:JOB REQUEUE|PREEMPTION|NODE FAILURE)")

# What an exception is about where no family knows its message: its class, the code that it came through, and the words
# of its message. Weaker than any wording of a family.
_MEANINGS = (
    ("env_not_set", re.compile(r"KeyError: '[A-Z][A-Z0-9_]{2,}'$"), re.compile(r"environ|getenv")),
    (
        "abi_conflict",
        re.compile(
            r"^\S*(?:Import|Runtime|Version|Attribute|Value|Environment|Assertion|NotImplemented)"
            r"\w*(?:Error|Exception|Conflict)\w*: (?!.*(?:[Dd]igest|opset|API version))"
            r"(?=.*\bversions?\b)(?=.*(?:\b(?:requires?|required|needs?|expects?|found|installed|at least|minimum|"
            r"too old|incompatible|[Uu]pgrade|or (?:higher|newer|later|above)|and above)\b|[<>=]=))(?=.*\d+\.\d+)"
        ),
        None,
    ),
    (
        "shape_or_divisibility",
        re.compile(
            r"^\S*(?:Value|Assertion|Runtime)Error: (?!.*not (?:yet )?supported)(?=.*(?:\bworld[ _]?size\b|"
            r"\b(?:device )?mesh\b|"
            r"\bnumber of (?:GPUs|ranks)\b|"
            r"\b(?<!-)(?:[tpdce]p|tensor|pipeline|data|context|expert)[ _-]"
            r"(?:model[ _-])?(?:parallel\w*|size|degree)\b))(?=.*\d)"
        ),
        None,
    ),
    (
        "shape_or_divisibility",
        re.compile(
            r"^\S*(?:Value|Assertion|Runtime|Index)Error: (?!.*different devices)(?=.*\d)(?:"
            r"(?=.*\b(?:shapes?|dimensions?|ndim)\b)"
            r"(?=.*\b(?:expected|got|but|mismatch|match|differ\w*|incompatible|unequal|!=|vs\.?)(?!\w))|"
            # A size says less: only where two are compared.
            r"(?=.*(?:\bsizes?\b|\.size\())(?=.*\b(?:mismatch\w*|match|differ\w*|unequal|!=)(?!\w)))"
        ),
        None,
    ),
    (
        "offline",
        re.compile(
            # A service on the node itself is none of the network's.
            r"^(?!.*host='localhost').*(?:https?://|HTTPS?Connection)(?=.*(?:unreachable|[Tt]imed? ?out|refused|resolv|"
            r"(?:not|n't|[Ff]ailed to|[Uu]nable to) connect|[Cc]onnection .{0,40}(?:failed|error|aborted|reset)))"
            r"|(?:not reachable|unreachable|(?:failed|unable|not) to connect|connect(?:ion)? .{0,200}(?:refused|"
            r"timed out)).{0,400}https?://"
        ),
        None,
    ),
    (
        "rendezvous_failure",
        re.compile(
            r"^(?!.*https?:).*(?:not reachable|unreachable|(?:failed|unable|not|never) .{0,20}connect|[Tt]imed out|"
            r"[Tt]imeout (?:after|of|while|waiting|expired|exceeded))"
        ),
        re.compile(
            r"distributed/(?:elastic/)?(?:rendezvous|distributed_c10d)|in (?:init_process_group|_?rendezvous)\b"
        ),
    ),
)


def one_of(words: tuple[str, ...], text: str) -> bool:
    """Whether a text contains one of these fixed strings."""
    for word in words:  # noqa: SIM110 - three times as fast as any() on millions of lines
        if word in text:
            return True
    return False


def progress(text: str) -> re.Match[str] | None:
    """The step that a line logs, or its progress bar of steps; None without one."""
    step = _STEPS.search(text)
    if step:
        may_read = one_of(_READS_WORDS, text)
        return None if may_read and (_READS.search(text, 0, step.start()) or _SETTINGS.search(text)) else step
    return _BAR.match(text) if "%|" in text else None


def recovers(text: str) -> bool:
    """Whether a line says that the program handles a complaint and goes on."""
    return bool(_RECOVERS.search(text)) and not _ADVISES.search(text)


def is_nan_loss(text: str) -> bool:
    """Whether a line logs a loss that is no number."""
    return bool(_LOSS_NAN.search(text) and _NAN_LOSS.search(text))


def meant(text: str, frames: str) -> str:
    """The family that an exception belongs to by what it says and where it was raised; empty if it says too little."""
    for family, words, through in _MEANINGS:
        if words.search(text) and (through is None or through.search(frames)):
            return family
    return ""


_CARETS = re.compile(r"[\^~]{2,} ?")


def stitched(text: str) -> str:
    """An exception that several ranks wrote over each other, once."""
    if "^^" in text:
        text = _CARETS.sub("", text).lstrip("^~ ")
    doubled = _DOUBLED.match(text)
    if not doubled:
        return text
    names = _ONE_NAME.findall(doubled[1])
    if len(set(names)) > 1:
        return text
    message = doubled[2].strip()
    half = len(message) // len(names)
    if half and message[:half].strip() == message[-half:].strip():
        message = message[:half].strip()
    return f"{names[0]}: {message}" if message else names[0]
