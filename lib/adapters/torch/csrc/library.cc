#include "library.h"

#include <dlfcn.h>

#include <stdexcept>

namespace tutti_torch {

namespace {

Library loaded;

template <class Function>
void look_up(void* handle, const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(handle, name));
  if (out == nullptr) {
    throw std::runtime_error(std::string("tutti_torch: the library of tutti has no ") + name +
                             "(): it is of another version");
  }
}

}  // namespace

const Library& library() { return loaded; }

void load_library(const std::string& path) {
  // Never closed: communicators may outlive the module.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw std::runtime_error(std::string("tutti_torch: the library of tutti cannot be loaded: ") +
                             dlerror());
  }
#define TUTTI_TORCH_LOOK_UP(name) look_up(handle, "tutti_" #name, loaded.name);
  TUTTI_TORCH_FUNCTIONS(TUTTI_TORCH_LOOK_UP)
#undef TUTTI_TORCH_LOOK_UP
}

}  // namespace tutti_torch
