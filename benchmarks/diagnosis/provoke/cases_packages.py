# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that cannot start: packages, extensions, scripts, arguments, containers, builds."""

from __future__ import annotations

from benchmarks.diagnosis.provoke.case import Case, trainer

_USE = "import {name}\nprint('ready', {name}.__name__)\n"
_EXTENSION = "gcc -shared -fPIC -w -o fused_ops.so ops.c {more} && srun -n 2 {label} $PYTHON run.py\n"
_OPS = "#include <Python.h>\nextern int {missing}(int);\nstatic struct PyModuleDef m = {{0}};\nPyObject *PyInit_fused_ops(void) {{ return PyLong_FromLong({missing}(1)); }}\n"
_PLAIN_C = "extern int {missing}(int);\nint PyInit_fused_ops(void) {{ return {missing}(1); }}\n"

# A table: one case per row, with its program.
# fmt: off
CASES = (
    Case("no-module", "import_error", r"ModuleNotFoundError: No module named 'megatron'", trainer(
            imports="from megatron.core import parallel_state"), "torchrun", nodes=2),
    Case("no-module-one-node", "import_error", r"ModuleNotFoundError: No module named 'tok'", trainer(
            imports="import tok"), "label", nodes=2, ranks=1,
         before="srun -N 1 -n 1 -w $MASTER_ADDR bash -c 'mkdir -p /tmp/local && echo > /tmp/local/tok.py'",
         env={"PYTHONPATH": "/tmp/local"}),
    Case("no-torch", "import_error", r"No module named '?torch", "srun --ntasks-per-node=1 /usr/bin/python3 -m torch.distributed.run train.py\n",
         "batch", nodes=2),
    Case("no-name", "import_error", r"ImportError: cannot import name 'ModelArgs'", trainer(
            imports="from mylib import ModelArgs"), "srun", also=("abi_conflict",),
         files={"old/mylib/__init__.py": "class Args: ...\n", "new/mylib/__init__.py": "class ModelArgs: ...\n"},
         env={"PYTHONPATH": "old:new"}),
    Case("circular", "import_error", r"ImportError: cannot import name", trainer(imports="from layers import Attention"),
         "files", also=("abi_conflict",),
         files={"layers.py": "from config import Config\nclass Attention: ...\n",
                "config.py": "from layers import Attention\nclass Config: ...\n"}),
    Case("shadowed", "abi_conflict", r"ImportError: cannot import name 'Random' from 'random'", trainer(imports="import numpy"),
         "srun", also=("import_error",), files={"random.py": "def shuffle_shards(names):\n    return sorted(names)\n"},
         alike=r"ImportError|AttributeError"),
    Case("undefined-symbol", "abi_conflict", r"undefined symbol: _ZN3c10", _EXTENSION.format(label="--label", more="-Wl,-z,now"),
         "batch", also=("import_error",), files={"ops.c": _PLAIN_C.format(missing="_ZN3c105ErrorC2ENS_14SourceLocationESs"),
                                 "run.py": _USE.format(name="fused_ops")}),
    Case("symbol-lookup", "abi_conflict", r"symbol lookup error|undefined symbol: ops_v2", "gcc -shared -fPIC -w -o libops.so ops.c && srun $PYTHON run.py\n",
         "batch", also=("crash",), files={"ops.c": "extern int ops_v2(int);\nint apply(int n) { return ops_v2(n); }\n",
                "run.py": "import ctypes\nprint('loading the kernels', flush=True)\nctypes.CDLL('./libops.so', ctypes.RTLD_GLOBAL).apply(1)\n"}),
    Case("library-missing", "import_error", r"cannot open shared object file",
         "gcc -shared -fPIC -o libkernels.so.12 k.c && gcc -shared -fPIC -w -o fused_ops.so ops.c ./libkernels.so.12 && rm libkernels.so.12\nsrun -n 2 $PYTHON run.py\n",
         "batch", also=("abi_conflict",), files={"k.c": "int kernel(int n) { return n; }\n", "ops.c": _PLAIN_C.format(missing="kernel"),
                         "run.py": _USE.format(name="fused_ops")}),
    Case("library-version", "abi_conflict", r"version .KERNELS_2.* not found|no version information",
         "gcc -shared -fPIC -Wl,--version-script=two.map -Wl,-soname,libkernels.so -o libkernels.so k.c && gcc -shared -fPIC -w -o fused_ops.so ops.c -L. -lkernels -Wl,-rpath,$PWD\n"
         "gcc -shared -fPIC -Wl,--version-script=one.map -Wl,-soname,libkernels.so -o libkernels.so k.c\nsrun $PYTHON run.py\n", "batch",
         also=("import_error",), files={"k.c": "int kernel(int n) { return n; }\n", "one.map": "KERNELS_1 { global: kernel; };\n",
                "two.map": "KERNELS_2 { global: kernel; };\n", "ops.c": _PLAIN_C.format(missing="kernel"),
                "run.py": _USE.format(name="fused_ops")}),
    Case("library-truncated", "abi_conflict", r"file too short|invalid ELF header",
         "printf '\\177ELF' > fused_ops.so\nsrun --label -n 2 $PYTHON run.py\n", "batch", also=("import_error",),
         files={"run.py": _USE.format(name="fused_ops")}),
    Case("numpy-abi", "numpy_abi", r"numpy\.dtype size changed", trainer(imports="import pandas"), "srun", nodes=2, ranks=1,
         env={"PYTHONPATH": "$OLD_PANDAS"}),
    Case("numpy-removed", "numpy_abi", r"was removed in the NumPy 2", trainer(
            setup="import numpy as np\nscale = np.float_(0.5)"), "torchrun"),
    Case("numpy-alias", "numpy_abi", r"module 'numpy' has no attribute", trainer(
            setup="import numpy as np\nmask = np.zeros(4, dtype=np.bool)\nmask = mask.astype(np.int)"), "label"),
    Case("package-metadata", "import_error", r"PackageNotFoundError", trainer(
            imports="import importlib.metadata\nVERSION = importlib.metadata.version('flash_attn')"), "srun"),
    Case("old-keyword", "python_exception", r"TypeError: .*unexpected keyword argument", trainer(
            setup="from transformers import AutoConfig, LlamaConfig, LlamaForCausalLM\nsmall = LlamaForCausalLM._from_config(LlamaConfig(num_hidden_layers=1, hidden_size=8, intermediate_size=8, num_attention_heads=1, vocab_size=16), use_flash_attention_2=True)"),
         "srun", ranks=1, also=("abi_conflict", "usage", "exception", "python_exception_other")),
    Case("command-not-found", "script_error", r"command not found|No such file", "nvidia_smi_wrapper --query\nset -e\ntorchrun_cluster train.py\n", "batch"),
    Case("srun-command-missing", "file_missing", r"execve\(\)|No such file", "srun -n 2 ./launch_me.sh\n", "batch",
         also=("script_error",), alike="No such file"),
    Case("module-missing", "script_error", r"module: command not found", "module load cuda/12.4\nsrun -n 1 python_of_module train.py\n", "batch",
         alike="command not found|No such file"),
    Case("conda-missing", "script_error", r"conda\.sh: No such file|conda: command not found",
         "set -e\nsource /home/user/miniconda3/etc/profile.d/conda.sh\nconda activate train\n", "batch", also=("file_missing",), alike="No such file"),
    Case("syntax-bash", "script_error", r"syntax error near unexpected token", "echo starting\nif [ 1 = 1 ]; then\n  echo yes\nfi fi\n", "batch",
         alike="syntax error"),
    Case("quote-bash", "script_error", r"unexpected EOF while looking for", "echo starting\necho 'it is not closed\nsrun hostname\n", "batch",
         alike="unexpected"),
    Case("crlf", "script_error", r"\\r|bad interpreter|\^M", "srun -n 1 ./launch.sh\n", "batch",
         also=("file_missing",), files={"launch.sh": "#!/bin/bash\r\nset -e\r\ncd /shared\r\n"},
         before="chmod +x launch.sh", alike="No such file|invalid|not found"),
    Case("crlf-sourced", "script_error", r"\\r", "source ./env.sh\nsrun -n 1 hostname > /dev/null\nfalse\n", "batch",
         files={"env.sh": "export A=1\r\n\r\ncd /shared\r\n"}, alike=r"\\r|No such file"),
    Case("unbound", "env_not_set", r"unbound variable", "set -u\necho data in $DATA_DIR\nsrun hostname\n", "batch", also=("script_error",)),
    Case("not-executable", "permission_denied", r"[Pp]ermission denied", "srun -n 2 ./run.sh\n", "batch",
         files={"run.sh": "#!/bin/bash\necho hello\n"}, alike="ermission denied"),
    Case("exec-format", "script_error", r"[Ee]xec format error", "printf '\\177ELFxxxx' > prog; chmod +x prog\nsrun -n 2 ./prog\n", "batch", alike="xec format error"),
    Case("python-syntax", "syntax_error", r"^SyntaxError", "import os\ndef main(:\n    pass\n", "srun", alike="SyntaxError"),
    Case("python-indent", "syntax_error", r"IndentationError|TabError", "import os\ndef main():\n    a = 1\n      b = 2\nmain()\n", "torchrun", alike="IndentationError"),
    Case("argparse", "usage", r"error: unrecognized arguments", "srun --label -n 2 $PYTHON cli.py --lr 0.1 --warmup-ratio 10\n", "batch",
         files={"cli.py": "import argparse\np = argparse.ArgumentParser('train.py')\nfor n in 'lr warmup-steps data seed optimizer hidden-size layers'.split():\n    p.add_argument('--' + n, help='the ' + n)\np.parse_args()\n"}),
    Case("argparse-required", "usage", r"error: the following arguments are required", "srun -n 2 $PYTHON cli.py --lr 0.1\n", "batch",
         files={"cli.py": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\np.add_argument('--data-path', required=True)\np.parse_args()\n"}),
    Case("argparse-choice", "usage", r"invalid choice", "$PYTHON cli.py --precision fp12\n", "batch",
         files={"cli.py": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--precision', choices=['bf16', 'fp8'])\np.parse_args()\n"}),
    Case("config-yaml", "usage", r"yaml\.scanner\.ScannerError|yaml\.parser|mapping values are not allowed", trainer(
            imports="import yaml\nCONFIG = yaml.safe_load(open('config.yaml'))"), "srun", also=("data_error",),
         files={"config.yaml": "model: small\n  layers: 12\n"}, alike="mapping values|in \"config"),
    Case("config-json", "usage", r"JSONDecodeError", trainer(imports="import json\nCONFIG = json.load(open('ds_config.json'))"), "torchrun",
         also=("data_error",), files={"ds_config.json": "{'train_batch_size': 8}\n"}),
    Case("config-key", "python_exception", r"KeyError: 'max_seq_len'", trainer(
            setup="config = {'hidden': 8}\nlength = config['max_seq_len']"), "label", also=("exception", "usage", "python_exception_other")),
    Case("config-pydantic", "usage", r"ValidationError", trainer(imports="from pydantic import BaseModel\nclass Config(BaseModel):\n    layers: int\n    lr: float",
            setup="Config(layers='twelve')"), "srun", ranks=1),
    Case("pip-offline", "build", r"ERROR: Could not find a version|ERROR: No matching distribution",
         "$PYTHON -m venv venv 2>/dev/null || /usr/bin/python3 -m venv venv\nvenv/bin/pip install --retries 1 --timeout 2 flash-attn==2.7.4\n", "batch",
         also=("offline",), alike="ERROR: "),
    Case("pip-conflict", "build", r"ERROR: Cannot install", "/usr/bin/python3 -m venv venv\nvenv/bin/pip install --no-index --find-links wheels app\n", "batch",
         before="/usr/bin/python3 make_wheels.py", alike="ERROR: ",
         files={"make_wheels.py": '''import os, zipfile
os.makedirs("wheels", exist_ok=True)
def wheel(name, version, requires=()):
    with zipfile.ZipFile(f"wheels/{name}-{version}-py3-none-any.whl", "w") as z:
        info = f"{name}-{version}.dist-info"
        z.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n" + "".join(f"Requires-Dist: {r}\\n" for r in requires))
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        z.writestr(f"{info}/RECORD", "")
        z.writestr(f"{name}.py", "")
wheel("core", "1.0"); wheel("core", "2.0"); wheel("left", "1.0", ["core==1.0"]); wheel("right", "1.0", ["core==2.0"]); wheel("app", "1.0", ["left", "right"])
'''}),
    Case("pip-build", "build", r"error: subprocess-exited-with-error|ERROR: Failed building|error: command|fatal error", "/usr/bin/python3 -m venv --system-site-packages venv\nvenv/bin/pip install --no-index --no-build-isolation ./ext\n",
         "batch", files={"ext/setup.py": "from setuptools import setup, Extension\nsetup(name='ext', version='1', ext_modules=[Extension('ext', ['ext.c'])])\n",
                         "ext/ext.c": "#include <cuda_runtime.h>\nint main() { return 0; }\n"},
         alike="fatal error|rror: |ERROR"),
    Case("uv-unsatisfiable", "build", r"No solution found", "cd app && UV_CACHE_DIR=/tmp/uv $UV sync --offline\n", "batch",
         files={"app/pyproject.toml": "[project]\nname = 'app'\nversion = '1'\nrequires-python = '>=3.9'\ndependencies = ['flash-attn==2.7.4', 'torch>=2.6']\n"},
         alike="hint|Because|No solution"),
    Case("uv-lock-stale", "build", r"lockfile|Unable to find lockfile", "cd app && UV_CACHE_DIR=/tmp/uv $UV sync --locked --offline\n", "batch",
         files={"app/pyproject.toml": "[project]\nname = 'app'\nversion = '1'\nrequires-python = '>=3.9'\ndependencies = []\n"}),
    Case("compile-header", "build", r"fatal error: .*No such file", "gcc -shared -fPIC -I. -o fused.so fused.c\n./train\n", "batch",
         files={"fused.c": "#include <cublas_v2.h>\n"}, alike="compilation terminated|fatal error"),
    Case("extension-build", "build", r"Error building extension|error: expected", trainer(
            imports="from torch.utils.cpp_extension import load_inline\nOPS = load_inline('ops', 'int one( { return 1; }', functions=['one'])"), "srun",
         alike="FAILED|error: |Error building", ranks=1),
    Case("no-compiler", "build", r"InvalidCxxCompiler|No working C\+\+ compiler|CppCompileError|InductorError", trainer(
            setup="step_of = torch.compile(lambda x: torch.sin(x) + 1)\nstep_of(torch.randn(8))"), "srun", ranks=1,
         env={"PATH": "/nowhere:$PYTHON_BIN", "CXX": "g++-nowhere", "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor"}, before="PATH=/usr/bin:/bin"),
    Case("apptainer-no-image", "container_start", r"FATAL: ", "srun -n 2 $APPTAINER exec /shared/images/train.sif python train.py\n", "batch", alike="FATAL"),
    Case("apptainer-bad-image", "container_start", r"FATAL: ", "head -c 65536 /dev/urandom > train.sif\nsrun -n 1 $APPTAINER exec train.sif python train.py\n", "batch", alike="FATAL|ERROR"),
)
