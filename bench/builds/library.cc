#include "bench/builds/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "bench/error.h"

namespace tutti::bench::builds {
namespace {

template <class Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (!function) throw Failure(std::string("the library has no ") + name);
}

Functions load(const std::string& path) {
  // The program itself defines none of these symbols, so each build resolves its own.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw Failure(std::string("cannot load the library: ") + dlerror());
  Functions f;
  find(handle, "tutti_status_name", f.status_name);
  find(handle, "tutti_last_error", f.last_error);
  find(handle, "tutti_comm_create_from_allgather", f.comm_create);
  find(handle, "tutti_comm_last_error", f.comm_last_error);
  find(handle, "tutti_comm_free", f.comm_free);
  find(handle, "tutti_mem_alloc", f.mem_alloc);
  find(handle, "tutti_allreduce", f.allreduce);
  find(handle, "tutti_broadcast", f.broadcast);
  find(handle, "tutti_reduce", f.reduce);
  find(handle, "tutti_allgather", f.allgather);
  find(handle, "tutti_alltoall", f.alltoall);
  find(handle, "tutti_reduce_scatter_block", f.reduce_scatter);
  find(handle, "tutti_barrier", f.barrier);
  return f;
}

// Called by the library while it makes the communicator: no exception may pass through it.
int exchange(const void* mine, void* all, size_t bytes, void* member) {
  try {
    static_cast<Member*>(member)->allgather(mine, all, bytes);
    return 0;
  } catch (const Failure&) {
    return 1;
  }
}

}  // namespace

LibraryCopy::LibraryCopy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty()) throw BadInput(path + ": cannot be read");
  const int fd = memfd_create("libtutti", MFD_CLOEXEC);
  if (fd < 0 || write(fd, bytes.data(), bytes.size()) != ssize_t(bytes.size()))
    throw Failure("cannot copy " + path + " to memory");
  path_ = "/proc/self/fd/" + std::to_string(fd);
}

Library::Library(const LibraryCopy& copy, Member& member) : functions_(load(copy.path())) {
  require(
      functions_.comm_create(exchange, &member, member.rank(), member.nranks(), nullptr, &comm_),
      "making a communicator");
}

Library::~Library() { functions_.comm_free(comm_); }

void Library::require(tutti_status status, const char* what) const {
  if (status == TUTTI_OK) return;
  std::string text = std::string(what) + ": " + functions_.status_name(status);
  tutti_error error{};
  const char* why = functions_.last_error();
  if (comm_ && functions_.comm_last_error(comm_, &error) == TUTTI_OK) why = error.text;
  if (why && why[0]) text += std::string(": ") + why;
  throw Failure(text);
}

unsigned char* Library::allocate(size_t bytes) const {
  void* made = nullptr;
  require(functions_.mem_alloc(comm_, bytes, &made), "allocating symmetric memory");
  return static_cast<unsigned char*>(made);
}

}  // namespace tutti::bench::builds
