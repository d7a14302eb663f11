"""Judges a NumPy array (.npy) on its standard input: prints its shape and its largest number as one JSON object."""

import array
import ast
import json
import math
import struct
import sys

with sys.stdin.buffer as stream:
    start = stream.read(8)
    if start[:6] != b"\x93NUMPY":
        sys.exit("it is no .npy file")
    (length,) = struct.unpack("<H" if start[6] == 1 else "<I", stream.read(2 if start[6] == 1 else 4))
    header = ast.literal_eval(stream.read(length).decode("latin-1"))
    rest = stream.read()
if header["descr"] != "<f8":
    sys.exit(f"its numbers are {header['descr']}, not <f8")
count = math.prod(header["shape"])
if len(rest) != 8 * count:
    sys.exit(f"it has {len(rest)} bytes of numbers, and its header asks for {8 * count}")
numbers = array.array("d", rest)
if not all(map(math.isfinite, numbers)):
    sys.exit("one of its numbers is not finite")
print(json.dumps({"numbers": count, "largest": max(numbers, default=None)}))
