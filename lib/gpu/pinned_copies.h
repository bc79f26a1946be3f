// Calls on memory of a GPU that run on the host: their input is copied into pinned memory of the
// host before, their output from there after.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "lib/call/call.h"
#include "lib/device/driver.h"

namespace tutti {

// Which memory the vectors of a call are in; the union over all ranks once they have agreed.
enum Lies : uint8_t { lies_on_host = 1, lies_on_device = 2 };

// What a call reads and writes.
struct Vectors {
  const std::byte* input = nullptr;
  size_t input_bytes = 0;
  std::byte* output = nullptr;
  size_t output_bytes = 0;
  bool gaps = false;  // there may be bytes within the output that are not written
};

// Of rank `rank` of `nranks`.
Vectors vectors_of(const Call& call, uint32_t rank, uint32_t nranks);

// Memory of the host for copies of what lies on a GPU; kept for the next call.
class PinnedCopies {
 public:
  PinnedCopies(device::Driver& driver, int device) : driver_(driver), device_(device) {}
  ~PinnedCopies();
  PinnedCopies(const PinnedCopies&) = delete;
  PinnedCopies& operator=(const PinnedCopies&) = delete;

  // Whether it lies on the GPU; INVALID: on another one.
  Status look(const void* pointer, bool* on_device) const;

  // Replaces buffers on the GPU by pinned copies in `call`; stage_out() copies the output back.
  Status put(const Vectors& vectors, Call* call);
  Status stage_out();

  // Bytes to reserve for `bytes` that share memory with others.
  static size_t room_for(size_t bytes);
  // Memory for so many bytes, valid until the next call of this.
  Status memory(size_t bytes, std::byte** out);
  Status copy(void* to, const void* from, size_t bytes);

  // Asynchronous copies, which run in the order in which they were begun, each with the number 0 or
  // 1. copy_ended(): whether the last one with that number, and all before it, have ended.
  Status begin_copy(int number, void* to, const void* from, size_t bytes);
  Status copy_ended(int number, bool* out);
  // Waits until all have ended, two seconds at most.
  void settle();

 private:
  Status open_stream();

  device::Driver& driver_;
  int device_;
  device::Stream stream_ = nullptr;
  std::array<device::Event, 2> events_{};
  std::vector<void*> outgrown_;  // freeing would wait for the GPU, which may wait for other ranks
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  // What stage_out() copies.
  void* to_ = nullptr;
  const void* from_ = nullptr;
  size_t back_bytes_ = 0;
};

}  // namespace tutti
