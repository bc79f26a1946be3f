// tutti_combine_...: see CombineArguments in abi.h.
#pragma once

#include <cstdint>

#include "lib/device/abi.h"
#include "lib/device/kernels/common.h"
#include "lib/device/kernels/fold.h"

namespace tutti::device {

// In the shared memory of a block.
struct CombineScratch {
  Turn turn;
  Address from[most_ranks];
  Address to[most_ranks];  // 0: cannot be reached from here
};

// Sources for a fold: of `width` packets, and of single elements.
template <uint32_t width>
struct PacketSource {
  const Address* from;
  uint64_t offset[width];
  TUTTI_ON_BOTH Packet load(uint32_t k, uint32_t i) const {
    return device::load<Packet>(from[k] + offset[i]);
  }
};
template <class Element>
struct ElementSource {
  const Address* from;
  uint64_t offset;
  bool aligned;
  TUTTI_ON_BOTH Element load(uint32_t k, uint32_t) const {
    return aligned ? device::load<Element>(from[k] + offset)
                   : load_bytes<Element>(from[k] + offset);
  }
};

template <class Fold, class Op>
class Combine {
 public:
  TUTTI_ON_BOTH Combine(const CombineArguments& arguments, const CombineScratch& scratch)
      : from_(scratch.from),
        to_(scratch.to),
        operands_(arguments.operands),
        outputs_(arguments.outputs),
        divide_by_(arguments.divide_by) {
    Address all = 0, differences = 0;
    const auto see = [&](Address address) {
      all |= address;
      differences |= address ^ from_[0];
    };
    bool missing = false;
    for (uint32_t k = 0; k < operands_; ++k) see(from_[k]);
    for (uint32_t k = 0; k < outputs_; ++k) {
      if (to_[k] != 0) see(to_[k]);
      if (to_[k] == 0) missing = true;
    }
    if (missing && arguments.aside != 0) {
      aside_ = arguments.aside;
      see(aside_);
    }
    aligned_ = all % alignof(Element) == 0;
    const uint64_t past = (0 - from_[0]) % packet_bytes;
    divide(arguments.count, past / sizeof(Element),
           differences % packet_bytes == 0 && past % sizeof(Element) == 0);
  }

  // The part of thread `first`, of `stride` threads in all.
  TUTTI_ON_BOTH void run(uint64_t first, uint64_t stride) const {
    for (uint64_t i = first; i < packets_; i += width * stride) put_packets(i, stride);
    for (uint64_t i = first; i < head_; i += stride) put_element(i);
    for (uint64_t i = first; i < count_ - tail_; i += stride) put_element(tail_ + i);
  }

 private:
  using Element = typename Op::Element;
  using Packets = PacketLanes<Op>;
  using Elements = ElementLanes<Op>;
  static constexpr uint32_t width = Fold::template width_of<Packets>;

  // Divides the vector into elements before the first packet, packets, and elements after them.
  TUTTI_ON_BOTH void divide(uint64_t count, uint64_t to_first_packet, bool has_packets) {
    constexpr uint64_t lanes = packet_bytes / sizeof(Element);
    count_ = count;
    head_ = count;
    if (has_packets && to_first_packet < count) {
      head_ = to_first_packet;
      packets_ = (count - head_) / lanes;
    }
    tail_ = head_ + packets_ * lanes;
  }

  TUTTI_ON_BOTH void put_packets(uint64_t index, uint64_t stride) const {
    PacketSource<width> source{from_, {}};
    TUTTI_UNROLL
    for (uint32_t i = 0; i < width; ++i) {
      const uint64_t at = index + i * stride;
      // Beyond the end the first packet is loaded again, which costs nothing.
      source.offset[i] = head_ * sizeof(Element) + (at < packets_ ? at : index) * packet_bytes;
    }
    Packet out[width];
    Fold::template fold<Packets>(source, operands_, out);
    TUTTI_UNROLL
    for (uint32_t i = 0; i < width; ++i) {
      if (i != 0 && index + i * stride >= packets_) continue;
      average<Packets>(out[i]);
      each_place([&](Address to) { store(to + source.offset[i], out[i]); });
    }
  }

  TUTTI_ON_BOTH void put_element(uint64_t index) const {
    const uint64_t offset = index * sizeof(Element);
    const ElementSource<Element> source{from_, offset, aligned_};
    Element out[1];
    Fold::template fold<Elements>(source, operands_, out);
    average<Elements>(out[0]);
    each_place([&](Address to) {
      if (aligned_) {
        store(to + offset, out[0]);
      } else {
        store_bytes(to + offset, out[0]);
      }
    });
  }

  template <class Lanes>
  TUTTI_ON_BOTH void average(typename Lanes::Data& x) const {
    if constexpr (Op::divides) {
      if (divide_by_ != 0) x = Lanes::divide(x, divide_by_);
    }
  }

  template <class Put>
  TUTTI_ON_BOTH void each_place(const Put& put) const {
    for (uint32_t k = 0; k < outputs_; ++k) {
      if (to_[k] != 0) put(to_[k]);
    }
    if (aside_ != 0) put(aside_);
  }

  const Address* from_;
  const Address* to_;
  Address aside_ = 0;
  uint32_t operands_, outputs_, divide_by_;
  bool aligned_;  // all elements are aligned to their type
  uint64_t count_, head_, packets_ = 0, tail_;
};

template <class Fold, class Op>
TUTTI_ON_BOTH void combine_kernel(const CombineArguments& arguments, const Team& team,
                                  CombineScratch& scratch) {
  const Common& common = arguments.common;
  begin(common, team, scratch.turn);
  for (uint32_t k = team.thread; k < most_ranks; k += team.threads) {
    if (k < arguments.operands) scratch.from[k] = input_at(common, arguments.from[k]);
    if (k < arguments.outputs) scratch.to[k] = output_at(common, arguments.to[k]);
  }
  team.synchronise();
  if (scratch.turn.works() && arguments.operands != 0) {
    Combine<Fold, Op>(arguments, scratch).run(team.first(), team.stride());
  }
  end(common, team, scratch.turn);
}

}  // namespace tutti::device
