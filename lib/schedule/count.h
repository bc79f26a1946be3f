// What a schedule costs, counted without running it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/schedule/rational.h"
#include "lib/schedule/schedule.h"

namespace tutti::schedule {

// The costs of one rank. The unit is the rank's longer buffer; the vector may be several of them.
class Counter final : public Sink {
 public:
  explicit Counter(uint32_t buffers = 1) : buffers_(buffers) {}

  void begin(uint32_t chunks, uint32_t) override { chunks_ = chunks; }
  void step(const Step& step) override {
    const bool sends = step.kind == Kind::send;
    if (sends) {
      messages_ += step.joined ? 0 : 1;
      sent_ += step.from.size();
    }
    pieces_ += sends || step.kind == Kind::recv || step.kind == Kind::recv_reduce;
    if (step.kind != Kind::reduce) moved_ += (sends ? step.from : step.to).size();
    if (step.kind == Kind::recv_reduce || step.kind == Kind::reduce) reduced_ += step.to.size();
  }

  uint64_t messages() const { return messages_; }  // sent
  uint64_t pieces() const { return pieces_; }      // ranges of messages, sent and received
  Rational sent() const { return in_buffers(sent_); }
  Rational moved() const { return in_buffers(moved_); }  // sent, received and copied
  Rational reduced() const { return in_buffers(reduced_); }
  Rational in_buffers(uint64_t chunks) const { return {int64_t(chunks * buffers_), chunks_}; }

 private:
  uint32_t buffers_;  // how many of them the vector is
  uint32_t chunks_ = 1;
  uint64_t messages_ = 0, pieces_ = 0, sent_ = 0, moved_ = 0, reduced_ = 0;
};

// The costs of all ranks.
struct Counts {
  uint64_t messages = 0;       // of all ranks
  uint64_t most_messages = 0;  // sent by the rank that sends most of them
  Rational sent;               // by the rank that sends most, in buffers
  Rational total_sent;
  Rational reduced;  // by the rank that reduces most, in buffers

  void add(const Counter& rank) {
    messages += rank.messages();
    most_messages = std::max(most_messages, rank.messages());
    sent = std::max(sent, rank.sent());
    total_sent = total_sent + rank.sent();
    reduced = std::max(reduced, rank.reduced());
  }
};

}  // namespace tutti::schedule
