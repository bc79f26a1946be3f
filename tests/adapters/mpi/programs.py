"""Programs that nobody here wrote, unmodified, by the host MPI alone and over tutti: the same results, and almost all
calls carried. What is not installed is left out (tools/setup programs); status 77 where that is all.

programs.py BUILD_ROOT scalapack|lammps|hpcc|mpi4py [ABI...] [long]   under all MPIs, or these (ompi, mpich)
programs.py BUILD_ROOT mpich-tests [ABI...] [NAME...]   over tutti what is stored as passing by the host alone; only
                                                        these MPIs (ompi, mpich), only these tests
programs.py BUILD_ROOT mpich-tests --remake [ABI...]    runs all by the host MPI alone and stores those that pass
"""
import glob
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import mpis
from mpis import BUILD, carried, check

WHAT = sys.argv[2]
LONG = "long" in sys.argv[3:]
REMAKE = "--remake" in sys.argv[3:]
ABIS = [word for word in sys.argv[3:] if word in ("ompi", "mpich")]
NAMES = [word for word in sys.argv[3:] if word not in ("long", "--remake", *ABIS)]
HERE = os.path.dirname(os.path.abspath(__file__))
if REMAKE and NAMES:
    sys.exit(f"--remake runs all tests, not only {' '.join(NAMES)}")
# All calls, also the first on parts of the world, so that each is looked at.
EAGER = {"TUTTI_MPI_EAGER": "1"}


def alone(mpi, ranks, *command, **how):
    out, err, took, _ = mpis.run([*mpi.launch(ranks), *command], folder, **how)
    return out, err, took


def over_tutti(mpi, ranks, *command, **how):
    out, err, took, _ = mpis.run(mpis.over_tutti(mpi, ranks, *command), folder, **how)
    return out, err, took


def lines(pattern, text):
    return re.findall(pattern, text, re.M)


def report(name, err, times, note=""):
    taken, left = carried(err)
    share = f"{100 * taken / (taken + left):.1f} % of {taken + left} calls carried" if taken + left else "no calls"
    print(f"{name}: {share}, host : tutti {times[0]:.2f} : {times[1]:.2f} s{note}", flush=True)
    return taken, left


def scalapack(mpi):
    """Testers of LU, Cholesky and the like: each checks its own residuals, and counts."""
    programs = "/usr/lib/x86_64-linux-gnu/scalapack/" + ("openmpi" if mpi.open_mpi else "mpich") + "-tests"
    if not os.path.isdir(programs):
        return False
    # MPICH spins: with more ranks than cores each call takes time slices.
    ranks = 4 if LONG and mpi.open_mpi else 2
    for data in glob.glob("/usr/share/scalapack/*.dat"):
        with open(data) as given:
            settings = given.read()
        if ranks == 2:  # their grids need four
            for pattern, values in ((r"number of process grids", "2"), (r"number of processor configurations", "1"),
                                    (r"values of P", "1 2"), (r"values of Q", "2 1")):
                settings = re.sub(rf"^[\d ]+?(\s+{pattern})", rf"{values}\1", settings, flags=re.M)
        with open(f"{folder}/{os.path.basename(data)}", "w") as mine:
            mine.write(settings)
    names = ["xdlu", "xcllt"]
    if LONG:
        names = ["xdlu", "xslu", "xclu", "xzlu", "xdllt", "xcllt", "xdqr", "xzqr", "xdls", "xdinv", "xdbrd", "xdhrd", "xdtrd",
                 "xddblu", "xdgblu", "xddtlu", "xdnep", "xdsep", "xdsvd"]
    counts = r"^ *(\d+) tests (completed and passed|completed and failed|skipped)"
    for name in names:
        expected, _, host = alone(mpi, ranks, f"{programs}/{name}", within=900)
        out, err, took = over_tutti(mpi, ranks, f"{programs}/{name}", within=900, **EAGER)
        check(lines(counts, expected), f"{name} counts no tests", expected)
        check(lines(counts, out) == lines(counts, expected), f"{name}: other counts", out, err)
        taken, left = report(f"{name}, {ranks} ranks", err, (host, took))
        gaps = sum(int(n) for n in re.findall(r"(\d+) operator or type with gaps", err.splitlines()[-1] if err else ""))
        check(taken >= 0.95 * (taken + left - gaps), f"{name}: less than 95 % was carried", err)
    return True


def thermo(text):
    """LAMMPS's tables: the step, and its figures."""
    rows = []
    for block in re.findall(r"^Step [^\n]*\n(.*?)^Loop time", text, re.M | re.S):
        rows += [[float(word) for word in line.split()] for line in block.splitlines() if re.match(r"^[\s\d.eE+-]+$", line)]
    return rows


def unless_lost(how, mpi, ranks, *command, **more):
    """Again where it has lost atoms, as in.balance of 8 ranks does by the host alone, too: once in 39 runs."""
    for _ in range(5):
        out, err, took = how(mpi, ranks, *command, expect_status=None, **more)
        if "ERROR: Lost atoms" not in out:
            break
    check("ERROR" not in out and "Total wall time" in out, "LAMMPS did not come to its end", out, err)
    return out, err, took


def lammps(mpi):
    """Trajectories part where sums are added in another order, the later, the more: of the rows the first are compared."""
    examples = "/usr/share/lammps/examples"
    if not mpi.open_mpi or shutil.which("lmp") is None or not os.path.isdir(examples):
        return False
    alike = 300  # steps
    for name in ["min/in.min", "melt/in.melt", "balance/in.balance"] if LONG else ["min/in.min"]:
        for ranks in (2, 8) if LONG else (2,):
            command = ["lmp", "-in", f"{examples}/{name}", "-log", "none"]
            host, tutti = [], []
            for _ in range(5 if LONG else 1):
                expected, _, took = unless_lost(alone, mpi, ranks, *command)
                host.append(took)
                out, err, took = unless_lost(over_tutti, mpi, ranks, *command)
                tutti.append(took)
                here, there = thermo(out), thermo(expected)
                first, others = ([row for row in rows if row[0] <= alike] for rows in (here, there))
                check(len(others) > 3 and [row[0] for row in first] == [row[0] for row in others], f"{name}: other steps", out)
                for row, other in zip(first, others):
                    # How evenly recursive bisection divides 361 atoms, the last two columns, hangs on the order in which
                    # it adds: Open MPI's own algorithms for Allreduce differ in it, too.
                    columns = 4 if ranks > 2 and "balance" in name else len(row)
                    close = all(abs(a - b) <= 1e-6 * max(1, abs(b)) for a, b in zip(row[:columns], other[:columns]))
                    check(close, f"{name}: {row} is not {other}")
                # A minimisation takes other steps to its end from where they have parted.
                check((here[-1][0] > alike) == (there[-1][0] > alike), f"{name}: it did not go on", out)
            _, all_err, _ = unless_lost(over_tutti, mpi, ranks, *command, **EAGER)
            taken, left = report(f"{name}, {ranks} ranks", all_err, (statistics.median(host), statistics.median(tutti)),
                                 f" ({carried(err)[0]} calls carried where few are left to the host)")
            check(taken >= 0.95 * (taken + left), f"{name}: less than 95 % was carried", all_err)
    return True


def hpcc(mpi):
    """Seven benchmarks that check what they have computed."""
    if not mpi.open_mpi or shutil.which("hpcc") is None:
        return False
    with open("/usr/share/doc/hpcc/examples/_hpccinf.txt") as given:
        settings = given.read().replace("2            Ps", "1            Ps")
    outcomes = []
    for how in (alone, over_tutti):
        for old in glob.glob(folder + "/hpcc*"):
            os.remove(old)
        with open(folder + "/hpccinf.txt", "w") as mine:
            mine.write(settings)
        _, err, took = how(mpi, 2, "hpcc", within=900, **EAGER)
        with open(folder + "/hpccoutf.txt") as written:
            outcomes.append((written.read(), err, took))
    for text, _, _ in outcomes:
        check(lines(r"^Success=1", text), "hpcc has no success", text[-3000:])
    wrong = r"^(?:\S*[Ee]rrors?\S*|\S*[Ff]ail\S*)=.*$"
    check(lines(wrong, outcomes[0][0]) == lines(wrong, outcomes[1][0]), "other errors", *outcomes[1][:2])
    taken, left = report("hpcc, 2 ranks", outcomes[1][1], (outcomes[0][2], outcomes[1][2]))
    check(taken >= 0.95 * (taken + left), "less than 95 % was carried", outcomes[1][1])
    return True


def missed_of(err):
    """Calls that tutti would have taken, and the host made."""
    return sum(int(n) for n in re.findall(r"(\d+) (?:too few|no comm|tutti takes|freed)", lines("^tutti mpi: all.*", err)[0]))


def mpi4py(mpi):
    """Its own tests, all but those that do not come to their end by the host alone, either: on so few cores those that
    spawn, and of MPICH 4.0.2 those of locks in windows, which fail on one rank while the other waits for it."""
    without = ["test_spawn"] if mpi.open_mpi else ["test_spawn", "test_util_sync"]
    place = f"{BUILD}/programs/mpi4py/{'openmpi' if mpi.open_mpi else 'mpich'}"
    if not os.path.isdir(place + "/test"):
        return False
    command = [place + "/bin/python", "-u", place + "/test/main.py", "-q", *(f"-e{module}" for module in without)]
    _, expected, host = alone(mpi, 2, *command, within=1500)
    _, err, took = over_tutti(mpi, 2, *command, within=1500, **EAGER)
    ends = [(sorted(set(lines(r"^Ran (\d+) tests", text))), sorted(lines(r"^OK.*", text))) for text in (expected, err)]
    check(ends[0] == ends[1] and ends[0][0] and len(ends[0][1]) == 2, f"other ends: {ends}", err[-3000:])
    taken, _ = report(f"mpi4py's {ends[0][0][0]} tests, 2 ranks", err, (host, took))
    check(taken >= 0.95 * (taken + missed_of(err)), "less than 95 % was carried", err[-3000:])
    return True


def configure_mpich_tests(mpi, tests):
    """The folder with the headers that their configure writes for this MPI."""
    place = f"{folder}/configured-{mpi.abi}"
    os.mkdir(place)
    subprocess.run([tests + "/configure", "CC=" + mpi.compiler, "--disable-fortran", "--disable-cxx"], cwd=place, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=mpis.environment())
    return place


def compile_mpich_helpers(mpi, tests, configured):
    """What their tests are linked with; the flags to compile with."""
    flags = [mpi.compiler, "-O1", "-w", f"-I{configured}/include", f"-I{configured}/dtpools/include", f"-I{tests}/include",
             f"-I{tests}/util", f"-I{tests}/dtpools/include"]
    sources = [f"{tests}/util/{part}.c" for part in ("mtest", "mtest_common", "mtest_thread", "dtypes")]
    for source in glob.glob(f"{tests}/dtpools/src/*.c"):
        # Open MPI has no functions any more that MPI 3 has taken out.
        with open(source) as given:
            text = re.sub(r"\bMPI_Type_(hvector|hindexed|struct)\(", r"MPI_Type_create_\1(", given.read())
        sources.append(f"{configured}/{os.path.basename(source)}")
        with open(sources[-1], "w") as mine:
            mine.write(text)
    subprocess.run([*flags, "-c", *sources], cwd=configured, check=True, env=mpis.environment())
    return flags


def compile_mpich_test(mpi, tests, configured, flags, name):
    """A test of MPICH's suite: None where this MPI cannot compile it."""
    source = f"{tests}/coll/{name}.c"
    program = f"{folder}/{name}-{mpi.abi}"
    if os.path.exists(program):
        return program
    more = []
    if not os.path.exists(source) and name.startswith("nb"):  # the same by nonblocking calls
        source, more = f"{tests}/coll/{name[2:]}.c", ["-DUSE_MTEST_NBC"]
    if not os.path.exists(source):
        return None
    compiled = subprocess.run([*flags, *more, "-o", program, source, *glob.glob(f"{configured}/*.o"), "-lm", "-lpthread"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=mpis.environment())
    if compiled.returncode != 0:
        said = [line for line in compiled.stdout.splitlines() if "error" in line] or ["no reason"]
        print(f"{name} does not compile: {said[0]}")
        return None
    return program


def mpich_list(mpi):
    """Where the tests are stored that pass by this release of the host MPI alone."""
    said = subprocess.run([mpi.launcher, "--version"], stdout=subprocess.PIPE, text=True, env=mpis.environment(), check=True)
    return f"{HERE}/mpich_tests_{mpi.abi}_{re.search(r'[0-9]+[.][0-9]+[.][0-9]+', said.stdout)[0]}.txt"


def mpich_rows(mpi, tests):
    """MPICH's list: each row, how many ranks it wants, and the program's words; None where it does not compile."""
    configured = configure_mpich_tests(mpi, tests)
    flags = compile_mpich_helpers(mpi, tests, configured)
    with open(tests + "/coll/testlist.in") as listed:
        for name, ranks, *options in (line.split() for line in listed if re.match(r"^\w", line)):
            if NAMES and name not in NAMES:
                continue
            arguments = [word[4:] for word in options if word.startswith("arg=")]
            program = compile_mpich_test(mpi, tests, configured, flags, name)
            yield " ".join([name, ranks, *arguments]), int(ranks), program and [program, *arguments]


def passes(command, within, **more):
    out, err, took, status = mpis.run(command, folder, expect_status=None, within=within, may_hang=True, **more)
    return status == 0 and "No Errors" in out, out, err, took


def remake_mpich_list(mpi, tests):
    """Those that take more than a minute are left out: the test gives them five."""
    rows, good = 0, []
    for row, ranks, words in mpich_rows(mpi, tests):
        rows += 1
        passed, _, _, took = passes([*mpi.launch(ranks), *words], 60) if words else (False, "", "", 0)
        print(f"{row}: {'passes' if passed else 'fails' if words else 'is not compiled'} by {mpi.name} alone, {took:.1f} s", flush=True)
        good += [row] if passed else []
    print(f"{mpi.name}: {len(good)} of {rows} pass alone", flush=True)
    with open(mpich_list(mpi), "w") as stored:
        stored.writelines(row + "\n" for row in good)


def mpich_tests(mpi):
    """MPICH's own tests of collectives: what passes by the host alone, as a stored list says, passes over tutti."""
    tests = BUILD + "/programs/mpich/test/mpi"
    if not os.path.isdir(tests):
        return False
    if REMAKE:
        remake_mpich_list(mpi, tests)
        return True
    expected = None  # of a release without a list each is run alone first
    if os.path.exists(mpich_list(mpi)):
        with open(mpich_list(mpi)) as stored:
            expected = set(stored.read().splitlines())
    same, failed, outdated = [], [], []
    taken = left = missed = 0
    for row, ranks, words in mpich_rows(mpi, tests):
        by_host = [*mpi.launch(ranks), *words] if words else None
        if row not in expected if expected is not None else not by_host or not passes(by_host, 60)[0]:
            continue
        good, out, err, took = passes(mpis.over_tutti(mpi, ranks, *words), 300, **EAGER) if words else (False, "", "", 0)
        if not good:
            (failed if words and passes(by_host, 300)[0] else outdated).append(row)
            print(f"{row} fails over {mpi.name} with tutti:\n{out}\n{err}", flush=True)
            continue
        same.append(row)
        mine = carried(err)
        taken, left = taken + mine[0], left + mine[1]
        missed += missed_of(err)
        print(f"{row}: {mine[0]} calls carried and {mine[1]} not, {took:.1f} s", flush=True)
    print(f"{mpi.name}: {len(same)} of the {len(same) + len(failed)} rows that pass alone pass over tutti; of rank 0's {taken + left} calls "
          f"{taken} are carried, {100 * taken / max(1, taken + left):.1f} %; of those that tutti takes "
          f"{100 * taken / max(1, taken + missed):.1f} %", flush=True)
    for why, which in (("fail over tutti only", failed), ("pass no longer alone: remake the list", outdated)):
        print(f"{mpi.name}: {len(which)} {why}: {', '.join(which) or '-'}", flush=True)
    check(not failed and not outdated, "the stored list does not hold")
    check(len(same) == len(expected or same) or NAMES, "rows of the stored list are not in MPICH's: remake the list")
    check(len(same) > 50 or NAMES, "too few tests ran")
    check(taken >= 0.95 * (taken + missed), "less than 95 % was carried")
    return True


with tempfile.TemporaryDirectory(prefix="tutti-mpi-") as folder:
    found = [mpi for mpi in mpis.all_mpis(of_pypi=False) if not ABIS or mpi.abi in ABIS]
    ran = [globals()[WHAT.replace("-", "_")](one) for one in found]
    if not any(ran):
        print("there is no MPI with an interposer here, or no such program")
        sys.exit(77)
