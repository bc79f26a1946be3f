#include "transports/ucx/functions.h"

#include <dlfcn.h>

#include "lib/config/config.h"

namespace tutti::ucx {

namespace {

Status symbol(void* library, const char* name, void** out) {
  *out = dlsym(library, name);
  if (*out != nullptr) return {};
  return {TUTTI_UNSUPPORTED, std::string("ucx: libucp.so.0 is too old: it has no ") + name + "()"};
}

}  // namespace

Status Functions::load() {
  // Never closed: UCX's threads live as long as the process.
  loaded_here = dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD) == nullptr;
  void* const library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return {TUTTI_UNSUPPORTED, std::string("ucx: libucp.so.0 cannot be loaded: ") + dlerror()};
  }
  const auto get = [library](const char* name, auto* out) {
    return symbol(library, name, reinterpret_cast<void**>(out));
  };
#define TUTTI_LOAD(name) TUTTI_TRY(get(#name, &(name)));
  TUTTI_UCX_FUNCTIONS(TUTTI_LOAD)
#undef TUTTI_LOAD
  TUTTI_TRY(get("ucs_status_string", &this->ucs_status_string));
  if (loaded_here) {
    // On loading, UCX installs signal handlers that print where a program crashed. They stay only
    // if the user asks for them.
    void* const disable = dlsym(library, "ucs_debug_disable_signals");
    const bool wanted =
        environment_has("UCX_HANDLE_ERRORS") || environment_has("UCX_ERROR_SIGNALS");
    if (disable != nullptr && !wanted) reinterpret_cast<void (*)()>(disable)();
  }
  return {};
}

Status Functions::get(const Functions** out) {
  static Functions functions;
  static const Status loaded = functions.load();
  *out = &functions;
  return loaded;
}

Status Functions::failure(ucs_status_t status, const std::string& what) const {
  const tutti_status code = status == UCS_ERR_NO_MEMORY     ? TUTTI_NO_MEMORY
                            : status == UCS_ERR_UNSUPPORTED ? TUTTI_UNSUPPORTED
                                                            : TUTTI_SYSTEM;
  return {code, "ucx: " + what + ": " + this->ucs_status_string(status)};
}

}  // namespace tutti::ucx
