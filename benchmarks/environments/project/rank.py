"""A rank that imports torch, says when it had it, and from where."""

import os
import time

import torch

with open(os.path.join(os.environ["RANKZERO_RUN_DIR"], "rank." + os.environ["RANK"]), "w") as stream:
    stream.write(f"{time.time()} {torch.__file__}\n")
