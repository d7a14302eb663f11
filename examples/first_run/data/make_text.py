"""Write text.txt, the text that the example's language model learns from: `python data/make_text.py`.

A short essay comes first; then pages of a night operator's journal, which a small grammar makes up. The same program
writes the same text everywhere, so text.txt can be checked against it.
"""

import random
from pathlib import Path

ESSAY = """\
Many machines, one model

A model that is trained on many machines is still one model. Every rank begins with the same parameters, reads a part
of the text that nobody else reads, and works out in which direction its own part would push the parameters. Then the
ranks talk. They add up what each of them found, divide by their number, and take the same small step. When all goes
well, nobody can tell afterwards which rank computed what: a thousand processes have done the work of one, only faster.

The talking is the hard part. A rank that arrives early has to wait, and a rank that arrives late makes all others wait.
The slowest one sets the pace for everybody. This is why people who run large jobs care so much about things that have
nothing to do with learning: a cable that is not quite in its socket, a fan that turns too slowly, a file system on
which ten thousand processes open the same file in the same second. None of these is an error. Each of them is a delay,
and a delay on one node is a delay on all.

Before the ranks can talk, they have to meet. One of them, by custom the first, opens a door and tells the others the
number. The others knock until they are let in. If the number is wrong, or the door is on a network that the others
cannot see, they knock for a long time and then give up, and the message that they leave behind speaks of a timeout and
not of a door. Much of the craft of launching jobs is to make sure that this meeting cannot fail: that everybody knows
the address, that nobody else uses the number, and that the one who should open the door is really there.

Then there is the question of how one knows that it worked. A program that ends without an error has not shown much.
It may have trained on the wrong text, or on the right text with one rank alone while the others slept. A good run
leaves a proof: the loss at the beginning and at the end, measured on text that no rank has seen; the number of ranks
that took part, counted by the ranks themselves; and a fingerprint of the parameters from each of them. When all
fingerprints agree, the ranks have walked the whole way together. When one of them differs, something is broken, even
if the curve looks beautiful.

Machines fail. A job on one node may run for a year without trouble, but a job on a thousand nodes meets a year of
trouble every nine hours. So the program writes down where it is, again and again, and when it is stopped it begins at
the last mark and not at the start. The mark must be whole or absent, never half: it is written beside the old one, and
only when the last byte has reached the disk does it take the old one's name. This is an old trick and a good one. It
works for checkpoints, for results, and for everything else that somebody might read while it is being written.

The scheduler stands above all this and knows nothing of it. It sees nodes, and time, and people who would like more of
both. It gives a job some nodes for some hours and takes them back when the hours are over. It does not know whether
the loss has fallen. It would be wrong to ask it. A job can be finished and worthless, or cut off and precious; only
the program can tell the one from the other, and only if somebody taught it to.

It is worth while to be kind to the person who comes in the morning and wants to know what happened at night. That
person may be you. Write one line when you start, saying who you are and where. Write a line when something is done.
Do not write a thousand lines that say nothing. When you fail, say what you wanted, what you found in its place, and
what one could do about it. A log is a letter to a stranger who is in a hurry.

"""

NAMES = [
    "the first rank",
    "the last rank",
    "rank three",
    "rank seven",
    "the night shift",
    "the scheduler",
    "the head node",
    "our operator",
    "a watchful script",
]
NODES = [
    "node one",
    "node two",
    "node four",
    "node eleven",
    "the old node by the window",
    "the new node",
    "the node next to the door",
]
PARTS = [
    "a fan",
    "a cable",
    "a switch",
    "the disk",
    "the network card",
    "a power supply",
    "the clock",
    "the memory",
]
STATES = [
    "was slow",
    "was silent for a while",
    "had to be started again",
    "lost its link",
    "ran hot",
    "came back by itself",
    "held everybody up",
]
WORKS = [
    "read its part of the text",
    "averaged the gradients",
    "wrote a checkpoint",
    "checked the fingerprints",
    "waited at the barrier",
    "counted the tokens",
    "took the next step",
]
ENDS = [
    "and the loss went down again",
    "and nobody noticed",
    "and the others waited",
    "and all was well",
    "and the job went on",
    "and the log says so in one line",
    "which is how it should be",
    "as it does every night",
]
TIMES = [
    "Before midnight",
    "At midnight",
    "A little after one",
    "At two",
    "Towards three",
    "At four in the morning",
    "At dawn",
    "When the day shift came",
]
REASONS = [
    "because the queue was long",
    "because one node had failed",
    "because the time was up",
    "because a file was missing",
    "because nobody had looked",
]
ADVICE = [
    "Look at the first error, not at the loudest.",
    "Count the ranks before you trust the loss.",
    "A job that waits is not a job that works.",
    "Keep the checkpoint, throw away the guess.",
    "Ask every node, believe none of them alone.",
    "Write the result beside the old one and rename it.",
    "The slowest node sets the pace.",
    "What is not written down did not happen.",
]
PATTERNS = (
    "{time}, {name} {work}, {end}.",
    "{time}, {part} on {node} {state}, {end}.",
    "{name} {work} {reason}, {end}.",
    "{node} {state} {reason}.",
    "The loss was {loss} after {steps} steps, {end}.",
    "{count} ranks started, {count} ranks ended, {end}.",
    "{advice}",
)


def sentence(draw: random.Random) -> str:
    pick = {
        "name": NAMES, "node": NODES, "part": PARTS, "state": STATES, "work": WORKS, "end": ENDS, "time": TIMES,
        "reason": REASONS, "advice": ADVICE,
    }  # fmt: skip
    words = {slot: draw.choice(choices) for slot, choices in pick.items()}
    words["loss"] = f"{draw.uniform(1.2, 4.8):.2f}"
    words["steps"] = str(draw.randrange(1, 60) * 100)
    words["count"] = str(2 ** draw.randrange(1, 11))
    text = draw.choice(PATTERNS).format(**words)
    return text[0].upper() + text[1:]


def journal(draw: random.Random, size: int) -> str:
    pages, night = [], 1
    written = 0
    while written < size:
        body = " ".join(sentence(draw) for _ in range(draw.randrange(4, 9)))
        lines, line = [], ""
        for word in body.split():
            if len(line) + len(word) + 1 > 116:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}".strip()
        page = f"Night {night}\n\n" + "\n".join([*lines, line]) + "\n\n"
        pages.append(page)
        written += len(page)
        night += 1
    return "".join(pages)


def text() -> str:
    return ESSAY + journal(random.Random(1), 140_000)


if __name__ == "__main__":
    Path(__file__).with_name("text.txt").write_text(text(), encoding="utf-8")
