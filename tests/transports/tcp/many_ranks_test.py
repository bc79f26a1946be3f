"""Many ranks over tcp on one host, also while strangers call at the ports of the job.

    many_ranks_test.py TUTTI PROGRAM [--long]

--long: 64, 128 and 256 ranks 20 times each, alone and among strangers, and a table; else 64 ranks once, among strangers.
"""

import argparse
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import threading
import time

A_SECOND = 200
SPEECHES = [
    b"",  # says nothing
    b"\x01",
    b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    b"tutti-h3" + b"\x01" * 40,  # stops in the middle of a greeting
    b"tutti-h3" + b"\x01" * 120,  # a whole one, without the key
]


def listening():
    """The ports of IPv4 that somebody listens on, by the inode of the socket."""
    ports = {}
    with open("/proc/net/tcp") as table:
        next(table)
        for line in table:
            words = line.split()
            if words[3] != "0A":  # those that listen come first
                break
            ports[words[9]] = int(words[1].rpartition(":")[2], 16)
    return ports


def ports_of(pid):
    ports = listening()
    found = []
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            if target.startswith("socket:[") and target[8:-1] in ports:
                found.append(ports[target[8:-1]])
    except OSError:
        pass  # it has ended, or closed the file
    return found


def family_of(pid):
    """The process and one of its children."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
    except OSError:
        return [pid]
    return [pid, *random.sample(children, min(1, len(children)))]


class Strangers(threading.Thread):
    """200 a second call at ports of the job, say what they like and hold on; each gives up after three seconds."""

    def __init__(self, job):
        super().__init__()
        self.job = job
        self.over = threading.Event()
        self.came = 0
        self.answered = 0

    def run(self):
        ports, known_at, held = [], 0.0, []
        begin = time.monotonic()
        while not self.over.is_set():
            now = time.monotonic()
            if now - known_at > 0.05:
                ports = [port for pid in family_of(self.job) for port in ports_of(pid)] or ports
                known_at = now
            while held and (len(held) > 3 * A_SECOND or now - held[0][0] > 3):
                self.leave(held.pop(0)[1])
            if ports:
                caller = socket.socket()
                caller.setblocking(False)
                caller.connect_ex(("127.0.0.1", random.choice(ports)))
                try:
                    caller.send(random.choice(SPEECHES))
                except OSError:
                    pass  # the port is closed already
                held.append((now, caller))
                self.came += 1
            begin = max(begin + 1 / A_SECOND, now - 0.5)
            time.sleep(max(0, begin - time.monotonic()))
        for _, caller in held:
            self.leave(caller)

    def leave(self, caller):
        try:
            self.answered += len(caller.recv(1)) > 0
        except OSError:
            pass
        caller.close()


def bring_up(tutti, program, nranks, with_strangers):
    """Seconds until all ranks were there; None, with a sentence on stderr, if they failed."""
    environment = {**os.environ, "TUTTI_TRANSPORTS": "tcp"}
    begin = time.monotonic()
    job = subprocess.Popen([tutti, "run", "-n", str(nranks), "--bind", "none", program], env=environment, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    strangers = Strangers(job.pid) if with_strangers else None
    if strangers:
        strangers.start()
    out = err = ""
    try:
        out, err = job.communicate(timeout=100)
    except subprocess.TimeoutExpired:
        job.terminate()  # it ends its ranks
        out, err = job.communicate()
    finally:
        if strangers:
            strangers.over.set()
            strangers.join()
    words = out.split()
    if job.returncode != 0 or words[:1] != ["up"] or words[3] != "tcp":
        print(f"{nranks} ranks: status {job.returncode}\n{err}{out}", file=sys.stderr)
        return None, strangers
    if strangers and (strangers.came == 0 or strangers.answered > 0):
        print(f"{strangers.came} strangers came, {strangers.answered} were answered", file=sys.stderr)
        return None, strangers
    return float(words[1]) - begin, strangers


def processor():
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} processors, {names[0] if names else 'unknown'}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tutti")
    parser.add_argument("program")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 128, 256])
    asked = parser.parse_args()
    # More ranks than the usual limit has descriptors for: each rank raises its own.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1024), hard))
    if not asked.long:
        seconds, strangers = bring_up(asked.tutti, asked.program, 64, True)
        if seconds is None:
            return 1
        print(f"64 ranks over tcp were there after {seconds:.2f} s, {strangers.came} strangers called")
        return 0
    print(processor())
    print("| ranks | strangers | came up | seconds: least | median | most |\n|---|---|---|---|---|---|")
    failures = 0
    for nranks in asked.ranks:
        for with_strangers in (False, True):
            times, callers = [], 0
            for done in range(asked.times):
                print(f"{nranks} ranks: {done} of {asked.times}", end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr)
                seconds, strangers = bring_up(asked.tutti, asked.program, nranks, with_strangers)
                callers += strangers.came if strangers else 0
                if seconds is not None:
                    times.append(seconds)
            failures += asked.times - len(times)
            spread = f"{min(times):.2f} | {statistics.median(times):.2f} | {max(times):.2f}" if times else "- | - | -"
            print(f"| {nranks} | {f'{callers} in all' if with_strangers else 'none'} | {len(times)} of {asked.times} "
                  f"| {spread} |", flush=True)
    return failures > 0


sys.exit(main())
