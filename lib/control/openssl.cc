#include "lib/control/openssl.h"

#include <dlfcn.h>

#include <string>

namespace tutti {

namespace {

// The dynamic linker binds a name to the first library that has it, of whatever version. In a
// process with another OpenSSL whose names all can see, as BoringSSL's in TensorFlow, calls by name
// would get that one's functions. dlsym() on libcrypto, on which the library depends, finds its
// own. What libcrypto calls by name itself was bound when it was loaded: where that is later,
// whoever loads the library has to see to it, as tutti's Python package does. Where it is no shared
// library the names are the program's.
OpenSsl find() {
  OpenSsl found;
  const std::string name = "libcrypto.so." + std::to_string(OPENSSL_SHLIB_VERSION);
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);  // never closed
  if (library == nullptr) return found;
  OpenSsl own;
  const auto get = [library](const char* function, auto* out) {
    *reinterpret_cast<void**>(out) = dlsym(library, function);
    return *out != nullptr;
  };
#define TUTTI_LOAD(name) \
  if (!get(#name, &own.name)) return found;
  TUTTI_OPENSSL_FUNCTIONS(TUTTI_LOAD)
#undef TUTTI_LOAD
  return own;
}

}  // namespace

const OpenSsl& openssl() {
  static const OpenSsl functions = find();
  return functions;
}

}  // namespace tutti
