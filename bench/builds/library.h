// One of the two builds of the library in this process, behind a table of its functions.
#pragma once

#include <cstddef>
#include <string>

#include "bench/builds/team.h"
#include "tutti/tutti.h"

namespace tutti::bench::builds {

struct Functions {
  decltype(&tutti_status_name) status_name;
  decltype(&tutti_last_error) last_error;
  decltype(&tutti_comm_create_from_allgather) comm_create;
  decltype(&tutti_comm_last_error) comm_last_error;
  decltype(&tutti_comm_free) comm_free;
  decltype(&tutti_mem_alloc) mem_alloc;
  decltype(&tutti_allreduce) allreduce;
  decltype(&tutti_broadcast) broadcast;
  decltype(&tutti_reduce) reduce;
  decltype(&tutti_allgather) allgather;
  decltype(&tutti_alltoall) alltoall;
  decltype(&tutti_reduce_scatter_block) reduce_scatter;
  decltype(&tutti_barrier) barrier;
};

// A private copy of a library file, so that a file compared with itself is loaded twice, and
// rebuilding the file meanwhile does no harm.
class LibraryCopy {
 public:
  // Throws BadInput if the file cannot be read.
  explicit LibraryCopy(const std::string& path);
  // "/proc/self/fd/5"
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A loaded build, with one communicator of all ranks.
class Library {
 public:
  // Collective. Throws Failure.
  Library(const LibraryCopy& copy, Member& member);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Functions& functions() const { return functions_; }
  tutti_comm comm() const { return comm_; }
  // Throws Failure with the library's own sentence unless `status` is OK.
  void require(tutti_status status, const char* what) const;
  // Collective: symmetric memory, freed with the communicator.
  unsigned char* allocate(size_t bytes) const;

 private:
  Functions functions_{};
  tutti_comm comm_ = nullptr;
};

}  // namespace tutti::bench::builds
