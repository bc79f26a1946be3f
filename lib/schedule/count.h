// What a schedule costs, counted without running it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/schedule/rational.h"
#include "lib/schedule/schedule.h"

namespace tutti::schedule {

// Of one rank. Chunks are of 1/chunks of the vector each.
class Counter final : public Sink {
 public:
  void begin(uint32_t chunks, uint32_t) override { chunks_ = chunks; }
  void step(const Step& step) override {
    if (step.kind == Kind::send) {
      ++messages_;
      sent_ += step.from.size();
    }
    if (step.kind == Kind::recv_reduce || step.kind == Kind::reduce) reduced_ += step.to.size();
  }

  uint64_t messages() const { return messages_; }              // sent
  Rational sent() const { return {int64_t(sent_), chunks_}; }  // in vectors
  Rational reduced() const { return {int64_t(reduced_), chunks_}; }

 private:
  uint32_t chunks_ = 1;
  uint64_t messages_ = 0, sent_ = 0, reduced_ = 0;
};

// Of all ranks.
struct Counts {
  uint64_t messages = 0;       // of all ranks
  uint64_t most_messages = 0;  // sent by the rank that sends most of them
  Rational sent;               // by the rank that sends most, in vectors
  Rational total_sent;
  Rational reduced;  // by the rank that reduces most, in vectors

  void add(const Counter& rank) {
    messages += rank.messages();
    most_messages = std::max(most_messages, rank.messages());
    sent = std::max(sent, rank.sent());
    total_sent = total_sent + rank.sent();
    reduced = std::max(reduced, rank.reduced());
  }
};

}  // namespace tutti::schedule
