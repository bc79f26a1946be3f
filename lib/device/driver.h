// The driver of the GPUs: the functions of libcuda.so.1 that tutti uses, loaded at run time, so
// that one build runs with and without GPUs. Every failure is a Status that names the function, the
// GPU and the driver's words. All functions may be called from any thread.
//
// Calls on memory, streams and events want the GPU to be current in the thread: a Current says so.
// tutti uses the primary context of a GPU, as CUDA's runtime does.
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
  bool waits_in_streams = false;  // stream_wait() can be had
  bool flushes_remote_writes = false;
  // What a network's card wrote before a flag is seen by who waited for the flag, without a flush.
  bool orders_remote_writes = false;
};

// What CUDA's runtime calls cudaStreamLegacy is the null stream by another name.
inline bool is_null_stream(Stream stream) { return reinterpret_cast<uintptr_t>(stream) <= 1; }

// Where a pointer points.
struct Pointed {
  tutti_memory_kind kind = TUTTI_MEMORY_HOST;
  int device = -1;
  Address base = 0;  // of the allocation, of device memory
  size_t bytes = 0;  // of it
};

// An allocation for other processes: by an IPC handle or, memory made with cuMemCreate(), by a
// file descriptor that is passed on by its number in the process that owns it.
struct Exported {
  enum class Kind : uint32_t { handle, descriptor };
  Kind kind = Kind::handle;
  int32_t fd = -1;  // stays open until close_export()
  uint64_t bytes = 0;
  std::array<uint8_t, 64> handle{};
};

// A flag to be waited for: the stream goes on when the word & (flag_set | flag_over) is not 0.
using Flags = std::span<const Address>;

class Driver {
 public:
  // The process's, loaded and initialised by the first call. UNSUPPORTED, with why, where there is
  // none or no GPU.
  static Status get(Driver** out);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  int devices() const { return devices_; }
  int version() const { return version_; }  // 13000 for 13.0
  Status info(int device, Info* out);
  // The GPU that is current in this thread, -1 if none.
  int current() const;

  // Makes a GPU current in this thread for as long as it lives; what was current before comes back.
  // Meanwhile a capture that goes on elsewhere does not forbid this thread anything.
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

  // Never fails: what the driver knows nothing of is memory of the host.
  Pointed classify(const void* pointer) const;

  // Of the current GPU, aligned to 512 bytes. What is freed must not be in use. Freeing waits for
  // all that the GPU's streams hold in this process.
  Status allocate(size_t bytes, Address* out);
  void release(Address memory);
  // From now on, memory of this GPU that is released, pinned memory too, is kept for those who
  // allocate next instead of being freed: where threads are ranks on one GPU, streams of one wait
  // for what another one is about to enqueue, but would not while it waits for them.
  void keep_released_memory(int device);
  // Memory of the host that the GPU reaches.
  Status allocate_pinned(size_t bytes, void** host, Address* device);
  void release_pinned(void* host);

  // Between any two kinds of memory; the first waits until it is done.
  Status copy(void* to, const void* from, size_t bytes);
  Status copy_on(Stream stream, void* to, const void* from, size_t bytes);
  Status fill(Address to, uint8_t byte, size_t bytes);  // waits

  // `memory` begins an allocation.
  Status export_memory(Address memory, Exported* out);
  void close_export(Exported& exported);
  // Of another process, `pid`, on whatever GPU; *out is where it begins here. The current GPU
  // reaches it.
  Status import_memory(const Exported& exported, int pid, Address* out);
  void close_import(const Exported& exported, Address memory);
  // Whether `device` can reach memory of the GPU with that identity, itself included; then makes it
  // so for the two contexts of this process, if it has both. A GPU that is hidden from this process
  // counts as reached: import_memory() is UNSUPPORTED if it is not.
  Status reach(int device, const std::array<uint8_t, 16>& uuid, bool* reaches);

  // Does not wait for the null stream.
  Status make_stream(Stream* out);
  void release_stream(Stream stream);
  // 0: nothing is being captured; else a number that no other capture has.
  Status capture_of(Stream stream, uint64_t* out);
  Status make_event(Event* out);
  void release_event(Event event);
  Status record(Event event, Stream stream);
  Status wait_event(Stream stream, Event event);
  // Whether all that was before record() has ended.
  Status ended(Event event, bool* out);

  // What follows in the stream waits until all flags, at most most_ranks, let it go on.
  Status wait_flags(Stream stream, Flags flags);

  // Makes all of the words `value`, one after the other, in a stream of the driver's own for the
  // current GPU, whose priority is above all others, so that it does not queue behind a stream that
  // waits. Needs no kernel and no engine that copies; waits for nothing.
  Status write_words(std::span<const Address> words, uint32_t value);

  // Captures what follows in `stream`, and in streams that are joined with it, into a graph. What
  // the program and the tests do with graphs; the library never makes one.
  Status begin_capture(Stream stream);
  Status end_capture(Stream stream, Graph* out);  // ready to be launched
  Status launch_graph(Graph graph, Stream stream);
  void release_graph(Graph graph);

  // A kernel of kernels/list.h, "tutti_copy", for the current GPU. The first one asked for loads
  // them all: loading waits for the GPU, which later may wait for other ranks.
  Status kernel(std::string_view name, Kernel* out);
  // `arguments`: the struct that the kernel takes, copied.
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
  auto in_any_context(const Ask& ask) const;  // what a call of the driver gives in one of a GPU
  Status current_device(Device** out);
  bool free_kept(Device& device);  // whether there was anything
  Status import_handle(const Exported& exported, int pid, Address* out);
  Status import_descriptor(const Exported& exported, int pid, Address* out);
  std::unique_ptr<Functions> functions_;
  std::unique_ptr<Device[]> device_;
  int devices_ = 0;
  int version_ = 0;
};

}  // namespace tutti::device
