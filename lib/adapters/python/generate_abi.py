#!/usr/bin/env python3
"""Writes src/tutti/_abi.py, the C ABI for ctypes, from include/tutti/tutti.h.

    lib/adapters/python/generate_abi.py           writes it
    lib/adapters/python/generate_abi.py --print   prints it

Run it when the header changes. A test compares the file with what this prints, and every constant,
size, offset and prototype in it with what a compiler makes of the header.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEADER = HERE.parents[2] / "include" / "tutti" / "tutti.h"
OUTPUT = HERE / "src" / "tutti" / "_abi.py"

SCALARS = {
    "char": "c_char", "unsigned char": "c_ubyte", "int": "c_int", "float": "c_float", "double": "c_double",
    "size_t": "c_size_t", "int32_t": "c_int32", "int64_t": "c_int64", "uint32_t": "c_uint32",
    "uint64_t": "c_uint64",
}
# Values of macros that are no plain number.
MACROS = {
    "((const void*)(intptr_t)-1)": "2 ** (8 * sizeof(c_void_p)) - 1",
    "((size_t)-1)": "2 ** (8 * sizeof(c_size_t)) - 1",
}


class Header:
    def __init__(self, text):
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S).replace("\\\n", " ")
        self.macros = []
        for name, value in re.findall(r"^#define (TUTTI_\w+) +(\S.*)$", text, flags=re.M):
            value = value.strip()
            if name != "TUTTI_API" and not name.endswith("_INIT"):  # initialisers are for C
                self.macros.append((name, MACROS.get(value) or str(int(value.strip("()u"), 0))))
        text = re.sub(r"^#.*$", " ", text, flags=re.M)
        self.text = re.sub(r"\s+", " ", text)
        self.enums = re.findall(r"typedef enum (\w+) \{ (.*?) \} \1;", self.text)
        self.enum_names = {name for name, _ in self.enums}
        self.handles = set(re.findall(r"typedef struct \w+_s\* (\w+);", self.text))
        self.structs = re.findall(r"typedef struct (\w+) \{ (.*?) \} \1;", self.text)
        self.struct_names = {name for name, _ in self.structs}
        self.callbacks = re.findall(r"typedef (\w+) \(\*(\w+)\)\((.*?)\);", self.text)
        self.callback_names = {name for _, name, _ in self.callbacks}
        self.functions = re.findall(r"TUTTI_API ([\w ]+?\*?) ?(tutti_\w+)\((.*?)\);", self.text)

    def type_of(self, text, result=False):
        """The ctypes name of a C type. Pointers to data are addresses: c_void_p."""
        text = text.replace("const", " ").strip()
        base, stars = text.rstrip("* "), text.count("*")
        base = re.sub(r"\s+", " ", base)
        if stars == 0:
            if base == "void" and result:
                return "None"
            if base in self.enum_names:
                return "c_int"
            if base in self.handles:
                return "c_void_p"
            if base in self.callback_names or base in self.struct_names:
                return base
            return SCALARS[base]
        if base == "void":
            return {1: "c_void_p", 2: "POINTER(c_void_p)"}[stars]
        if base == "char" and stars == 1:
            return "c_char_p"
        inner = self.type_of(base)
        if base == "char":
            inner, stars = "c_char_p", stars - 1
        return "POINTER(" * stars + inner + ")" * stars

    def parameters(self, text):
        """Their types; a name is the last word of what is no lone type."""
        types = []
        for parameter in [p.strip() for p in text.split(",")]:
            if parameter != "void":
                declared, _, _ = re.match(r"((?:const )?[\w ]*?[ *]+?(?:const\* )?)(\w+)()$", parameter).groups()
                types.append(self.type_of(declared))
        return types

    def fields(self, text):
        found = []
        for field in [f.strip() for f in text.split(";") if f.strip()]:
            function = re.match(r"(\w+) \(\*(\w+)\)\((.*)\)$", field)
            array = re.match(r"(.*) (\w+)\[(\d+)\]$", field)
            if function:
                result, name, parameters = function.groups()
                types = [self.type_of(result, result=True)] + self.parameters(parameters)
                found.append((name, f"CFUNCTYPE({', '.join(types)})"))
            elif array:
                declared, name, length = array.groups()
                found.append((name, f"{self.type_of(declared)} * {length}"))
            else:
                declared, name = re.match(r"(.*?[ *])(\w+)$", field).groups()
                found.append((name, self.type_of(declared)))
        return found


def generate(header):
    lines = ['"""The C ABI of tutti for ctypes. Written by generate_abi.py from tutti.h: do not edit."""',
             "", "from ctypes import (", "    CFUNCTYPE,", "    POINTER,", "    Structure,", "    c_char,",
             "    c_char_p,", "    c_double,", "    c_float,", "    c_int,", "    c_int32,", "    c_int64,",
             "    c_size_t,", "    c_ubyte,", "    c_uint32,", "    c_uint64,", "    c_void_p,", "    sizeof,",
             ")", "from typing import Any, Dict, List, Tuple", ""]
    for name, value in header.macros:
        lines.append(f"{name} = {value}")
    for name, body in header.enums:
        lines += ["", f"# {name}"]
        for entry in [e.strip() for e in body.split(",") if e.strip()]:
            enumerator, value = entry.split(" = ")
            lines.append(f"{enumerator} = {int(value, 0)}")
    lines += ["", "# Functions of the program's.", ]
    for result, name, parameters in header.callbacks:
        types = [header.type_of(result, result=True)] + header.parameters(parameters)
        lines.append(f"{name} = CFUNCTYPE({', '.join(types)})")
    for name, body in header.structs:
        lines += ["", "", f"class {name}(Structure):", "    _fields_ = ["]
        for field, kind in header.fields(body):
            lines.append(f'        ("{field}", {kind}),')
        lines.append("    ]")
    lines += ["", "", "# name: (result, parameters). Enumerations are c_int; handles and addresses c_void_p.",
              "PROTOTYPES: Dict[str, Tuple[Any, List[Any]]] = {"]
    for result, name, parameters in header.functions:
        kinds = ", ".join(header.parameters(parameters))
        lines.append(f'    "{name}": ({header.type_of(result, result=True)}, [{kinds}]),')
    lines += ["}", ""]
    return "\n".join(lines)


def main():
    text = generate(Header(HEADER.read_text()))
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(text)
    elif not sys.argv[1:]:
        OUTPUT.write_text(text)
    else:
        sys.exit("generate_abi.py: unknown argument (allowed: --print)")


if __name__ == "__main__":
    main()
