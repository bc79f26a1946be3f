#!/usr/bin/env python3
"""Under torchrun itself, each of whose ways to meet sets MASTER_PORT otherwise: tutti.init() and the process group. Not
with Debian's torch 1.13, whose torchrun does not start under its Python 3.11.

    torchrun_test.py FORM
"""

import os
import secrets
import socket
import subprocess
import sys
import tempfile

PROGRAM = """
import operator, sys, torch, torch.distributed as dist, tutti, tutti_torch
with tutti.init() as comm:
    assert (comm.size, comm.allreduce(comm.rank + 1, operator.add)) == (2, 3)
tutti_torch.use(sys.argv[1])
dist.init_process_group("tutti")
tensor = torch.ones(3)
dist.all_reduce(tensor)
assert torch.equal(tensor, torch.full((3,), 2.0))
dist.destroy_process_group()
print("rank done", flush=True)
"""


def free_port():
    """One after which there is another one."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            try:
                other.bind(("127.0.0.1", one.getsockname()[1] + 1))
            except (OSError, OverflowError):
                continue
            return one.getsockname()[1]


with tempfile.TemporaryDirectory() as folder:
    program, key = os.path.join(folder, "program.py"), os.path.join(folder, "key")
    with open(program, "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(secrets.token_bytes(32))
    for way in (["--standalone"], ["--master_addr", "127.0.0.1", "--master_port", str(free_port())]):
        ran = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", *way, program, sys.argv[1]],
                             env={**os.environ, "TUTTI_KEY_FILE": key, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
                             timeout=100)
        assert ran.returncode == 0 and ran.stdout.count("rank done") == 2, (way, ran.returncode, ran.stdout, ran.stderr)
