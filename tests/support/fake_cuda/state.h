// The shared state of the fake driver. One lock guards all of it; work in streams runs without the
// lock.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fake_cuda/fake_cuda.h"

namespace fake {

using Work = std::function<void()>;
class Queue;

// The completion of a piece of work.
struct Token {
  std::shared_ptr<Queue> queue;
  uint64_t number = 0;
  bool done() const;
  void wait() const;
};

// Runs work in order, in a thread of its own.
class Queue : public std::enable_shared_from_this<Queue> {
 public:
  Queue();
  ~Queue();
  // `work` begins when the work pushed before it, and all of `after`, has ended.
  Token push(Work work, std::vector<Token> after);
  Token last() { return {shared_from_this(), pushed_}; }
  // The thread ends when all work is done.
  void close();

 private:
  friend struct Token;
  struct Shared;
  static void run(std::shared_ptr<Shared> shared);
  const std::shared_ptr<Shared> shared_;
  bool started_ = false;  // the thread: with the first work
  uint64_t pushed_ = 0;
};

struct Node {
  Work work;
  std::vector<size_t> after;
  size_t lane = 0;  // one for each stream that was captured, 0 where it began
};

struct Stream;

struct Capture {
  uint64_t id = 0;
  bool invalid = false;  // invalidated: only its end is allowed
  Stream* origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  std::vector<Node> nodes;
  std::vector<Stream*> streams;  // by lane
};

struct Context {
  int device = 0;
  bool retained = false;
  std::set<int> peers;
  std::unique_ptr<Stream> null_stream;
  std::set<Stream*> streams;
};

struct Stream {
  Context* context = nullptr;
  bool blocking = false;  // synchronises with the null stream, both ways
  std::shared_ptr<Queue> queue;
  std::shared_ptr<Capture> capture;
  size_t lane = 0;
  std::vector<size_t> ends;  // nodes that precede the next one
};

struct Event {
  Token token;
  std::shared_ptr<Capture> capture;
  std::vector<size_t> ends;
};

struct Allocation {
  enum class Kind { device, pinned, managed, registered, imported, mapped };
  Kind kind = Kind::device;
  uintptr_t base = 0;
  size_t bytes = 0;
  int device = 0;
  int fd = -1;                                // of device memory
  void* header = nullptr;                     // SharedHeader of the file
  uint32_t users = 1;                         // imported: how often it was opened
  std::vector<std::byte> handle;              // imported: by
  CUmemGenericAllocationHandle physical = 0;  // mapped
};

struct Function {
  Context* context = nullptr;
  std::string name;
};

struct Graph {
  std::vector<Node> nodes;
  size_t lanes = 1;
};
struct GraphExec {
  Graph graph;
  std::vector<std::shared_ptr<Queue>> queues;  // of lanes but the first
  Token last;
};

struct State {
  std::mutex mutex;
  bool initialised = false;
  int pid = 0;
  std::vector<std::unique_ptr<Context>> contexts;  // by GPU
  std::map<uintptr_t, Allocation> allocations;     // by address
  std::map<uintptr_t, size_t> freed;
  std::map<int, size_t> used;  // bytes, by GPU
  std::set<Event*> events;
  std::map<CUmodule, Context*> module_contexts;
  std::map<std::pair<Context*, std::string>, std::unique_ptr<Function>> functions;
  std::set<Capture*> captures;  // in progress
  uint64_t last_capture = 0;
  FakeCudaCounts counts{};
  std::map<std::string, uint64_t> calls;
};
State& state();

// The thread's stack of contexts.
std::vector<Context*>& current_contexts();
CUstreamCaptureMode& capture_mode();

// Every function of the driver begins with one and returns its error(), if any.
class Call {
 public:
  enum class Needs { nothing, driver, context };
  explicit Call(const char* name, Needs needs = Needs::context);
  CUresult error() const { return error_; }
  void unlock() { lock_.unlock(); }
  // Waits until all work in the context's streams has ended, as freeing memory does.
  void wait_for_context();

 private:
  CUresult check(const char* name, Needs needs);
  std::unique_lock<std::mutex> lock_;
  CUresult error_;
};

Context& context();  // the current one
uint64_t setting(const char* variable, uint64_t otherwise);
CUresult unsafe_while_capturing();

// null if nothing is allocated there.
Allocation* find(uintptr_t address);
// INVALID_VALUE unless the bytes are all in one allocation, or in memory unknown to the driver.
CUresult check_range(uintptr_t address, size_t bytes);
bool is_pageable(uintptr_t address);

// The stream of a handle, in the current context, or null.
Stream* stream_of(CUstream handle);
CUresult enqueue(Stream& stream, Work work);
// Whether a stream is being captured that the null stream would have to wait for.
bool blocked_by_capture(const Stream& stream);
// The work that must end before the next piece of work of the stream, besides the stream's own.
std::vector<Token> before(Stream& stream);

}  // namespace fake
