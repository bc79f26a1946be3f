"""The reference pages of tutti.h: complete, and refused where a declaration has no comment.

    reference_test.py SOURCE_ROOT
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv.pop(1)


class Reference(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-reference-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def make(self, root):
        return subprocess.run([f"{root}/tools/reference", f"{self.folder}/pages"], capture_output=True, text=True,
                              timeout=100)

    def test_every_function_has_its_place_with_its_text(self):
        result = self.make(ROOT)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue(os.path.exists(result.stdout.strip()))
        pages = ""
        for path in glob.glob(f"{self.folder}/pages/html/*.html"):
            with open(path) as file:
                pages += file.read()
        text = re.sub(r"<[^>]*>|&#160;", " ", pages)
        with open(f"{ROOT}/include/tutti/tutti.h") as file:
            functions = re.findall(r"^TUTTI_API[^;(]*?\b(tutti_\w+)\(", file.read(), re.MULTILINE)
        self.assertGreater(len(functions), 100)
        self.assertEqual([name for name in functions
                          if not re.search(rf"◆.*\b{name}\(\)|\b{name}\s+\(\s", text)], [])
        self.assertIn("the result on rank <code>root</code> only", pages)

    def test_what_has_no_comment_is_an_error(self):
        root = f"{self.folder}/clone"
        for part in ("tools/reference", "tools/common.sh", "tools/packaging/Doxyfile",
                     "tools/packaging/doxygen_filter.py", "include/tutti/tutti.h"):
            os.makedirs(os.path.dirname(f"{root}/{part}"), exist_ok=True)
            shutil.copy(f"{ROOT}/{part}", f"{root}/{part}")
        with open(f"{root}/include/tutti/tutti.h") as file:
            text = file.read()
        mark = "/* ---------------------------------------------------------------- log */\n"
        self.assertIn(mark, text)
        with open(f"{root}/include/tutti/tutti.h", "w") as file:
            file.write(text.replace(mark, f"{mark}\nTUTTI_API int tutti_nobody_knows(int a);\n"))
        result = self.make(root)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("tutti_nobody_knows(int a) (function) of group log is not documented", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
