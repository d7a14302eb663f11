# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of the tests of roles: a server that is ready late, and a client that asks all servers. Any Python 3."""

SERVER = """
import http.server, json, os, sys, time
port, ready_after = int(sys.argv[1]), float(sys.argv[2])
begun = time.monotonic()
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/end":
            os._exit(7)
        up = time.monotonic() - begun >= ready_after
        told = {"rank": "RANK", "own": "OWN", "node": "SLURMD_NODENAME"}
        answer = {name: os.environ.get(variable) for name, variable in told.items()}
        body = json.dumps({**answer, "pid": os.getpid()}).encode()
        self.send_response(200 if up else 503)
        self.end_headers()
        self.wfile.write(body)
print("listens on", port, flush=True)
http.server.HTTPServer(("", port), Page).serve_forever()
"""
CLIENT = """
import json, os, sys, time, urllib.request
mode, urls = sys.argv[1], sys.argv[2].split(",")
def ask(url, path="/"):
    return json.loads(urllib.request.urlopen(url + path, timeout=5).read())
def until(url, before):
    for _ in range(600):
        try:
            answer = ask(url)
            if answer["pid"] != before:
                return answer
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit("no other server came")
if os.environ["RANK"] == "0":
    answers = [ask(url) for url in urls]
    again = []
    if mode in ("kill", "kill_all", "end"):
        try:
            ask(urls[1], "/end")
        except OSError:
            pass
        begun = time.monotonic()
        first = ask(urls[0]) if mode == "kill" else until(urls[0], answers[0]["pid"])
        again = [first, until(urls[1], answers[1]["pid"])]
        print("no answer for", round(time.monotonic() - begun, 1), "s", flush=True)
    names = ("RANKZERO_SERVER_URLS", "RANKZERO_SERVER_NODES", "WORLD_SIZE", "MASTER_ADDR")
    told = {name: os.environ[name] for name in names}
    if mode == "wait":
        open("asked", "w").close()
        time.sleep(3600)
    if mode == "heal" and os.environ["RANKZERO_ATTEMPT"] == "0":
        open("asked", "w").close()
        while ask(urls[1]):
            time.sleep(0.1)
    with open("result.json", "w") as stream:
        own, words = os.environ.get("OWN"), sys.argv[3:]
        json.dump({"answers": answers, "again": again, "told": told, "own": own, "words": words}, stream)
"""
