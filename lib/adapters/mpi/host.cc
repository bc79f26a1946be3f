#include "lib/adapters/mpi/host.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <string>
#include <string_view>
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
  static_cast<std::vector<std::string>*>(into)->push_back(info->dlpi_name);
  return 0;
}

// Of all objects in the process.
std::vector<std::string> loaded_paths() {
  std::vector<std::string> paths;
  dl_iterate_phdr(note, &paths);
  return paths;
}

std::vector<Loaded> loaded_libraries() {
  std::vector<Loaded> found;
  for (const std::string& path : loaded_paths()) {
    const std::string_view file = std::string_view(path).substr(path.rfind('/') + 1);
    for (const Library& one : known) {
      if (file.starts_with(one.stem)) found.push_back({&one, path});
    }
  }
  return found;
}

void promote() {
  if (dlsym(RTLD_DEFAULT, "PMPI_Init") != nullptr) return;
  // A plugin of the program, a Python module for one, has loaded it for itself.
  for (const Loaded& one : loaded_libraries()) {
    if (one.library->abi == compiled_for)
      dlopen(one.path.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
  }
}

// What the dynamic section says; addresses as they are in memory.
template <class Value>
Value* table(const link_map& map, ElfW(Sxword) tag, size_t* bytes = nullptr,
             ElfW(Sxword) bytes_tag = 0) {
  Value* found = nullptr;
  for (const ElfW(Dyn)* entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == tag) found = reinterpret_cast<Value*>(entry->d_un.d_ptr);
    if (bytes != nullptr && entry->d_tag == bytes_tag) *bytes = entry->d_un.d_val;
  }
  return found;
}

// With LD_BIND_NOW the loader has bound the calls of what was not there yet to null, once and for
// all: those of a program that has loaded its MPI later are bound here.
void bind_again() {
  Dl_info info;
  link_map* own = nullptr;
  if (dladdr1(&known, &info, reinterpret_cast<void**>(&own), RTLD_DL_LINKMAP) == 0) return;
  size_t bytes = 0;
  const auto* const calls = table<const ElfW(Rela)>(*own, DT_JMPREL, &bytes, DT_PLTRELSZ);
  const auto* const symbols = table<const ElfW(Sym)>(*own, DT_SYMTAB);
  const auto* const names = table<const char>(*own, DT_STRTAB);
  for (size_t i = 0; i < bytes / sizeof(*calls); ++i) {
    void** const place = reinterpret_cast<void**>(own->l_addr + calls[i].r_offset);
    if (*place != nullptr) continue;
    void* const found = dlsym(RTLD_DEFAULT, names + symbols[ELF64_R_SYM(calls[i].r_info)].st_name);
    if (found != nullptr) *place = found;
  }
}

}  // namespace

void bind_host() {
  // Looked at by every call of Fortran's: std::call_once takes longer.
  [[maybe_unused]] static const bool bound = (promote(), bind_again(), true);
}

void* variable_of_host(const char* name) {
  bind_host();
  return dlsym(RTLD_DEFAULT, name);
}

void* next_function(const char* name) {
  if (void* const found = dlsym(RTLD_NEXT, name)) return found;
  Dl_info own, other;
  dladdr(&known, &own);
  for (const std::string& path : loaded_paths()) {
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

}  // namespace tutti::mpi
