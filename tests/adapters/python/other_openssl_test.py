"""In a process where another library has functions of OpenSSL's names, and the dynamic linker finds these first.

    other_openssl_test.py SOURCE LIBRARY CALLBACKS TUTTI OTHER
"""

import sys
import unittest

OTHER = sys.argv.pop(5)
import support  # noqa: E402


class OtherOpenSsl(support.WithPackage):
    def ranks(self, before):
        return self.package.ranks(3, "-c", f"""if True:
            import array, ctypes, os
            {before}
            other = ctypes.CDLL({OTHER!r}, os.RTLD_NOW | os.RTLD_GLOBAL)
            assert ctypes.CDLL(None).HMAC() == 0 and other.other_openssl_calls() == 1
            import tutti
            with tutti.init(transports="tcp") as comm:
                total = array.array("d", [0] * 100000)
                comm.Allreduce(array.array("d", [comm.rank + 1] * 100000), total)
                assert (set(total), other.other_openssl_calls()) == ({{6.0}}, 1)
        """, TUTTI_INTEGRITY="encrypted", timeout=100)

    def test_it_is_not_called_by_the_library(self):
        """As TensorFlow has BoringSSL, after Python's hashlib has loaded OpenSSL."""
        ran = self.ranks('ctypes.CDLL("libcrypto.so.3", os.RTLD_NOW)')
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_it_is_not_called_by_openssl_itself(self):
        """Where Python has OpenSSL within itself, so that the library is the first to load it."""
        ran = self.ranks('assert "libcrypto" not in open("/proc/self/maps").read()')
        self.assertEqual(ran.returncode, 0, ran.stderr)


if __name__ == "__main__":
    unittest.main()
