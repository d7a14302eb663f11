"""Goes on from the last step that the tracker has of this run, in whichever attempt."""

import json
import os

import ledger

STEPS = 4

steps = []
if os.path.exists(os.environ["LEDGER_FILE"]):
    with open(os.environ["LEDGER_FILE"], encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    steps = [row["step"] for row in rows if row["run"] == os.environ["LEDGER_RUN"]]
for step in range(len(steps), STEPS):
    ledger.log({"step": step, "loss": 1 / (1 + step)})
with open("result.json.tmp", "w", encoding="utf-8") as stream:
    json.dump({"steps": STEPS}, stream)
os.replace("result.json.tmp", "result.json")
