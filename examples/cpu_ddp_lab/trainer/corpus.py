"""Write a small corpus of labelled headlines, as `datasets` stores it, and its texts: corpus.py FOLDER

FOLDER is there whole or not at all. The same headlines are made each time: the program needs no network.
"""

import os
import random
import sys

from datasets import ClassLabel, Dataset, Features, Value

SUBJECTS = {
    "world": ["the president", "a delegation", "the council", "the embassy", "the minister", "the border patrol"],
    "sports": ["the striker", "the home team", "a goalkeeper", "the coach", "the league", "a sprinter"],
    "business": ["the central bank", "a retailer", "the stock market", "the carmaker", "an airline", "the insurer"],
    "science": ["a telescope", "the research group", "a satellite", "the chip maker", "an astronomer", "the new drug"],
}
VERBS = ["announces", "reports", "expects", "denies", "confirms", "awaits"]
OBJECTS = ["a record result", "an early decision", "new talks", "a surprising loss", "better figures", "a long delay"]
TIMES = ["this week", "on monday", "after the summer", "for the first time", "before the vote", "in the second half"]


def headlines(count):
    choose = random.Random(1)
    for number in range(count):
        label = number % len(SUBJECTS)
        words = [choose.choice(part) for part in (list(SUBJECTS.values())[label], VERBS, OBJECTS, TIMES)]
        yield {"text": " ".join(words), "label": label}


def main(folder, count=2000):
    if os.path.isdir(folder):
        return
    features = Features({"text": Value("string"), "label": ClassLabel(names=list(SUBJECTS))})
    rows = list(headlines(count))
    unfinished = f"{folder}.{os.getpid()}"
    Dataset.from_list(rows, features=features).save_to_disk(os.path.join(unfinished, "news"))
    with open(os.path.join(unfinished, "texts.txt"), "w", encoding="utf-8") as stream:
        stream.writelines(row["text"] + "\n" for row in rows)
    os.rename(unfinished, folder)


if __name__ == "__main__":
    main(os.path.expanduser(sys.argv[1]))
