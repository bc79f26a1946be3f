"""The ABI of tutti.h is the recorded one of the last release, and what would break a program is seen.

    abi_test.py SOURCE_ROOT
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv.pop(1)
HEADER = f"{ROOT}/include/tutti/tutti.h"


class Abi(unittest.TestCase):
    def compare(self, text):
        with tempfile.TemporaryDirectory(prefix="tutti-abi-test-") as folder:
            with open(f"{folder}/tutti.h", "w") as file:
                file.write(text)
            return subprocess.run([sys.executable, f"{ROOT}/tools/packaging/abi.py", f"{folder}/tutti.h"],
                                  capture_output=True, text=True, timeout=100)

    def changed(self, pattern, replacement):
        with open(HEADER) as file:
            text, times = re.subn(pattern, replacement, file.read(), count=1)
        self.assertEqual(times, 1, pattern)
        return self.compare(text)

    def test_it_is_compatible_with_the_last_release(self):
        with open(HEADER) as file:
            result = self.compare(file.read())
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_breaks_programs_is_refused(self):
        for pattern, replacement in (
                (r"TUTTI_TIMEOUT = 5,", "TUTTI_TIMEOUT = 50,"),  # a status has another number
                (r"int64_t timeout_ms; ", "int32_t timeout_ms; "),  # a member has another type
                (r"int progress_thread;", "int64_t progress_thread;"),
                (r"uint64_t calls; ", "uint64_t before; uint64_t calls; "),  # the others move
                (r"unsigned char bytes\[128\]", "unsigned char bytes[64]"),
                (r"tutti_version\(void\)", "tutti_version(int which)"),  # another argument
                (r"TUTTI_API const char\* tutti_version\(void\);", "")):  # gone
            with self.subTest(replacement or pattern):
                result = self.changed(pattern, replacement)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("is not compatible with the recorded ABI", result.stderr)

    def test_new_functions_and_new_values_are_no_break(self):
        for pattern, replacement in (
                (r"TUTTI_API const char\* tutti_version\(void\);",
                 r"\g<0>\nTUTTI_API int tutti_something_new(int a);"),
                (r"TUTTI_INTERNAL = 12 ", "TUTTI_INTERNAL = 12, TUTTI_NEW = 13 ")):
            with self.subTest(replacement):
                result = self.changed(pattern, replacement)
                self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
