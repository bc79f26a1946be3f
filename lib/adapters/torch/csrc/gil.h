// Python's global lock around what takes long, or runs callbacks that may be Python's.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>

namespace tutti_torch {

// Releases the lock as long as the result lives; NULL where this thread does not hold it.
inline std::unique_ptr<pybind11::gil_scoped_release> without_gil() {
  if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return nullptr;
  return std::make_unique<pybind11::gil_scoped_release>();
}

}  // namespace tutti_torch
