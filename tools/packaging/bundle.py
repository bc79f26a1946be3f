"""Copies what was built to a folder that runs from anywhere; called by tools/bundle.

    bundle.py SOURCE BUILD FOLDER

Programs and tests, stripped; every shared library that they need but the C library's own, found by
$ORIGIN; sources and headers with which the trainer is built where LibTorch is.
"""

import datetime
import json
import os
import re
import shutil
import subprocess
import sys

MOST_BYTES = 64 << 20
# Of the C library: a program and its C library must be the host's.
HOSTS = re.compile(r"(ld-linux|linux-vdso|libc\.|libm\.|libpthread\.|libdl\.|librt\.|libresolv\.)")
# Apart from the others: what is built on the host with a newer compiler takes that one's.
COMPILERS = ("libstdc++.so.6", "libgcc_s.so.1")
PROGRAMS = ("tools/tutti", "bench/tutti-bench", "tools/tutti-soak/tutti-soak")
TESTS = ("tests/reduce/reduce_kernels_test", "tests/transports/conformance/link_test")
# In the bundle they are all in tests/gpu.
GPU_TESTS = ("tests/device", "tests/gpu", "tests/transports/cuda_ipc")
# What a GPU has nothing to do with, or only the tests' driver can show.
NO_GPU = ("no_driver_test", "device_combine_test", "device_formats_test", "device_images_test", "device_protocol_test", "direct_test", "proxy_test")
HEADERS = ("CLI", "fmt", "nlohmann")
CHECKS = ("tests/trainer/*.py", "tests/adapters/torch/*.py", "lib/adapters/torch/src", "lib/adapters/python/src")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def fail(sentence):
    sys.exit(f"tools/bundle: {sentence}")


class Bundle:
    def __init__(self, source, build, folder):
        self.source, self.build, self.folder = (os.path.abspath(path) for path in (source, build, folder))
        self.libraries = {}  # name: path on this machine
        self.added = set()  # names
        self.glibc = (0, 0)

    def path(self, *parts):
        place = os.path.join(self.folder, *parts)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        return place

    def copy(self, origin, *parts):
        shutil.copy2(origin, self.path(*parts))

    def add_binary(self, origin, rpath, *parts):
        """A program or library, and the names of the libraries that it needs."""
        place = self.path(*parts)
        shutil.copy(origin, place)
        os.chmod(place, 0o755)
        output("strip", "--strip-unneeded", place)
        output("patchelf", "--set-rpath", rpath, place)
        for version in re.findall(r"GLIBC_(\d+)\.(\d+)", output("objdump", "-T", place)):
            self.glibc = max(self.glibc, (int(version[0]), int(version[1])))
        for line in output("ldd", origin).splitlines():
            found = re.match(r"\s*(\S+) => (/\S+)", line)
            if found and not HOSTS.match(found[1]):
                self.libraries[found[1]] = found[2]
            elif "not found" in line:
                fail(f"{origin}: {line.strip()}")

    def add_programs(self):
        for program in PROGRAMS:
            self.add_binary(f"{self.build}/{program}", "$ORIGIN/../lib:$ORIGIN/../lib/compiler", "bin", os.path.basename(program))
        for test in TESTS:
            if os.path.exists(f"{self.build}/{test}"):
                self.add_test(f"{self.build}/{test}", *test.split("/"))
        for folder in GPU_TESTS:
            if os.path.isdir(f"{self.build}/{folder}"):
                for name in sorted(os.listdir(f"{self.build}/{folder}")):
                    if name.endswith("_test") and name not in NO_GPU:
                        self.add_test(f"{self.build}/{folder}/{name}", "tests", "gpu", name)

    def add_test(self, origin, *parts):
        top = "$ORIGIN/" + "../" * (len(parts) - 1)
        self.add_binary(origin, f"{top}lib:{top}lib/compiler", *parts)

    def add_libraries(self):
        """Found by the programs; a library finds what it needs itself beside it."""
        while set(self.libraries) - self.added:
            for name in sorted(set(self.libraries) - self.added):
                below = ("lib", "compiler") if name in COMPILERS else ("lib",)
                self.add_binary(self.libraries[name], "$ORIGIN", *below, name)
                self.added.add(name)

    def add_link(self):
        """For who links with it."""
        os.symlink("libtutti.so.0", self.path("lib", "libtutti.so"))

    def add_ucx(self):
        """What the library opens when it is asked for UCX, with the modules that need nothing else: those for RDMA belong
        to the host's drivers. A host's own UCX is taken instead where LD_LIBRARY_PATH has it."""
        listed = re.search(r"^\s*libucp\.so\.0 .*=> (/\S+)$", output("/sbin/ldconfig", "-p"), re.MULTILINE)
        if not listed:
            return
        self.libraries["libucp.so.0"] = listed[1]
        self.add_libraries()
        modules = os.path.join(os.path.dirname(os.path.realpath(self.libraries["libucs.so.0"])), "ucx")
        for name in sorted(name for name in os.listdir(modules) if name.endswith(".so.0")):
            needed = re.findall(r"NEEDED\s+(\S+)", output("objdump", "-p", f"{modules}/{name}"))
            if all(HOSTS.match(one) or one in self.libraries for one in needed):
                self.add_binary(f"{modules}/{name}", "$ORIGIN/..", "lib", "ucx", name)

    def add_trainer(self):
        """A Meson project of the trainer alone, with the headers that it includes."""
        tracked = output("git", "-C", self.source, "ls-files", "trainer", "include", *CHECKS).splitlines()
        for name in tracked:
            self.copy(f"{self.source}/{name}", "source", name)
        for name in ("meson.build", "meson_options.txt"):
            self.copy(f"{self.source}/tools/packaging/trainer/{name}", "source", name)
        for name in HEADERS:
            shutil.copytree(f"/usr/include/{name}", self.path("source", "headers", name))
        # Of OpenSSL's, of which there are many, those that the trainer needs.
        for header in re.findall(r"\S*/openssl/\S+\.h", output("c++", "-M", "-include", "openssl/evp.h", "-x", "c++", "/dev/null")):
            self.copy(header, "source", "headers", "openssl", os.path.basename(header))

    def add_scripts(self):
        self.copy(f"{self.source}/tools/packaging/build-trainer", "build-trainer")
        self.copy(f"{self.source}/tools/gpu-check", "gpu-check")
        self.copy(f"{self.source}/LICENSE", "LICENSE")

    def add_description(self):
        def git(*arguments):
            return output("git", "-C", self.source, *arguments).strip()
        about = {"commit": git("rev-parse", "HEAD") + ("-changed" if git("status", "--porcelain", "-uno") else ""),
                 "committed": git("show", "-s", "--format=%cI"),
                 "bundled": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                 "glibc": "%d.%d" % self.glibc,
                 "build": json.loads(output(f"{self.build}/tools/tutti", "info", "--json")).get("build")}
        with open(self.path("about.json"), "w") as file:
            json.dump(about, file, indent=1)
        with open(f"{self.source}/tools/packaging/bundle.md") as text, open(self.path("README.md"), "w") as file:
            file.write(text.read().replace("@COMMIT@", about["commit"]).replace("@GLIBC@", about["glibc"]))

    def bytes(self):
        return sum(os.lstat(os.path.join(at, name)).st_size for at, _, names in os.walk(self.folder) for name in names)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    if not shutil.which("patchelf"):
        fail("patchelf is not installed (tools/setup bundle)")
    bundle = Bundle(*sys.argv[1:])
    # What is in the way is removed only where this script made it.
    if os.path.exists(bundle.folder) and os.listdir(bundle.folder):
        if not os.path.exists(f"{bundle.folder}/about.json"):
            fail(f"{bundle.folder} is not empty and no bundle")
        shutil.rmtree(bundle.folder)
    bundle.add_programs()
    bundle.add_libraries()
    bundle.add_ucx()
    bundle.add_link()
    bundle.add_trainer()
    bundle.add_scripts()
    bundle.add_description()
    size = bundle.bytes()
    print(f"{bundle.folder}: {size / 2**20:.1f} MiB, needs an x86-64 Linux with glibc {bundle.glibc[0]}.{bundle.glibc[1]} or later")
    if size > MOST_BYTES:
        fail(f"that is more than {MOST_BYTES >> 20} MiB")


if __name__ == "__main__":
    main()
