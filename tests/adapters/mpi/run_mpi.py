"""The interposer under every MPI that is found: Debian's two, and with `long` those that tools/setup peers has
installed from PyPI. Programs are compiled by the MPI's own compiler and started by `tutti mpi`.

run_mpi.py BUILD_ROOT WHAT [long]
"""
import ctypes
import math
import os
import re
import shutil
import sys
import tempfile
import time

import mpis
from mpis import BUILD, NEVER, TUTTI, carried, check, over_tutti

WHAT = sys.argv[2]
LONG = sys.argv[3:] == ["long"]
HERE = os.path.dirname(os.path.abspath(__file__))
LEFT = "tutti mpi: the host MPI makes all calls: "  # on stderr, in MPI_Init, and why


def run(command, **how):
    return mpis.run(command, folder, **how)


def compile_c(mpi, source, *options):
    program = f"{folder}/{source[:-2]}{''.join(options)}-{mpi.abi}-{abs(hash(mpi.compiler))}"
    run([mpi.compiler, "-O1", *options, "-o", program, f"{HERE}/{source}", "-lpthread"])
    return program


def same_results(mpi):
    for form in ([], ["-DNONBLOCKING"]):
        results_of(mpi, compile_c(mpi, "same_results.c", *form))
        if not mpi.open_mpi:  # which has no forms with large counts
            results_of(mpi, compile_c(mpi, "same_results.c", "-DLARGE", *form))


def results_of(mpi, program):
    for ranks in (2, 3, 4) if LONG else (2,):
        # Open MPI chooses the algorithm by the size of the local type, Intel MPI does the like: ranks that give
        # different types of one signature choose differently, and the host's own Allgatherv, the reference, hangs;
        # Intel MPI's Allgather aborts.
        reference = {"OMPI_MCA_coll": "^tuned", "I_MPI_ADJUST_ALLGATHER": "3"} if ranks > 2 else {}
        out, err, _, _ = run(over_tutti(mpi, ranks, program, *(["all"] if LONG else [])), within=20 * NEVER,
                            TUTTI_MPI_EAGER="1", **reference)
        check(re.search(r"^\d{4,} results compared, 0 differ$", out, re.M), "results differ", out, err)
        taken, left = carried(err)
        check(taken >= 0.95 * (taken + left), "less than 95 % was carried", err)
        if LONG:  # parts' first calls are the host's
            out, err, _, _ = run(over_tutti(mpi, ranks, program, "all"), within=20 * NEVER, **reference)
            check(re.search(r"^\d{4,} results compared, 0 differ$", out, re.M), "results differ", out, err)


def available_kibibytes():
    with open("/proc/meminfo") as memory:
        return int(re.search(r"^MemAvailable: +(\d+) kB", memory.read(), re.M)[1])


def situations(mpi):
    program = compile_c(mpi, "situations.c")

    def situation(name, ranks=2, **more):
        out, err, _, _ = run(over_tutti(mpi, ranks, program, name), **more)
        check(re.search("^done$", out, re.M), f"{name} did not end well", out, err)
        return out, err

    for name in ["pending-send", "errors", "threads", "late"] + (["many-comms"] if LONG else []):
        for eager in ("1", "0") if LONG and name != "errors" else ("1",):
            _, err = situation(name, TUTTI_MPI_EAGER=eager)
            check(carried(err)[0] > 1 or eager == "0", f"{name}: nothing was carried", err)
    for level in ("single", "funneled", "serialized", "multiple"):
        _, err = situation(level)
        check(carried(err, "Allreduce") == (1, 0), f"threads at level {level}: a call is left to the host", err)
    situation("win-test")
    if mpi.open_mpi:  # whose shared memory moves a message without its sender
        situation("pending-send", OMPI_MCA_btl="self,tcp")
    for crossed in ("crossed", "crossed-with-single"):
        situation(crossed, TUTTI_MPI_EAGER="1")
    large = [("huge-element", 8), *([] if mpi.open_mpi else [("large-count", 8)])]
    for element, gibibytes in [("large-element", 4), *(large if LONG else [])]:
        if available_kibibytes() > gibibytes << 20:
            situation(element)
        else:
            print(f"{element} is left out: it wants {gibibytes} GiB of free memory")
    situation("types", 1, TUTTI_MPI_EAGER="1")
    for eager in ("1", "0"):
        situation("freed", 3, TUTTI_MPI_EAGER=eager)
        _, err = situation("freed-late", 3, TUTTI_MPI_EAGER=eager)
        check("288 freed communicator" in err, "calls on freed communicators are not the host's", err)
        if not mpi.name.startswith("MPICH of PyPI"):  # which locks a mutex of its own twice, also by itself
            situation("freed-by-threads", 3, TUTTI_MPI_EAGER=eager)
    _, err = situation("freed-at-once", TUTTI_MPI_EAGER="1")
    check(carried(err, "Allreduce") == (24, 0), "calls on a handle that is used again are not carried", err)
    for ranks in (2, 3):
        _, err = situation("finalize", ranks)
        check(carried(err) == (5, 0), "calls in MPI_Finalize are not carried", err)
    _, err = situation("not-freed")
    check(carried(err, "Allreduce")[1] == 0, "what is not freed is left to the host", err)
    _, err = situation("freed-types")
    check(carried(err, "Bcast") == (400, 0), "calls with a type that is being freed are left to the host", err)
    if not mpi.name.startswith("MPICH of PyPI"):  # which hangs there by itself
        situation("freed-types-late", 3, TUTTI_MPI_EAGER="1")
    for eager in ("1", "0"):
        situation("freed-in-use", 3, TUTTI_MPI_EAGER=eager)
    situation("nested-operators", TUTTI_MPI_EAGER="1")
    for ranks in (2, 3):
        _, err = situation("overlap", ranks)
        check(carried(err) == (34, 0), "overlapping buffers are left to the host", err)
        _, err = situation("duplicates", ranks)
        check(carried(err, "Allreduce") == (400, 0), "duplicates are not the world's", err)
        for threaded in ("first-threaded", "others-threaded"):
            _, err = situation(threaded, ranks, TUTTI_MPI_EAGER="1")
            check(carried(err, "Allreduce") == (32, 0), f"{threaded}: duplicates have no communicators", err)
        for eager in ("1", "0"):
            situation("created", ranks + 1, TUTTI_MPI_EAGER=eager)
        _, err = situation("few-calls", ranks)
        check(carried(err, "Allreduce") == (1, 200), "parts are made for single calls", err)
        check(carried(err, "Scan")[0] > 0 and carried(err, "Scan")[1] >= 3, "a part is not made in time", err)
    if mpi.name != "Debian's Open MPI":  # whose MPI is older
        for ranks in (2, 3):
            _, err = situation("sessions", ranks, TUTTI_MPI_EAGER="1")
            check(carried(err, "Allreduce") == (32, 0), "communicators of sessions are not carried", err)
            _, err = situation("sessions-alone", ranks, TUTTI_MPI_EAGER="1")
            check("tutti mpi:" not in err, "calls are counted without MPI_Init", err)
    situation("missing")
    if mpi.name == "Debian's MPICH":  # and one of its ABI from before MPI 4: two of the functions have other names
        library = re.search(r"libmpich.so.12 => (\S+)", run(["ldd", program])[0])[1]
        with open(library, "rb") as newer, open(f"{folder}/libmpich.so.12", "wb") as older:
            older.write(newer.read().replace(b"llreduce_c\0", b"llreduce_?\0"))
        out, _ = situation("missing", LD_LIBRARY_PATH=folder)
        for name in ("MPI_Allreduce_c", "MPI_Iallreduce_c"):
            check(f"the host MPI has no {name}" in out, f"no sentence on {name}", out)
    situation("first-call")
    _, err = situation("failed-gathers", 3, TUTTI_MPI_EAGER="1")
    check(carried(err, "Allreduce") == (0, 4), "calls without a communicator are not the host's", err)
    _, err = situation("requests")
    check(re.search("^tutti mpi: Allreduce +4 .* 4 nonblocking", err, re.M), "no row of nonblocking calls", err)
    check(carried(err, "Bcast") == (0, 4) and carried(err, "Barrier") == (1, 4), "uncounted", err)
    for ranks in (1, 2, 3) if LONG else (2,):
        _, err = situation("persistent", ranks)
        for function, prepared in (("Allreduce", "1000 nonblocking, 1"), ("Bcast", "1"), ("Scan", "1")):
            check(re.search(rf"^tutti mpi: {function} .* {prepared} persistent$", err, re.M), f"{function} is not counted", err)
        check(carried(err, "Allreduce") == (334, 1001), "blocking calls among them are not carried", err)
        _, err = situation("persistent-threaded", ranks)
        check(carried(err, "Allreduce") == (1333, 2), "not all but the first nonblocking call is carried", err)
        _, err = situation("requests-carried", ranks)
        check(carried(err) == (14, 3), "calls behind the first blocking one are not carried", err)
        if ranks > 1:
            _, err = situation("requests-of-one", ranks)
            check(carried(err) == (5, 12), "calls are carried though one rank's threads take turns", err)
            situation("nonblocking-errors", ranks, TUTTI_MPI_EAGER="1")
            for name in ("moved-on-late", "interleaved", "passed", "pending-send-any"):
                situation(name, ranks)
        for name in ("nonblocking", "moved-on"):
            _, err = situation(name, ranks, TUTTI_MPI_EAGER="1")
            check(carried(err)[1] == 0, f"{name}: calls are left to the host", err)


def killed(mpi):
    program = compile_c(mpi, "situations.c")
    for name in ("killed", "killed-nonblocking"):
        _, _, took, _ = run(over_tutti(mpi, 3, program, name), expect_status=None, within=60)
        check(took < 30, f"{name}: the end of a rank took {took:.0f} s")


MOST_NS, MOST_RATIO = 40, 1.10


def cost(mpi):
    """What the interposer adds to tutti_allreduce, by the best batches of each, which other work on the machine did not
    meet. It is too much where it is so in every attempt: an own communicator of tutti's may have settled on other ways."""
    program = f"{folder}/cost-{mpi.abi}"
    include, library = f"{HERE}/../../../include", BUILD + "/lib/api"
    run([mpi.compiler, "-O2", f"-I{include}", "-o", program, f"{HERE}/cost.c", f"-L{library}", "-ltutti", f"-Wl,-rpath,{library}"])
    ranks = 2 if len(os.sched_getaffinity(0)) > 1 else 1  # more than cores: what is measured is the scheduler
    row = r"^(.*), (\d+) B: MPI_Allreduce [\d.]+ ns \(([\d.]+);.*?, tutti_allreduce [\d.]+ ns \(([\d.]+);"
    best = {}  # of each row the attempt that is nearest to its bound, or farthest within: its excess and both times
    begun, attempts = time.monotonic(), 0
    while attempts < 8 and time.monotonic() < begun + 150:
        attempts += 1
        out, err, _, _ = run(over_tutti(mpi, ranks, program, "short"), within=250, TUTTI_MPI_EAGER="1")
        check(carried(err, "Allreduce")[1] == 0, "calls are left to the host", err)
        rows = re.findall(row, out, re.M)
        check(len(rows) > 6, "too few rows", out)
        for what, length, mine, tutti in ((what, int(n), float(mine), float(tutti)) for what, n, mine, tutti in rows):
            excess = mine - tutti - MOST_NS if length < 1024 else mine / tutti - MOST_RATIO
            best[what, length] = min(best.get((what, length), (math.inf,)), (excess, mine, tutti))
        if all(excess <= 0 for excess, _, _ in best.values()):
            break
    for (what, length), (excess, mine, tutti) in best.items():
        print(f"{what}, {length} B: MPI_Allreduce {mine} ns, tutti_allreduce {tutti} ns{': too much' if excess > 0 else ''}")
    check(all(excess <= 0 for excess, _, _ in best.values()), f"{attempts} times more than {MOST_NS} ns, or {MOST_RATIO} of long ones")
    # What README has of nonblocking calls: that all are carried and timed, how long they take is not judged.
    out, err, _, _ = run(over_tutti(mpi, 2, compile_c(mpi, "cost_nonblocking.c")), within=120)
    check(carried(err)[1] == 0, "nonblocking calls are left to the host", err)
    check(len(re.findall(r", ratio [\d.]+$", out, re.M)) == 18, "too few rows", out)


def mixed(mpi):
    """Ranks with the interposer wait ten seconds for those without it, others spin meanwhile: hence few.

    A rank 0 without it never receives what the others have told it: MPICH 5 says so when it ends, with a status."""
    complains = re.compile(r"MPI_Finalize failed.*being freed has \d+ unmatched message", re.S)
    program = compile_c(mpi, "situations.c")
    for without in (0, 1) if LONG else (1,):  # which of the ranks has no interposer
        words = [mpi.launcher, *(["--oversubscribe"] if mpi.open_mpi else [])]
        for rank in range(3 if LONG else 2):
            preload = [] if rank == without else ["LD_PRELOAD=" + mpi.interposer()]
            words += ([":"] if rank > 0 else []) + ["-n", "1", "env", *preload, program, "none"]
        out, err, _, status = run(words, expect_status=None)
        check(re.search("^done$", out, re.M), "a mixed job did not end well", out, err)
        check(status == 0 or without == 0 and complains.search(err), f"status {status}", out, err)
        # By each of those that cannot ask rank 0.
        check(err.count(f"{LEFT}rank {without} runs without this interposer\n") == (1 if without else 2), "no sentence", err)
        if without != 0:
            check("tutti takes no part: rank 1 runs without this interposer" in err, "no reason", err)
            check(carried(err)[0] == 0, "something was carried", err)


def two_mpis(mpi):
    """A process that has another MPI besides: all ranks leave all calls to the one that they use."""
    other = "libmpich.so.12" if mpi.open_mpi else "libmpi.so.40"
    try:
        ctypes.CDLL(other)
    except OSError:
        print(f"there is no {other}")
        return
    program = compile_c(mpi, "situations.c")
    for with_two in ((0, 1), (1,), (0,)):
        words = [mpi.launcher, *(["--oversubscribe"] if mpi.open_mpi else [])]
        for rank in range(2):
            beside = [other] if rank in with_two else []
            words += ([":"] if rank > 0 else []) + ["-n", "1", "env", "LD_PRELOAD=" + mpi.interposer(), program,
                                                    "many-comms", *beside]
        out, err, _, _ = run(words)
        check(re.search("^done$", out, re.M), "two MPIs did not end well", out, err)
        reason = "the process has two MPIs" if 0 in with_two else "rank 1 cannot take part"
        check(f"tutti takes no part: {reason}" in err, "no reason", err)
        check(err.count(LEFT) == (1 if 0 in with_two else 2) and LEFT + "the process has two MPIs, /" in err, "no sentence", err)
        check(carried(err)[0] == 0, "something was carried", err)


def command(mpi):
    """What `tutti mpi` says to what it cannot do."""
    program = compile_c(mpi, "situations.c")
    _, err, _, _ = run([TUTTI, "mpi"], expect_status=2)
    check("which program?" in err, "no question", err)
    _, err, _, _ = run([TUTTI, "mpi", "--", "no-such-program"], expect_status=2)
    check("there is no program no-such-program" in err, "no sentence", err)
    _, err, _, _ = run([TUTTI, "mpi", "--", "true"], expect_status=2)
    check("cannot tell which MPI true uses" in err, "no sentence", err)
    # Another MPI's interposer: refused before anything is garbled.
    other = "mpich" if mpi.open_mpi else "ompi"
    if os.path.exists(f"{BUILD}/lib/adapters/mpi/libtutti-mpi-{other}.so.0"):
        _, err, _, _ = run([TUTTI, "mpi", "--mpi", other, "--", program], expect_status=1)
        check("and the program uses" in err, "no sentence", err)
    for variable in ("TUTTI_TIMEOUT_MS", "TUTTI_MPI_EAGER"):
        _, err, _, _ = run(over_tutti(mpi, 2, program), **{variable: "soon"})
        check(err.count(f"{LEFT}{variable}") == 1 and carried(err)[0] == 0, f"no sentence on {variable}", err)
    # LD_BIND_NOW: every process of the job is told to look for all functions at once, also those without an MPI.
    shell = [*mpi.launch(2), "/bin/sh", "-c", f"true; {program}"]
    out, err, _, _ = run([TUTTI, "mpi", "--mpi", mpi.abi, "--", *shell], LD_BIND_NOW="1")
    check("done" in out and carried(err, "Barrier") == (1, 0), "LD_BIND_NOW", out, err)
    library = f"{folder}/library-{mpi.abi}.so"
    with open(f"{folder}/library.c", "w", encoding="utf-8") as source:
        source.write("#include <mpi.h>\nvoid work(void) { MPI_Init(0, 0); MPI_Barrier(MPI_COMM_WORLD); MPI_Finalize(); }\n")
    run([mpi.compiler, "-shared", "-fPIC", "-o", library, f"{folder}/library.c"])
    late = [TUTTI, "mpi", "--mpi", mpi.abi, "--", sys.executable, "-c", f"import ctypes; ctypes.CDLL('{library}').work()"]
    for how in ({}, {"LD_BIND_NOW": "1"}):
        _, err, _, _ = run(late, **how)
        check(carried(err, "Barrier") == (1, 0), f"an MPI that is loaded later {how}", err)
    # A program with a libstdc++ of its own, as conda's Python has: all in its process are linked with that.
    own = f"{folder}/own-{mpi.abi}"
    os.mkdir(own)
    shutil.copy(re.search(r"libstdc\+\+\.so\.6 => (\S+)", run(["ldd", mpi.interposer()])[0])[1], f"{own}/libstdc++.so.6")
    run([mpi.compiler, f"-Wl,--disable-new-dtags,-rpath,{own}", "-o", f"{own}/program", f"{HERE}/situations.c", "-lpthread"])
    _, err, _, _ = run([TUTTI, "mpi", "--", f"{own}/program"], LD_DEBUG="libs")
    check(f"calling init: {own}/libstdc++.so.6" in err, "the program's own libstdc++", err)
    # Alone, without a launcher.
    out, err, _, _ = run([TUTTI, "mpi", "--", program])
    check(carried(err, "Barrier") == (1, 0), "a job of one rank", out, err)


def fortran(mpi):
    if not mpi.interfaces:
        print(f"there is no Fortran of {mpi.name} for gfortran here")
        return
    # The persistent forms of Open MPI 4.1 are an extension.
    prefix = "MPIX" if mpi.open_mpi else "MPI"
    names = ["-cpp", *(f"-D{name}_INIT={prefix}_{name}_INIT" for name in ("ALLREDUCE", "BARRIER")),
             *(["-DEXTENSION=mpi_f08_ext"] if mpi.open_mpi else [])]
    for source in ("words.f90", *(["words_f08.f90"] if "mpi_f08" in mpi.interfaces else [])):
        program = f"{folder}/{source}-{mpi.abi}"
        run([*mpi.fortran, "-O1", "-fallow-argument-mismatch", *names, "-o", program, f"{HERE}/{source}"])
        out, err, _, _ = run(over_tutti(mpi, 2, program))
        check("all as it should be" in out, f"{source} did not end well", out, err)
        check(carried(err)[0] >= 8 and carried(err)[1] == 17, "not all was carried or counted", err)
        for function, more in (("Allreduce", ", 1 persistent"), ("Bcast", ""), ("Barrier", ", 1 persistent")):
            check(re.search(rf"^tutti mpi: {function} .* 1 nonblocking{more}$", err, re.M), f"{function} is not counted", err)
    for module in mpi.interfaces:
        for form in ("BLOCKING", "NONBLOCKING", "PERSISTENT"):
            fortran_every(mpi, module, form)
        fortran_threads(mpi, module)
    fortran_library(mpi)


FUNCTIONS = ("Allreduce Reduce Bcast Allgather Allgatherv Gather Gatherv Scatter Scatterv Reduce_scatter "
             "Reduce_scatter_block Alltoall Alltoallv Scan Exscan Barrier").split()


def fortran_program(mpi, module, form, *more):
    program = f"{folder}/every-{module}-{form}-{mpi.abi}"
    names = [f"-D{form}", *([f"-DMODULE={module}"] if module else []), *(["-DF08"] if module == "mpi_f08" else [])]
    if form == "PERSISTENT" and mpi.open_mpi:
        names += ["-DMPIX", *(["-DEXTENSION=mpi_f08_ext"] if module == "mpi_f08" else [])]
    os.makedirs(program + "-modules", exist_ok=True)
    run([*mpi.fortran, "-cpp", "-O1", "-fallow-argument-mismatch", "-ffree-line-length-none", "-J", program + "-modules",
         *names, "-o", program, f"{HERE}/every.f90", *more])
    return program


def fortran_threads(mpi, module):
    """Nonblocking calls where threads may call at once: carried, but for those with the program's operators."""
    program = fortran_program(mpi, module, "NONBLOCKING", "-DTHREADS")
    out, err, _, _ = run(over_tutti(mpi, 3, program), TUTTI_MPI_EAGER="1")
    check(re.search(r"^(\d+) calls, all as it should be$", out, re.M), f"{module}, threads: did not end well", out, err)
    for function in FUNCTIONS:
        row = r"[1-9]\d* +\d+  (-|\d+ nonblocking, own operator)"
        check(re.search(rf"^tutti mpi: {function} +{row}$", err, re.M), f"{module}: {function} is not carried", err)


def fortran_every(mpi, module, form, launched=over_tutti, *more):
    """One form of every function: that results are right, and each is carried or counted as what it is."""
    program = fortran_program(mpi, module, form, *more)
    out, err, _, _ = run(launched(mpi, 3, program))
    counted = re.search(r"^(\d+) calls, all as it should be$", out, re.M)
    check(counted, f"{module}, {form}: did not end well", out, err)
    calls = int(counted[1])
    check(carried(err) == ((calls, 0) if form == "BLOCKING" else (0, calls)), f"{module}, {form}: not all is counted", err)
    for function in FUNCTIONS:
        row = r"\d+ +\d+  -" if form == "BLOCKING" else rf"0 +0  \d+ {form.lower()}"
        check(re.search(rf"^tutti mpi: {function} +{row}$", err, re.M), f"{module}, {form}: {function} is not taken", err)


def linked(mpi):
    """Programs that are linked with the interposer in front of their MPI, and started without `tutti mpi`."""
    library = os.path.dirname(mpi.interposer())
    link = [f"-L{library}", "-Wl,--no-as-needed", f"-ltutti-mpi-{mpi.abi}", f"-Wl,-rpath,{library}"]

    def launched(_, ranks, program, *arguments):
        return [*mpi.launch(ranks), program, *arguments]

    program = f"{folder}/linked-{mpi.abi}-{abs(hash(mpi.compiler))}"
    run([mpi.compiler, "-O1", "-o", program, f"{HERE}/situations.c", *link, "-lpthread"])
    for name, ranks in (("freed-late", 3), ("created", 3), ("requests", 2)):
        out, err, _, _ = run(launched(mpi, ranks, program, name), TUTTI_MPI_EAGER="1")
        check(re.search("^done$", out, re.M), f"{name} did not end well", out, err)
        check(carried(err)[0] > 1, f"{name}: nothing was carried", err)
    for module in mpi.interfaces:
        if module != "mpi":  # as mpif.h
            fortran_every(mpi, module, "BLOCKING", launched, *link)


def fortran_library(mpi):
    """A library that the program loads for itself, as Python does, or is linked with."""
    with open(f"{folder}/main.c", "w", encoding="utf-8") as main:
        main.write("void work(void);\nint main(void) { work(); return 0; }\n")
    for module in mpi.interfaces:
        handle = "type(MPI_Datatype)" if module == "mpi_f08" else "integer"
        library = f"{folder}/library-{module}-{mpi.abi}.so"
        names = [f"-DDATATYPE={handle}", *([f"-DMODULE={module}"] if module else [])]
        run([*mpi.fortran, "-cpp", "-O1", "-fallow-argument-mismatch", *names, "-fPIC", "-shared", "-o", library,
             f"{HERE}/library.f90"])
        run([mpi.compiler, "-o", f"{library[:-3]}", f"{folder}/main.c", library])
        for program in ([sys.executable, "-c", f"import ctypes; ctypes.CDLL('{library}').work()"], [f"{library[:-3]}"]):
            out, err, _, _ = run([TUTTI, "mpi", "--mpi", mpi.abi, "--", *mpi.launch(2), *program])
            check("all as it should be" in out, f"{module or 'mpif.h'}: a library did not end well", out, err)
            check(carried(err) == (3, 0), f"{module or 'mpif.h'}: not all was carried", err)
    if not mpi.open_mpi:
        return
    # The first call that the interposer sees is one of Fortran's, in a process that was bound at once.
    begin = (f"import ctypes; library = ctypes.CDLL('{folder}/first.so'); host = ctypes.CDLL('libmpi.so.40'); "
             "host.MPI_Init(None, None); library.work(); host.MPI_Finalize()")
    for call in ("MPI_Barrier(MPI_COMM_WORLD, i)", "MPIX_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, j, i)"):
        with open(f"{folder}/first.f90", "w", encoding="utf-8") as source:
            source.write(f"subroutine work() bind(C, name='work')\ninclude 'mpif.h'\ncall {call}\nend\n")
        run([*mpi.fortran, "-fPIC", "-shared", "-o", f"{folder}/first.so", f"{folder}/first.f90"])
        run([TUTTI, "mpi", "--mpi", mpi.abi, "--", sys.executable, "-c", begin], LD_BIND_NOW="1")


with tempfile.TemporaryDirectory(prefix="tutti-mpi-") as folder:
    found = mpis.all_mpis(of_pypi=LONG)
    if not found:
        print("there is no MPI with an interposer here")
        sys.exit(77)
    if WHAT == "mixed" and not LONG:
        found = found[:1]
    for one in found:
        begun = time.monotonic()
        globals()[WHAT.replace("-", "_")](one)
        print(f"{one.name}: {time.monotonic() - begun:.1f} s")
