#!/usr/bin/env python3
"""Packages for Debian from a complete build: deb.py BUILD_FOLDER FOLDER

libtutti0 is the library, libtutti-dev what programs are built with, tutti-tools the programs but for
tutti-train, which needs a LibTorch that the user chooses, tutti-mpi the interposers for MPI programs. What
they depend on is what dpkg-shlibdeps finds; no interposer is linked with an MPI.
"""

import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

MAINTAINER = "tutti developers <tutti@example.org>"
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ABOUT = """Collective communication for processes on one host or many: allreduce and
 ten other collectives, over shared memory, TCP and UCX, with proven schedules."""
PACKAGES = {
    "libtutti0": {
        "section": "libs", "summary": "collective communication library",
        "files": ["lib/*/libtutti.so.*"], "depends": ""},
    "libtutti-dev": {
        "section": "libdevel", "summary": "collective communication library (development)",
        "files": ["include/tutti", "lib/*/libtutti.so", "lib/*/pkgconfig", "lib/*/cmake"],
        "depends": "libtutti0 (= {version})"},
    "tutti-tools": {
        "section": "utils", "summary": "launcher, benchmark and soak test of tutti",
        "files": ["bin/tutti", "bin/tutti-bench", "bin/tutti-soak", "share/man/man1/tutti.1",
                  "share/man/man1/tutti-bench.1", "share/man/man1/tutti-soak.1"],
        "depends": "libtutti0 (= {version})"},
    "tutti-mpi": {
        "section": "libs", "summary": "interposers that run MPI programs over tutti",
        "files": ["lib/*/libtutti-mpi-*.so*"],
        "depends": "libtutti0 (= {version}), tutti-tools (= {version})"},
}


def call(*words, **options):
    result = subprocess.run(words, capture_output=True, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def staged(build, folder):
    """An installation, as if with the prefix /usr."""
    call("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", f"{folder}/staged")
    options = json.loads(call("meson", "introspect", build, "--buildoptions"))
    prefix = next(option["value"] for option in options if option["name"] == "prefix")
    usr = f"{folder}/usr"
    shutil.move(f"{folder}/staged{prefix}", usr)
    arch = call("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
    libdir = next(option["value"] for option in options if option["name"] == "libdir")
    if libdir != f"lib/{arch}":
        sys.exit(f"{build} installs libraries to {libdir}, Debian's are in lib/{arch}: "
                 f"meson configure {build} -Dlibdir=lib/{arch}")
    for file in glob.glob(f"{usr}/lib/*/pkgconfig/*.pc"):
        with open(file) as source:
            text = source.read()
        with open(file, "w") as target:
            target.write(re.sub(r"^prefix=.*$", "prefix=/usr", text, flags=re.MULTILINE))
    for file in glob.glob(f"{usr}/bin/*") + glob.glob(f"{usr}/lib/*/libtutti*.so.*.*"):
        call("strip", "--strip-unneeded", file)
    return usr


def binaries(tree):
    for file in glob.glob(f"{tree}/usr/**", recursive=True):
        if os.path.isfile(file) and not os.path.islink(file):
            with open(file, "rb") as source:
                if source.read(4) == b"\x7fELF":
                    yield file


def depends_of(name, tree, folder, version):
    """The packages of the libraries that its programs need."""
    os.makedirs(f"{folder}/debian", exist_ok=True)
    with open(f"{folder}/debian/control", "w") as file:
        file.write("Source: tutti\n\nPackage: tutti\nArchitecture: any\n")
    with open(f"{folder}/debian/shlibs.local", "w") as file:
        file.write(f"libtutti 0 libtutti0 (= {version})\n")
    files = list(binaries(tree))
    found = []
    if files:
        output = call("dpkg-shlibdeps", "-O", f"-l{os.path.dirname(glob.glob(f'{folder}/usr/lib/*/libtutti.so')[0])}",
                      *[f"-e{file}" for file in files], cwd=folder)
        found = [part.strip() for part in output.strip().partition("=")[2].split(",")]
    own = PACKAGES[name]["depends"].format(version=version)
    found = [part for part in found if part and not part.startswith("libtutti0")]
    return ", ".join(([own] if own else []) + found)


def package(name, usr, folder, version, target):
    what = PACKAGES[name]
    tree = f"{folder}/{name}"
    for pattern in what["files"]:
        paths = glob.glob(f"{usr}/{pattern}")
        if not paths:
            sys.exit(f"the build installs no {pattern}: is it complete?")
        for path in paths:
            place = f"{tree}/usr/{os.path.relpath(path, usr)}"
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if os.path.isdir(path):
                shutil.copytree(path, place, symlinks=True)
            else:
                shutil.copy2(path, place, follow_symlinks=False)
    for manual in glob.glob(f"{tree}/usr/share/man/*/*"):
        call("gzip", "-9n", manual)
    documents = f"{tree}/usr/share/doc/{name}"
    os.makedirs(documents)
    with open(f"{documents}/copyright", "w") as file:
        file.write("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
                   "Upstream-Name: tutti\n\nFiles: *\nCopyright: 2026 the authors of tutti\nLicense: Apache-2.0\n\n"
                   "License: Apache-2.0\n The text is in /usr/share/common-licenses/Apache-2.0.\n")
    date = call("date", "-R").strip()
    with open(f"{folder}/changelog", "w") as file:
        file.write(f"tutti ({version}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the sources.\n\n"
                   f" -- {MAINTAINER}  {date}\n")
    with open(f"{documents}/changelog.gz", "wb") as file:
        file.write(subprocess.run(["gzip", "-9nc", f"{folder}/changelog"], check=True, capture_output=True).stdout)
    size = 0
    sums = []
    for path in sorted(glob.glob(f"{tree}/usr/**", recursive=True)):
        os.chmod(path, 0o755 if os.path.isdir(path) or "/bin/" in path else 0o644, follow_symlinks=True) \
            if not os.path.islink(path) else None
        if os.path.isfile(path) and not os.path.islink(path):
            size += os.path.getsize(path)
            with open(path, "rb") as file:
                sums.append(f"{hashlib.md5(file.read()).hexdigest()}  {os.path.relpath(path, tree)}\n")
    control = f"{tree}/DEBIAN"
    os.makedirs(control)
    depends = depends_of(name, tree, folder, version)
    lines = [f"Package: {name}", "Source: tutti", f"Version: {version}",
             f"Architecture: {call('dpkg', '--print-architecture').strip()}", f"Maintainer: {MAINTAINER}",
             f"Installed-Size: {size // 1024 + 1}", f"Depends: {depends}",
             # Loaded at run time, where it is.
             *(["Recommends: libucx0"] if name == "libtutti0" else []), f"Section: {what['section']}",
             "Priority: optional", f"Description: {what['summary']}", f" {ABOUT}", ""]
    with open(f"{control}/control", "w") as file:
        file.write("\n".join(lines))
    with open(f"{control}/md5sums", "w") as file:
        file.writelines(sums)
    if name == "libtutti0":
        # Before 1.0 a minor version may add symbols: programs want the version they were built with, or later.
        with open(f"{control}/shlibs", "w") as file:
            file.write(f"libtutti 0 libtutti0 (>= {version})\n")
        with open(f"{control}/triggers", "w") as file:
            file.write("activate-noawait ldconfig\n")
    for path in glob.glob(f"{control}/*"):
        os.chmod(path, 0o644)
    call("dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", tree, target)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, target = sys.argv[1:]
    os.makedirs(target, exist_ok=True)
    with open(f"{ROOT}/meson.build") as file:
        version = re.search(r"version : '([0-9.]+)'", file.read())[1]
    with tempfile.TemporaryDirectory(prefix="tutti-deb-") as folder:
        os.chmod(folder, 0o755)
        usr = staged(build, folder)
        for old in glob.glob(f"{target}/*.deb"):
            os.remove(old)
        for name in PACKAGES:
            package(name, usr, folder, version, target)
    print("\n".join(sorted(glob.glob(f"{target}/*.deb"))))


if __name__ == "__main__":
    main()
