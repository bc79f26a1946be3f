// The vectors of one rank, first touched by their owner, with a guard after the output: plain heap
// memory, heap memory that the communicator has adopted, or symmetric memory of it. For calls on a
// GPU (gpu_subjects.h) they are heap memory in which inputs are made and outputs checked.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

#include "bench/error.h"
#include "bench/rank.h"

namespace tutti::bench {

enum class Memory { heap, adopted, symmetric, cuda, cuda_symmetric };

inline bool on_gpu(Memory memory) {
  return memory == Memory::cuda || memory == Memory::cuda_symmetric;
}

// What is shorter stays as it is: it may have no whole page.
constexpr size_t least_adopted_bytes = 16 << 10;

// `bytes` of memory of that kind. Collective over the communicator, which must outlive it.
inline std::shared_ptr<unsigned char[]> allocate(Memory memory, tutti_comm comm, size_t bytes) {
  if (memory == Memory::adopted && bytes >= least_adopted_bytes) {
    auto* const heap = new unsigned char[bytes];
    require(tutti_mem_adopt(comm, heap, bytes), comm, "adopting memory");
    return {heap, [comm](unsigned char* p) {
              tutti_mem_release(comm, p);
              delete[] p;
            }};
  }
  if (memory != Memory::symmetric)
    return std::shared_ptr<unsigned char[]>(new unsigned char[bytes]);
  void* made = nullptr;
  require(tutti_mem_alloc(comm, bytes, &made), comm, "allocating symmetric memory");
  return {static_cast<unsigned char*>(made), [comm](void* p) { tutti_mem_free(comm, p); }};
}

class Buffers {
 public:
  Buffers(Memory memory, tutti_comm comm, size_t bytes)
      : bytes_(bytes),
        send_(allocate(memory, comm, bytes + guard)),
        recv_(allocate(memory, comm, bytes + guard)) {
    std::memset(send_.get(), 0, bytes + guard);
    std::memset(recv_.get(), poison, bytes + guard);
  }
  static constexpr size_t guard = 64;
  size_t bytes() const { return bytes_; }  // of each, without the guard
  unsigned char* send() const { return send_.get(); }
  unsigned char* recv() const { return recv_.get(); }
  void poison_output(size_t at, size_t bytes) const {
    std::memset(recv_.get() + at, poison, bytes);
  }
  // Bytes of the output that no longer hold the poison.
  size_t written(size_t at, size_t bytes) const {
    size_t written = 0;
    for (size_t i = at; i < at + bytes; ++i) written += recv_[i] != poison;
    return written;
  }
  // Bytes after the end of the output that were overwritten.
  size_t broken_guard() const { return written(bytes_, guard); }

 private:
  static constexpr unsigned char poison = 0xcb;
  size_t bytes_;
  std::shared_ptr<unsigned char[]> send_, recv_;
};

}  // namespace tutti::bench
