#!/usr/bin/env python3
"""The README's lines run as they are written: today's torch of PyPI, pip install of both packages, torchrun. Then the
tests of this folder run with what was installed, in both forms.

    install_test.py SOURCE BUILD [RELEASE]      of torch, in place of the newest

The library is that of BUILD. What pip installs stays in BUILD for the next time.
"""

import os
import pathlib
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import pypi  # noqa: E402
import torch_of_pypi  # noqa: E402

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
HERE = pathlib.Path(__file__).resolve().parent
RELEASE = sys.argv[3] if len(sys.argv) > 3 else ""
FOLDER = torch_of_pypi.environment(BUILD, RELEASE)

run = pypi.Runner(SOURCE, BUILD)


def newcomers_lines():
    text = (SOURCE / "lib/adapters/torch/README.md").read_text(encoding="utf-8")
    lines = re.search("```sh\n(.*?)```", text, flags=re.S).group(1)
    assert len(lines.splitlines()) <= 5, lines
    # Only where the environment goes is another, and which torch, where one is asked for.
    lines = re.sub(r"\bvenv(?=/|\s+&&)", str(FOLDER), lines)
    if RELEASE:
        # Torch before 2.3 was built for numpy 1, which pip is not told.
        numpy = "'numpy<2'" if tuple(map(int, RELEASE.split(".")[:2])) < (2, 3) else "numpy"
        lines = lines.replace("install torch numpy", f"install torch=={RELEASE} {numpy}")
    out = run("bash", "-c", "set -e\n" + lines, limit=2400)
    assert "2 ranks over tutti (compiled): loss " in out, out


newcomers_lines()
python = str(FOLDER / "bin/python")
# `import torch` makes it known by itself, and either may come first.
run(python, "-c", "import torch; assert torch.distributed.is_backend_available('tutti')")
run(python, "-c", "import tutti_torch; assert tutti_torch.implementation() == 'compiled'")

print("torch", run(python, "-c", "import torch; print(torch.__version__)"), end="")
for form in ("compiled", "python"):
    for test in ("collectives", "faults", "ddp", "adoption", "torchrun", "parallel", "upstream"):
        told = run(python, str(HERE / f"{test}_test.py"), form)
        print(f"{test} {form}", *told.splitlines(), sep="\n    ")
fake_cuda = BUILD / "tests/support/fake_cuda"
if fake_cuda.exists():
    run(python, str(HERE / "gpu_test.py"), "python", env={"LD_LIBRARY_PATH": str(fake_cuda)})
    print("gpu python")
