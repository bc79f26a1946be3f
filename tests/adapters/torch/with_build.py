#!/usr/bin/env python3
"""Runs a test with the packages of the source tree, and the extension and library that the build has made.

    with_build.py SOURCE_ROOT EXTENSION LIBTUTTI TEST [ARGUMENT...]
"""

import os
import subprocess
import sys
import tempfile

source, extension, library, test = (os.path.abspath(path) for path in sys.argv[1:5])
adapters = os.path.join(source, "lib", "adapters")
with tempfile.TemporaryDirectory() as folder:
    package = os.path.join(folder, "tutti_torch")
    os.mkdir(package)
    modules = os.path.join(adapters, "torch", "src", "tutti_torch")
    for name in os.listdir(modules):
        if name.endswith(".py"):
            os.symlink(os.path.join(modules, name), os.path.join(package, name))
    os.symlink(extension, os.path.join(package, "_compiled.so"))
    paths = [folder, os.path.join(adapters, "python", "src")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TUTTI_LIBRARY": library,
                   "PYTHONDONTWRITEBYTECODE": "1"}
    sys.exit(subprocess.run([sys.executable, test] + sys.argv[5:], env=environment).returncode)
