import subprocess
import sys

subprocess.run(["./bin/call", "program.py", *sys.argv[1:]], check=True)
