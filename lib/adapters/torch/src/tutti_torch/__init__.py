"""tutti as a backend of torch.distributed.

    import tutti_torch
    torch.distributed.init_process_group("tutti")                # or "cpu:tutti,cuda:tutti"

under torchrun, or whatever else tells torch its ranks; nothing more needs to be set. The process group is
the compiled one where this package was built beside the torch that is used, else the one in Python, which alone
takes tensors in memory of a GPU and so is taken where there is one; implementation() says which.
"""

try:
    import torch
    import torch.distributed as _distributed
except ImportError as error:
    raise ImportError(f"tutti_torch needs PyTorch with torch.distributed: {error}") from error

from . import _setup

__all__ = ["implementation", "register", "use"]

OLDEST_TORCH = (1, 13)


def _check_torch():
    if _setup.RELEASE < OLDEST_TORCH:
        raise ImportError(f"tutti_torch needs PyTorch {OLDEST_TORCH[0]}.{OLDEST_TORCH[1]} or later; "
                          f"this is {torch.__version__}")
    if not _distributed.is_available():
        raise ImportError(f"tutti_torch needs a PyTorch with torch.distributed; this {torch.__version__} "
                          "was built without it")


def _load_compiled():
    """The extension, or None and why not. What was built for another torch may load, and would then call other
    functions than it means."""
    try:
        from . import _compiled
    except ImportError as error:
        return None, str(error)
    release = ".".join(torch.__version__.split(".")[:2])
    if _compiled.torch_release != release:
        return None, f"it was built for PyTorch {_compiled.torch_release}, and this is {release}"
    _compiled.load_library(_setup.library_path())
    return _compiled, ""


_check_torch()
_compiled, _why_not_compiled = _load_compiled()
_forced = None


def implementation() -> str:
    """Which form process groups made from now on have: "compiled", where all their ranks say so, or "python"."""
    if _forced is not None:
        return _forced
    return "compiled" if _compiled is not None and not torch.cuda.is_available() else "python"


def use(form) -> None:
    """Chooses the form of process groups made from now on: "compiled", "python", or None for what suits.

    RuntimeError, with the reason, where the compiled one is asked for and is not there.
    """
    global _forced
    if form not in ("compiled", "python", None):
        raise ValueError(f'tutti_torch: "{form}" is no form of the process group: compiled, python or None')
    if form == "compiled" and _compiled is None:
        raise RuntimeError(f"tutti_torch: the compiled backend cannot be loaded: {_why_not_compiled}")
    _forced = form


def _create(store, rank, size, timeout):
    limit_ms = max(1, int(timeout.total_seconds() * 1000))
    collectives, messages = _setup.communicators(store, rank, size, limit_ms, 2, "none")
    if _setup.all_say(implementation() == "compiled", collectives):
        _setup.let_record(True)
        return _compiled.create(collectives, messages, rank, size, limit_ms)
    from . import _process_group
    return _process_group.TuttiProcessGroup(store, collectives, messages, rank, size, limit_ms)


def register() -> None:
    """Makes torch.distributed know "tutti". Importing this package has done it."""
    backend = _distributed.Backend
    if "TUTTI" in backend._plugins:
        return
    try:
        # One instance serves both: two different ones of a plugin in one group are taken for the same. A list:
        # some versions take a name apart into letters.
        backend.register_backend("tutti", _create, devices=["cpu", "cuda"])
    except TypeError:  # 1.13 knows nothing of devices
        backend.register_backend("tutti", _create)


register()
