// The executor: a resumable state machine with one cursor per lane. advance() moves as far as the
// link allows and never blocks; blocking calls, nonblocking calls and the simulation run the same
// code.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "lib/base/transfers.h"
#include "lib/plan/plan.h"
#include "lib/reduce/reduce.h"
#include "transports/transport.h"

namespace tutti::plan {

// The memory of one call. Input and output may be the same.
struct Buffers {
  std::byte* input = nullptr;  // only read, unless it is the output
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;
};

class Run {
 public:
  // Local work is cut into pieces of so many bytes, so that it does not hold up the other lane, and
  // the operands of a piece stay in cache.
  explicit Run(uint64_t piece_bytes = default_tuning.executor_piece_bytes)
      : piece_bytes_(piece_bytes) {}

  // So that runs of `plan` allocate nothing.
  void reserve(const Plan& plan) {
    if (pointers_.size() < plan.most_operands) pointers_.resize(plan.most_operands);
  }

  // `binding` and `kernels` must outlive the run.
  void start(const Binding& binding, const Buffers& buffers, const Kernels& kernels) {
    binding_ = &binding;
    plan_ = &binding.plan();
    // By Memory; input is only ever a source.
    bases_ = {buffers.input, buffers.output, buffers.scratch,
              buffers.scratch + binding.work_offset()};
    kernels_ = &kernels;
    element_size_ = binding.element_size();
    element_shift_ = binding.element_shift();
    reserve(*plan_);
    outgoing_ = {plan_->outgoing.data(), binding.outgoing(), 0, 0};
    incoming_ = {plan_->incoming.data(), binding.incoming(), 0, 0};
    outgoing_end_ = plan_->outgoing.data() + plan_->outgoing.size();
    incoming_end_ = plan_->incoming.data() + plan_->incoming.size();
  }

  bool done() const {
    return outgoing_.record == outgoing_end_ && incoming_.record == incoming_end_;
  }

  // Returns whether anything moved. A lane stops where its stream runs dry instead of polling it:
  // the caller may have something better to do.
  template <class LinkType>
  bool advance(LinkType& link) {
    if constexpr (LinkType::short_move_bytes != 0) dry_ = false;
    const bool sent = advance_outgoing(link);
    const bool received = advance_incoming(link);
    return sent || received;
  }

  // Of all runs so far; a message is counted with its first bytes.
  const Transfers& transfers() const { return transfers_; }

  // Whether a stream ran dry in the last advance().
  bool ran_dry() const { return dry_; }

  // The peer that the lane waits for, -1: none.
  int waits_to_send_to() const {
    return outgoing_.record != outgoing_end_ ? int(outgoing_.record->peer) : -1;
  }
  int waits_to_receive_from() const {
    if (incoming_.record == incoming_end_) return -1;
    const Verb verb = incoming_.record->verb;
    const bool receives = verb == Verb::recv || verb == Verb::recv_reduce;
    return receives ? int(incoming_.record->peer) : -1;
  }

 private:
  struct Cursor {
    const Record* record = nullptr;
    const BoundRecord* place = nullptr;
    uint32_t index = 0;  // records done
    uint64_t done = 0;   // bytes of this one

    void next() {
      ++record;
      ++place;
      ++index;
      done = 0;
    }
  };

  // How many of its `bytes` a record may have done, given how far the other lane is.
  static uint64_t limit(const Record& record, uint64_t bytes, const Cursor& other) {
    if (record.wait <= other.index) return bytes;
    if (record.follow != 0 && record.wait == other.index + 1) return std::min(bytes, other.done);
    return 0;
  }

  template <class LinkType>
  bool advance_outgoing(LinkType& link) {
    bool moved = false;
    while (outgoing_.record != outgoing_end_) {
      const Record& record = *outgoing_.record;
      const BoundRecord& place = *outgoing_.place;
      const uint64_t most = limit(record, place.bytes, incoming_);
      if (outgoing_.done < most) {
        const std::byte* from = bases_[size_t(record.from_memory)] + place.from + outgoing_.done;
        const uint64_t offered = most - outgoing_.done;
        const size_t sent = link.try_send(int(record.peer), from, offered);
        const bool dry = ends_stream<LinkType>(sent, offered);
        if (sent == 0) return moved;
        transfers_.sent(outgoing_.done == 0 ? place.messages : 0, sent);
        outgoing_.done += sent;
        moved = true;
        if (dry) return moved;
      } else if (most < place.bytes) {
        return moved;
      }
      if (outgoing_.done == place.bytes) outgoing_.next();
    }
    return moved;
  }

  template <class LinkType>
  bool advance_incoming(LinkType& link) {
    bool moved = false;
    while (incoming_.record != incoming_end_) {
      const Record& record = *incoming_.record;
      const BoundRecord& place = *incoming_.place;
      const uint64_t most = whole_granules(limit(record, place.bytes, outgoing_), element_size_);
      if (incoming_.done < most) {
        const uint64_t wanted = most - incoming_.done;
        const uint64_t moved_bytes = step(link, record, place, wanted);
        const bool dry = (record.verb == Verb::recv || record.verb == Verb::recv_reduce) &&
                         ends_stream<LinkType>(moved_bytes, wanted);
        if (moved_bytes == 0) return moved;
        incoming_.done += moved_bytes;
        moved = true;
        if (dry) return moved;
      } else if (most < place.bytes) {
        return moved;
      }
      if (incoming_.done == place.bytes) {
        incoming_.next();
      } else if (record.verb == Verb::copy || record.verb == Verb::reduce) {
        return moved;  // after each piece of local work the other lane gets its turn
      }
    }
    return moved;
  }

  template <class LinkType>
  bool ends_stream(uint64_t moved, uint64_t wanted) {
    if (moved >= std::min<uint64_t>(wanted, LinkType::short_move_bytes)) return false;
    dry_ = true;
    return true;
  }

  uint64_t elements_in(uint64_t bytes) const {
    return element_shift_ >= 0 ? bytes >> element_shift_ : bytes / element_size_;
  }

  template <class LinkType>
  uint64_t step(LinkType& link, const Record& record, const BoundRecord& place, uint64_t most) {
    std::byte* to = bases_[size_t(record.to_memory)] + place.to + incoming_.done;
    const int peer = int(record.peer);
    switch (record.verb) {
      case Verb::recv:
        return count_received(place, link.try_recv(peer, to, most));
      case Verb::recv_reduce: {
        // Looks without a pause between them, which would cost more than the whole transfer of the
        // message.
        auto data = link.try_peek(peer, most, element_size_);
        for (int look = 1; data.empty() && look < LinkType::looks; ++look) {
          data = link.try_peek(peer, most, element_size_);
        }
        if (data.empty()) return 0;
        const std::byte* own = bases_[size_t(record.from_memory)] + place.from + incoming_.done;
        const bool left = record.side == Side::left;
        kernels_->reduce2(to, left ? data.data() : own, left ? own : data.data(),
                          elements_in(data.size()));
        link.consume(peer, data.size());
        return count_received(place, data.size());
      }
      case Verb::copy: {
        const std::byte* from = bases_[size_t(record.from_memory)] + place.from + incoming_.done;
        if (from == to) return most;
        const uint64_t bytes = std::min(most, piece_bytes_);
        std::memcpy(to, from, bytes);
        return bytes;
      }
      case Verb::reduce:
        return reduce(record, to, most);
      case Verb::send:
        break;
    }
    return 0;
  }

  uint64_t count_received(const BoundRecord& place, uint64_t bytes) {
    transfers_.received(incoming_.done == 0 && bytes != 0 ? place.messages : 0, bytes);
    return bytes;
  }

  uint64_t reduce(const Record& record, std::byte* to, uint64_t most);

  uint64_t piece_bytes_;
  const Binding* binding_ = nullptr;
  const Plan* plan_ = nullptr;
  std::array<std::byte*, 4> bases_{};
  const Kernels* kernels_ = nullptr;
  uint32_t element_size_ = 1;
  int element_shift_ = 0;  // log2(element_size_), -1: not a power of two
  Cursor outgoing_, incoming_;
  bool dry_ = false;
  Transfers transfers_;
  const Record* outgoing_end_ = nullptr;
  const Record* incoming_end_ = nullptr;
  std::vector<const void*> pointers_;  // the operands of a reduce; grows to what its plans need
};

}  // namespace tutti::plan
