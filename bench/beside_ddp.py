#!/usr/bin/env python3
"""The time of a step of tutti-train beside that of PyTorch's DistributedDataParallel over gloo.

    bench/beside_ddp.py [--program build/trainer/tutti-train] [--model gpt:tiny] [--ranks 1,2]

Both train the same GPT (same sizes, same attention, same batch, AdamW, float32) with one thread a
rank, by turns, `--rounds` times. A run's figure is the median over its steps but the first fifth;
the table has the median over runs, and the least and the most. Let this Python's PyTorch be the
LibTorch that the program was built with (-Dlibtorch=FOLDER takes that of a wheel: its folder `torch`);
otherwise the table says that they differ, and means little.

With --beside WHAT,WHAT... all of it is done beside each of these in turn: `nothing`; `loops:N`, N
busy loops bound to nothing; `job`, another tutti-train of two ranks; `mpi:N`, a job of Debian's Open
MPI with N busy ranks, each bound to a core of its own.
"""
import argparse
import contextlib
import json
import math
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = {  # layers, width, heads, context, vocabulary: trainer/models/shape.cc
    "gpt:tiny": (4, 128, 4, 128, 256),
    "gpt:small": (6, 384, 6, 256, 256),
    "gpt:124m": (12, 768, 12, 1024, 50257),
}


def gpt(size):
    """As trainer/models/gpt.cc has it."""
    import torch
    from torch import nn

    layers, width, heads, context, vocabulary = size

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def attention(self, x):
            batch, length, _ = x.shape
            q, k, v = self.qkv(x).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            later = torch.full((length, length), -math.inf).triu(1)
            scores = q @ k.transpose(-2, -1) / math.sqrt(width // heads) + later
            mixed = torch.softmax(scores, -1) @ v
            return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.LayerNorm(width)
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, tokens):
            x = self.words(tokens) + self.places(torch.arange(tokens.size(1)))
            for block in self.blocks:
                x = block(x)
            return self.norm(x) @ self.words.weight.t()

    return Gpt()


def ddp_rank(options):
    """One rank of DDP; rank 0 prints the milliseconds of its steps."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    size = SIZES[options.model]
    model = gpt(size)
    parameters = sum(p.numel() for p in model.parameters())
    if dist.get_world_size() > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    data = torch.Generator().manual_seed(dist.get_rank())
    times = []
    for _ in range(options.steps):
        begin = time.perf_counter()
        text = torch.randint(size[4], (options.batch, size[3] + 1), generator=data)
        optimizer.zero_grad(set_to_none=True)
        logits = model(text[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, size[4]), text[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        loss.item()
        times.append(1000 * (time.perf_counter() - begin))
    if dist.get_rank() == 0:
        print(json.dumps({"parameters": parameters, "step_ms": times, "torch": torch.__version__}))
    dist.destroy_process_group()


def run_ddp(options, ranks):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                   "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, os.path.abspath(__file__), "--as-ddp-rank", "--model", options.model,
               "--steps", str(options.steps), "--batch", str(options.batch)]
    processes = [subprocess.Popen(command, env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                                  stdout=subprocess.PIPE, text=True) for rank in range(ranks)]
    output = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"beside_ddp: a rank of DDP ended with status {[p.returncode for p in processes]}")
    return json.loads(output[0])


def run_tutti(options, ranks):
    with tempfile.NamedTemporaryFile("r", suffix=".json") as records:
        command = [options.program, "--model", options.model, "--dp", str(ranks), "--batch-per-rank",
                   str(options.batch), "--steps", str(options.steps), "--sample", "0", "--json", records.name]
        done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(f"beside_ddp: {' '.join(command)} ended with status {done.returncode}\n{done.stdout}")
        lines = [json.loads(line) for line in records]
    steps = [line for line in lines if not line.get("summary")]
    summary = next(line for line in lines if line.get("summary"))
    return {"parameters": summary["parameters"], "step_ms": [line["step_ms"] for line in steps],
            "exposed": summary["comm_exposed"]}


@contextlib.contextmanager
def neighbour(what, options):
    """Runs beside what is done in it."""
    kind, _, count = what.partition(":")
    loop = ["sh", "-c", "while :; do :; done"]
    commands = {
        "nothing": lambda: [],
        "loops": lambda: int(count) * [loop],
        "job": lambda: [[options.program, "--model", options.model, "--dp", "2", "--batch-per-rank", str(options.batch),
                         "--steps", "1000000", "--sample", "0"]],
        "mpi": lambda: [["mpirun.openmpi", "--bind-to", "core", "-n", str(int(count)), *loop]],
    }[kind]()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  start_new_session=True) for command in commands]
    try:
        time.sleep(3 if commands else 0)
        if any(process.poll() is not None for process in processes):
            sys.exit(f"beside_ddp: {what} does not run: {' '.join(commands[0])}")
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def libtorch_of(program):
    """The folder of the LibTorch that the program loads."""
    for line in subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True).stdout.splitlines():
        if "libtorch_cpu" in line:
            return os.path.dirname(os.path.realpath(line.split("=>")[1].split("(")[0].strip()))
    sys.exit(f"beside_ddp: {program} loads no LibTorch")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    options.add_argument("--program", default=os.path.join(root, "build/trainer/tutti-train"))
    options.add_argument("--model", default="gpt:tiny", choices=SIZES)
    options.add_argument("--ranks", default="1,2", help="numbers of ranks, by commas")
    options.add_argument("--batch", type=int, default=8, help="samples of a rank in a step")
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--beside", default="nothing", help="what else runs, by commas; see above")
    options.add_argument("--json", help="a file for all times")
    options.add_argument("--as-ddp-rank", action="store_true", help=argparse.SUPPRESS)
    options = options.parse_args()
    if options.as_ddp_rank:
        return ddp_rank(options)
    if options.steps < 5 or options.rounds < 1 or options.batch < 1:
        sys.exit("beside_ddp: it takes 5 steps, 1 round and 1 sample or more")
    besides = options.beside.split(",")
    for what in besides:
        if not re.fullmatch("nothing|job|(loops|mpi):[1-9][0-9]?", what):
            sys.exit(f"beside_ddp: nothing runs beside that is called '{what}' (nothing, loops:N, job, mpi:N)")
    if not os.access(options.program, os.X_OK):
        sys.exit(f"beside_ddp: there is no program {options.program}; --program names another")
    import torch
    of_python = os.path.realpath(os.path.join(os.path.dirname(torch.__file__), "lib"))
    same = os.path.samefile(os.path.join(libtorch_of(options.program), "libtorch_cpu.so"),
                            os.path.join(of_python, "libtorch_cpu.so"))
    figures, records = {}, []
    rows = [(what, int(ranks)) for what in besides for ranks in options.ranks.split(",")]
    for turn in range(options.rounds):
        for what, ranks in rows:
            for who, run in (("tutti", run_tutti), ("ddp", run_ddp))[::1 if turn % 2 == 0 else -1]:
                with neighbour(what, options):
                    record = run(options, ranks)
                records.append({"who": who, "ranks": ranks, "beside": what, "round": turn, **record})
                figures.setdefault((what, ranks, who), []).append(
                    statistics.median(record["step_ms"][options.steps // 5:]))
    if len({record["parameters"] for record in records}) != 1:
        sys.exit("beside_ddp: the two models differ in their number of parameters")
    if options.json:
        with open(options.json, "w") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
    print(f"{options.model}, {records[0]['parameters']:,.0f} parameters, {options.batch} samples a rank and step, one thread a rank")
    print(f"DDP over gloo of PyTorch {torch.__version__}; tutti-train on " +
          ("the same LibTorch" if same else f"ANOTHER LibTorch ({libtorch_of(options.program)})"))
    print(f"Milliseconds of a step: median (least to most) of {options.rounds} runs by turns.\n")
    wide = max(map(len, besides))
    print(f"{'beside':<{wide}}  {'ranks':>5}  {'tutti-train':>25}  {'DDP':>25}  {'DDP / tutti-train':>17}  {'exposed':>7}")
    for what, ranks in rows:
        of = {who: figures[what, ranks, who] for who in ("tutti", "ddp")}
        median = {who: statistics.median(times) for who, times in of.items()}
        cell = {who: f"{median[who]:.1f} ({min(times):.1f} to {max(times):.1f})" for who, times in of.items()}
        exposed = statistics.median(r["exposed"] for r in records if (r["beside"], r["ranks"], r["who"]) == (what, ranks, "tutti"))
        print(f"{what:<{wide}}  {ranks:>5}  {cell['tutti']:>25}  {cell['ddp']:>25}  {median['ddp'] / median['tutti']:>17.2f}  {exposed:>7.1%}")
    print("\nexposed: the part of a step of tutti-train in which a worker waits for communication.")


if __name__ == "__main__":
    main()
