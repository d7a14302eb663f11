"""Writes its result as a NumPy array."""

import array
import os
import struct

numbers = array.array("d", [1.0, 0.5, 0.25])
header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({len(numbers)},)}}".encode()
header += b" " * (-(len(header) + 11) % 64) + b"\n"
with open("spectrum.npy.tmp", "wb") as stream:
    stream.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + numbers.tobytes())
os.replace("spectrum.npy.tmp", "spectrum.npy")
