"""Builds tutti_torch: the Python package and, where torch and a compiler are, the compiled backend.

pip builds in an environment of its own, in which there is no torch. The extension has to fit the torch
that it will be loaded by, which is that of the environment it is installed into: so that one is used.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def torch_of_the_environment():
    """The modules torch and torch.utils.cpp_extension, or None where there is no torch with c10d."""
    try:
        import torch
    except ImportError:
        # -I: without the paths that pip puts before those of the environment.
        found = subprocess.run([sys.executable, "-I", "-c", "import json, sys; print(json.dumps(sys.path))"],
                               check=True, capture_output=True, text=True)
        sys.path += [place for place in json.loads(found.stdout) if place not in sys.path]
        try:
            import torch
        except ImportError:
            return None
    try:
        from torch.utils import cpp_extension
    except ImportError:
        return None
    return (torch, cpp_extension) if torch.distributed.is_available() else None


def without_extension(reason):
    print(f"tutti_torch: the compiled backend is not built, the one in Python is used: {reason}", file=sys.stderr)
    return {}


def extension():
    found = torch_of_the_environment()
    if found is None:
        return without_extension("there is no torch with torch.distributed in this environment")
    torch, cpp_extension = found
    # Later ones choose their own standard.
    standard = ["-std=c++17"] if torch.__version__.startswith("1.") else []

    class OrPython(cpp_extension.BuildExtension):
        """A compiler that fails leaves the form in Python."""

        def build_extensions(self):
            try:
                super().build_extensions()
            except Exception as error:  # pylint: disable=broad-except
                without_extension(str(error).splitlines()[0])
                self.extensions.clear()

        def copy_extensions_to_source(self):
            if self.extensions:
                super().copy_extensions_to_source()

    return {
        "ext_modules": [cpp_extension.CppExtension(
            "tutti_torch._compiled",
            ["csrc/adoption.cc", "csrc/backend.cc", "csrc/work.cc", "csrc/library.cc"],
            include_dirs=[str(ROOT), str(ROOT / "include")],
            extra_compile_args=["-O2", "-g0", "-fvisibility=hidden"] + standard,
            libraries=["dl"])],
        "cmdclass": {"build_ext": OrPython.with_options(use_ninja=False)},
    }


# Not in the source tree: what was compiled for another torch would be found there.
BUILT = tempfile.TemporaryDirectory()

setup(
    name="tutti-torch",
    version="0.1.0",
    description="tutti as a backend of torch.distributed",
    license="Apache-2.0",
    python_requires=">=3.8",
    package_dir={"": "src"},
    packages=["tutti_torch"],
    package_data={"tutti_torch": ["py.typed"]},
    install_requires=[f"tutti @ {(HERE.parent / 'python').as_uri()}"],
    # From torch 2.5 on "torch.backends" is loaded by `import torch`; later ones look a name up when it is
    # asked for.
    entry_points={
        "torch.backends": ["tutti = tutti_torch._autoload:register"],
        "torch.distributed.backends": ["tutti = tutti_torch._autoload:register"],
    },
    options={"build": {"build_base": BUILT.name}, "egg_info": {"egg_base": BUILT.name}},
    **extension())
