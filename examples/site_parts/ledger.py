"""A tracker of experiments in a few lines: each call appends one line to the file that LEDGER_FILE names.

ledger.py NAME=VALUE...
"""

import json
import os
import sys


def log(values):
    row = {"run": os.environ["LEDGER_RUN"], "group": os.environ["LEDGER_GROUP"], **values}
    os.makedirs(os.path.dirname(os.environ["LEDGER_FILE"]), exist_ok=True)
    # One write in append mode: the lines of two launches do not mix.
    descriptor = os.open(os.environ["LEDGER_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, (json.dumps(row) + "\n").encode())
    os.close(descriptor)


if __name__ == "__main__":
    log(dict(word.split("=", 1) for word in sys.argv[1:]))
