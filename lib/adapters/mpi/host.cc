#include "lib/adapters/mpi/host.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

namespace tutti::mpi {
namespace {

enum class Abi { open_mpi, mpich, standard };

#if defined(OPEN_MPI)
constexpr Abi compiled_for = Abi::open_mpi;
constexpr const char* compiled_for_name = "Open MPI";
#elif defined(MPI_ABI_VERSION)
constexpr Abi compiled_for = Abi::standard;
constexpr const char* compiled_for_name = "the standard ABI of MPI 5";
#else
constexpr Abi compiled_for = Abi::mpich;
constexpr const char* compiled_for_name = "MPICH and what shares its ABI";
#endif

struct Library {
  const char* stem;  // its file's name begins so
  Abi abi;
  const char* name;
};
// Intel MPI's is called as MPICH's.
constexpr Library known[] = {
    {"libmpi.so.40", Abi::open_mpi, "Open MPI"},
    {"libmpi.so.12", Abi::mpich, "MPICH or Intel MPI"},
    {"libmpich.so.12", Abi::mpich, "MPICH"},
    {"libmpi_abi.so", Abi::standard, "the standard ABI of MPI 5"},
};

struct Loaded {
  const Library* library;
  std::string path;
};

int note(dl_phdr_info* info, size_t, void* into) {
  const char* const slash = std::strrchr(info->dlpi_name, '/');
  const char* const file = slash != nullptr ? slash + 1 : info->dlpi_name;
  for (const Library& one : known) {
    if (std::strncmp(file, one.stem, std::strlen(one.stem)) == 0)
      static_cast<std::vector<Loaded>*>(into)->push_back({&one, info->dlpi_name});
  }
  return 0;
}

std::vector<Loaded> loaded_libraries() {
  std::vector<Loaded> found;
  dl_iterate_phdr(note, &found);
  return found;
}

int note_path(dl_phdr_info* info, size_t, void* into) {
  static_cast<std::vector<std::string>*>(into)->push_back(info->dlpi_name);
  return 0;
}

void promote() {
  if (dlsym(RTLD_DEFAULT, "PMPI_Init") != nullptr) return;
  // A plugin of the program, a Python module for one, has loaded it for itself.
  for (const Loaded& one : loaded_libraries()) {
    if (one.library->abi == compiled_for)
      dlopen(one.path.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
  }
}

}  // namespace

void bind_host() {
  static std::once_flag once;
  std::call_once(once, promote);
}

void* variable_of_host(const char* name) {
  bind_host();
  return dlsym(RTLD_DEFAULT, name);
}

void* next_function(const char* name) {
  if (void* const found = dlsym(RTLD_NEXT, name)) return found;
  std::vector<std::string> paths;
  dl_iterate_phdr(note_path, &paths);
  Dl_info own, other;
  dladdr(&known, &own);
  for (const std::string& path : paths) {
    void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    void* const found = dlsym(library, name);
    dlclose(library);
    if (found != nullptr && dladdr(found, &other) != 0 && other.dli_fbase != own.dli_fbase)
      return found;
  }
  return nullptr;
}

Fit fit_of_host() {
  bind_host();
  const char* const bind_now = std::getenv("LD_BIND_NOW");
  if (bind_now != nullptr && *bind_now != '\0' && PMPI_Get_version == nullptr)
    return {"LD_BIND_NOW is set, and the program has loaded its MPI later than this interposer",
            true};
  const std::vector<Loaded> loaded = loaded_libraries();
  // In a program that is linked statically there is none to be found.
  if (loaded.empty()) return {};
  const auto fits = [](const Loaded& one) { return one.library->abi == compiled_for; };
  if (std::none_of(loaded.begin(), loaded.end(), fits)) {
    return {std::string("this interposer is for ") + compiled_for_name + ", and the program uses " +
                loaded.front().library->name,
            true};
  }
  if (loaded.size() > 1)
    return {"the process has two MPIs, " + loaded[0].path + " and " + loaded[1].path};
  return {};
}

void refuse_foreign_host() {
  const Fit fit = fit_of_host();
  if (!fit.foreign) return;
  std::fprintf(stderr, "tutti mpi: %s\n", fit.why_not.c_str());
  _exit(EXIT_FAILURE);
}

}  // namespace tutti::mpi
