"""What `import torch` calls, from 2.5 on, to make its backends known.

Apart from the package: that imports torch itself, and may be no further than that when torch calls this.
"""

import sys


def register():
    register_backend = getattr(sys.modules["tutti_torch"], "register", None)
    if register_backend is not None:  # else it follows at the end of that import
        register_backend()
