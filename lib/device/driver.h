// The driver of the GPUs: the functions of libcuda.so.1 that tutti uses, loaded at run time, so
// that one build runs with and without GPUs. Every failure is a Status that names the function, the
// GPU and the driver's own error text. All functions may be called from any thread.
//
// Calls on memory, streams and events need the GPU to be current in the thread: Current makes it
// so. tutti uses the primary context of a GPU, as CUDA's runtime does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "lib/device/abi.h"
#include "tutti/tutti.h"

namespace tutti::device {

using Stream = void*;  // CUstream; null: the null stream
using Event = void*;   // CUevent
using Kernel = void*;  // CUfunction
using Graph = void*;   // CUgraphExec

struct Info {
  std::string name;
  std::array<uint8_t, 16> uuid{};  // of the GPU, the same in all processes
  size_t bytes = 0;
  int multiprocessors = 0;
  int major = 0, minor = 0;       // compute capability
  bool waits_in_streams = false;  // wait_flags() works
  bool flushes_remote_writes = false;
  // Whoever has waited for a flag sees what a network card wrote before it, without a flush.
  bool orders_remote_writes = false;
};

// CUDA's cudaStreamLegacy, 1, is another handle of the null stream.
inline Address address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
inline void* pointer_to(Address address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

inline bool is_null_stream(Stream stream) { return reinterpret_cast<uintptr_t>(stream) <= 1; }

// The memory that a pointer points to.
struct Pointed {
  tutti_memory_kind kind = TUTTI_MEMORY_HOST;
  int device = -1;
  Address base = 0;  // of the allocation, if it is device memory
  size_t bytes = 0;  // of the allocation
};

// An allocation that other processes can import: by an IPC handle or, for memory from
// cuMemCreate(), by a file descriptor, given by its number in the process that owns it.
struct Exported {
  enum class Kind : uint32_t { handle, descriptor };
  Kind kind = Kind::handle;
  int32_t fd = -1;  // stays open until close_export()
  uint64_t bytes = 0;
  std::array<uint8_t, 64> handle{};
};

// Flags to wait for: the stream goes on when each word & (flag_set | flag_over) is not 0.
using Flags = std::span<const Address>;

class Driver {
 public:
  // The process's driver, loaded and initialised by the first call. UNSUPPORTED, with why, where
  // there is no driver or no GPU.
  static Status get(Driver** out);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  int devices() const { return devices_; }
  int version() const { return version_; }  // 13000 for 13.0
  Status info(int device, Info* out);
  // The GPU that is current in this thread, -1 if none.
  int current() const;

  // Makes a GPU current in this thread during its lifetime, then restores the one before. Meanwhile
  // this thread's capture mode is relaxed: captures by other threads forbid it no call.
  class Current {
   public:
    Current(Driver& driver, int device);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    const Status& status() const { return status_; }

   private:
    Driver& driver_;
    Status status_;
    int capture_mode_ = 0;  // the thread's before
  };

  // Never fails: a pointer that the driver does not know is memory of the host.
  Pointed classify(const void* pointer) const;

  // On the current GPU, aligned to 512 bytes. Memory that is released must not be in use. Freeing
  // waits for all streams of the GPU in this process.
  Status allocate(size_t bytes, Address* out);
  void release(Address memory);
  // From now on, released memory of this GPU, pinned memory too, is kept for later allocations
  // instead of being freed. Where ranks are threads on one GPU, another rank's stream may wait for
  // work that this rank enqueues only later: a free that waits for that stream would deadlock.
  void keep_released_memory(int device);
  // Memory of the host that the GPU can access.
  Status allocate_pinned(size_t bytes, void** host, Address* device);
  void release_pinned(void* host);

  // Between any two kinds of memory; copy() waits until it is done.
  Status copy(void* to, const void* from, size_t bytes);
  Status copy_on(Stream stream, void* to, const void* from, size_t bytes);
  Status fill(Address to, uint8_t byte, size_t bytes);  // waits

  // `memory`: the beginning of an allocation.
  Status export_memory(Address memory, Exported* out);
  void close_export(Exported& exported);
  // Imports memory of process `pid`, on any GPU; *out is where it begins in this process. The
  // current GPU can access it.
  Status import_memory(const Exported& exported, int pid, Address* out);
  void close_import(const Exported& exported, Address memory);
  // Whether `device` can access memory of the GPU with that uuid, which may be its own; then
  // enables peer access between the two contexts of this process, if it has both. A GPU that is
  // hidden from this process counts as reachable: import_memory() is UNSUPPORTED if it is not.
  Status reach(int device, const std::array<uint8_t, 16>& uuid, bool* reaches);

  // A stream that does not synchronise with the null stream.
  Status make_stream(Stream* out);
  void release_stream(Stream stream);
  // 0: the stream is not being captured; else the capture's unique number.
  Status capture_of(Stream stream, uint64_t* out);
  Status make_event(Event* out);
  void release_event(Event event);
  Status record(Event event, Stream stream);
  Status wait_event(Stream stream, Event event);
  // Whether all work before record() has completed.
  Status ended(Event event, bool* out);

  // Later work in the stream waits until all flags, at most most_ranks, are set or over.
  Status wait_flags(Stream stream, Flags flags);

  // Writes `value` to the words, one after the other, in a stream of its own on the current GPU
  // with the highest priority, so that it does not queue behind a stream that waits. Needs no
  // kernel and no copy engine; waits for nothing.
  Status write_words(std::span<const Address> words, uint32_t value);

  // Captures what follows in `stream`, and in streams that are joined with it, into a graph. For
  // tests and programs; the library never makes a graph.
  Status begin_capture(Stream stream);
  Status end_capture(Stream stream, Graph* out);  // ready to be launched
  Status launch_graph(Graph graph, Stream stream);
  void release_graph(Graph graph);

  // A kernel of kernels/list.h, "tutti_copy", for the current GPU. The first call loads all
  // kernels: loading waits for the GPU, which later may be waiting for other ranks.
  Status kernel(std::string_view name, Kernel* out);
  // `arguments`: the struct that the kernel takes; it is copied.
  Status launch(Kernel kernel, uint32_t blocks, uint32_t threads, const void* arguments,
                size_t bytes, Stream stream);

 private:
  struct Functions;
  struct Device;
  Driver();
  ~Driver();
  Status load();
  Status number(int device) const;  // INVALID where there is no such GPU
  Status enter(int device);         // makes it current
  template <class Ask>
  auto in_any_context(const Ask& ask) const;  // the result of ask() with some GPU's context current
  Status current_device(Device** out);
  bool free_kept(Device& device);  // whether any memory was kept
  Status import_handle(const Exported& exported, int pid, Address* out);
  Status import_descriptor(const Exported& exported, int pid, Address* out);
  std::unique_ptr<Functions> functions_;
  std::unique_ptr<Device[]> device_;
  int devices_ = 0;
  int version_ = 0;
};

}  // namespace tutti::device
