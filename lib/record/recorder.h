// Writes the flight record of this process: a file in a folder that the user or the launcher names,
// mapped, so that what was written stays when the process is killed. A call costs the stores of one
// cache line and a look at the kernel's coarse clock.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/mapping.h"
#include "lib/base/status.h"
#include "lib/record/format.h"

namespace tutti::record {

// What a communicator writes. One thread at a time.
class Recorder {
 public:
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // A call begins. Returns its sequence, for what follows.
  [[gnu::always_inline]] uint32_t enter(uint64_t call, const CallSignature& signature) {
    const uint32_t sequence = ++last_;
    Entry& entry = slot_->ring[sequence % ring_entries];
    put(entry.sequence, 0u);
    std::atomic_thread_fence(std::memory_order_release);
    entry.call = call;
    entry.signature = signature;
    entry.entered_ns = coarse_ns();
    entry.left_ns = 0;
    std::atomic_thread_fence(std::memory_order_release);
    put(entry.sequence, sequence);
    put(entry.tail, tail_of(sequence, State::entered));
    return sequence;
  }
  [[gnu::always_inline]] void leave(uint32_t sequence) {
    Entry& entry = slot_->ring[sequence % ring_entries];
    if (entry.sequence == sequence) put(entry.tail, tail_of(sequence, State::left));
  }
  // Before leave(): the call had to wait.
  void waited(uint32_t sequence);
  // How a peer is reached: the transport, and between which addresses, where it has any.
  struct Way {
    const char *link, *addresses;
  };
  // To be called again and again, but seldom, while the call waits for `peer`.
  void waits(uint32_t sequence, int peer, const Way& way, uint64_t now_ns);
  // The communicator is over. The first counts; calls that have not left have failed.
  void fail(const Status& why);

 private:
  friend Status open(const std::string& folder, const struct Made& made,
                     std::unique_ptr<Recorder>* out);
  Recorder(uint32_t index, Mapping mapping)
      : index_(index),
        mapping_(std::move(mapping)),
        slot_(reinterpret_cast<Slot*>(mapping_.base)) {}

  static uint64_t coarse_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return uint64_t(t.tv_sec) * 1'000'000'000u + uint64_t(t.tv_nsec);
  }
  static void put(uint32_t& word, uint32_t value) {
    std::atomic_ref(word).store(value, std::memory_order_relaxed);
  }

  uint32_t index_;
  Mapping mapping_;
  Slot* slot_;
  uint32_t last_ = 0;
};

// A communicator as it has been made.
struct Made {
  uint64_t id = 0;
  int rank = 0, nranks = 0;
  std::string transport;
};

// Makes the process's file in `folder` unless it is there. INVALID if that cannot be; a file that
// cannot be used, since there is no room for it, or own_folder() that cannot be had, is open()'s
// failure. A file in own_folder() is removed when the process ends in order, with all its
// communicators freed and none failed.
Status check_folder(const std::string& folder);
// A slot in it, after check_folder(). *out stays null where there is none left. Not OK: the file
// cannot grow; nothing is recorded of this communicator.
Status open(const std::string& folder, const Made& made, std::unique_ptr<Recorder>* out);

}  // namespace tutti::record
