#!/usr/bin/env python3
"""The declarations that Python has of the C ABI are the header's, as the compiler sees it."""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])
LIBRARY = sys.argv[2]
ADAPTER = SOURCE / "lib/adapters/python"
sys.path.insert(0, str(ADAPTER / "src"))
os.environ["TUTTI_LIBRARY"] = LIBRARY

from tutti import _abi, _library  # noqa: E402

PROBE = r"""
#include <cstdio>
#include <type_traits>
#include <tutti/tutti.h>
template <class T> void kind() {
  if constexpr (std::is_void_v<T>) std::printf(" void");
  else if constexpr (std::is_pointer_v<T>) {
    using To = std::remove_cv_t<std::remove_pointer_t<T>>;
    if constexpr (std::is_function_v<To>) std::printf(" function");
    else if constexpr (std::is_same_v<To, char>) std::printf(" text");
    else if constexpr (std::is_void_v<To>) std::printf(" address");
    else if constexpr (!requires { sizeof(To); }) std::printf(" address");  // a handle
    else { std::printf(" pointer to"); kind<To>(); }
  }
  else if constexpr (std::is_enum_v<T>) std::printf(" signed %zu", sizeof(T));  // no negative ones
  else if constexpr (std::is_floating_point_v<T>) std::printf(" float %zu", sizeof(T));
  else if constexpr (std::is_integral_v<T>)
    std::printf(std::is_signed_v<T> ? " signed %zu" : " unsigned %zu", sizeof(T));
  else std::printf(" struct %zu", sizeof(T));
}
template <class R, class... P> void prototype(const char* name, R (*)(P...)) {
  std::printf("%s:", name); kind<R>(); ((std::printf(","), kind<P>()), ...); std::printf("\n");
}
template <class S, class M> void member(const char* name, M S::*, size_t offset) {
  std::printf("%s: %zu %zu\n", name, offset, sizeof(M));
}
int main() {
%s}
"""


def kind(ctype):
    if ctype is None:
        return " void"
    if ctype is ctypes.c_char_p:
        return " text"
    if ctype is ctypes.c_void_p:
        return " address"
    if issubclass(ctype, ctypes._CFuncPtr):
        return " function"
    if issubclass(ctype, ctypes._Pointer):
        return " pointer to" + kind(ctype._type_)
    if issubclass(ctype, ctypes.Structure):
        return f" struct {ctypes.sizeof(ctype)}"
    form = {"float": "float", "double": "float"}.get(ctype.__name__[2:])
    if form is None:
        form = "signed" if ctype(-1).value < 0 else "unsigned"
    return f" {form} {ctypes.sizeof(ctype)}"


def prototype(name, result, parameters):
    return f"{name}:" + ",".join([kind(result)] + [kind(parameter) for parameter in parameters])


def compiled(lines):
    """What a program that includes the header and has these lines as its body prints."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = folder + "/probe.cc", folder + "/probe"
        pathlib.Path(source).write_text(PROBE.replace("%s}", "\n".join(lines) + "\n}"))
        subprocess.run(["c++", "-std=c++20", "-w", "-fno-access-control", "-I", SOURCE / "include", source,
                        "-o", program, LIBRARY, f"-Wl,-rpath,{os.path.dirname(LIBRARY)}"], check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()


class Abi(unittest.TestCase):
    maxDiff = None

    def test_the_file_is_what_the_generator_makes(self):
        made = subprocess.run([sys.executable, ADAPTER / "generate_abi.py", "--print"], check=True,
                              capture_output=True, text=True).stdout
        self.assertEqual(made, (ADAPTER / "src/tutti/_abi.py").read_text())

    def test_every_function_that_the_library_exports_is_declared(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True,
                                text=True).stdout
        exported = set(re.findall(r" T (tutti_\w+)", listed))
        self.assertGreater(len(exported), 150)
        self.assertEqual(exported, set(_abi.PROTOTYPES))

    def test_prototypes_are_the_compilers(self):
        names = sorted(_abi.PROTOTYPES)
        here = [prototype(name, *_abi.PROTOTYPES[name]) for name in names]
        self.assertEqual(here, compiled(f'prototype("{name}", {name});' for name in names))

    def test_functions_of_the_programs_are_the_compilers(self):
        names = ["tutti_op_fn", "tutti_allgather_fn", "tutti_log_fn"]
        here = [prototype(n, getattr(_abi, n)._restype_, getattr(_abi, n)._argtypes_) for n in names]
        self.assertEqual(here, compiled(f'prototype("{name}", {name}());' for name in names))

    def test_constants_are_the_compilers(self):
        text = re.sub(r"/\*.*?\*/", " ", (SOURCE / "include/tutti/tutti.h").read_text(), flags=re.S)
        names = set(re.findall(r"#define (TUTTI_\w+) +[^\s_]", text)) - {"TUTTI_API"}
        for body in re.findall(r"typedef enum \w+ \{(.*?)\}", text, flags=re.S):
            names |= set(re.findall(r"(TUTTI_\w+) *=", body))
        names = sorted(name for name in names if not name.endswith("_INIT"))
        self.assertEqual(names, sorted(n for n in vars(_abi) if n.startswith("TUTTI_")))
        bits = 2**64
        self.assertEqual([f"{name} {getattr(_abi, name) % bits}" for name in names],
                         compiled(f'std::printf("%s %llu\\n", "{n}", (unsigned long long)({n}));' for n in names))

    def test_structs_are_laid_out_as_the_compilers(self):
        text = (SOURCE / "include/tutti/tutti.h").read_text()
        names = re.findall(r"^typedef struct (\w+) \{", text, flags=re.M)
        here, lines = [], []
        for name in names:
            struct = getattr(_abi, name)
            here.append(f"{name} {ctypes.sizeof(struct)}")
            lines.append(f'std::printf("%s %zu\\n", "{name}", sizeof({name}));')
            for field, _ in struct._fields_:
                place = getattr(struct, field)
                here.append(f"{name}.{field}: {place.offset} {place.size}")
                lines.append(f'member("{name}.{field}", &{name}::{field}, offsetof({name}, {field}));')
        self.assertEqual(here, compiled(lines))


class Finding(unittest.TestCase):
    def python(self, code, **environment):
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(ADAPTER / "src"), **environment})

    def test_the_library_that_is_named_is_loaded(self):
        self.assertEqual(_library.library_path(), LIBRARY)
        self.assertEqual(_library.load().tutti_version(), b"0.1.0")

    def test_what_is_named_and_not_there_is_one_sentence(self):
        ran = self.python("from tutti import _library; _library.load()", TUTTI_LIBRARY="/nowhere.so")
        self.assertNotEqual(ran.returncode, 0)
        self.assertRegex(ran.stderr.splitlines()[-1], "^ImportError: .*/nowhere.so.*TUTTI_LIBRARY")

    def test_another_library_is_refused_by_name(self):
        ran = self.python("from tutti import _library; _library.load()", TUTTI_LIBRARY="libm.so.6")
        self.assertRegex(ran.stderr.splitlines()[-1], "^ImportError: libm.so.6 has no tutti_status_name")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
