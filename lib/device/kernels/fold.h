// Folds over the operands: from the left, or by the tree of the canonical level; of single elements
// or of whole packets.
#pragma once

#include <cstdint>

#include "lib/device/kernels/operators.h"

namespace tutti::device {

// One element at a time.
template <class Op>
struct ElementLanes {
  using Data = typename Op::Element;
  using State = typename Op::State;
  TUTTI_ON_BOTH static State first(const Data& x) { return Op::first(x); }
  TUTTI_ON_BOTH static State next(const State& state, const Data& x) {
    return Op::combine(state, Op::first(x));
  }
  TUTTI_ON_BOTH static Data last(const State& state) { return Op::last(state); }
  TUTTI_ON_BOTH static Data divide(const Data& x, uint32_t divisor) {
    return Op::Format::divide(x, divisor);
  }
};

// By shifts, so that the elements of a packet stay in registers.
template <class Element>
TUTTI_ON_BOTH Element lane_of(const Packet& packet, uint32_t lane) {
  constexpr uint32_t size = sizeof(Element);
  if constexpr (size == packet_bytes) {
    return bits_as<Element>(packet);
  } else if constexpr (size == 8) {
    const uint64_t high = packet.word[2 * lane + 1];
    return bits_as<Element>(high << 32 | packet.word[2 * lane]);
  } else if constexpr (size == 4) {
    return bits_as<Element>(packet.word[lane]);
  } else {
    const uint32_t at = lane * size;
    return static_cast<Element>(packet.word[at / 4] >> (at % 4 * 8));
  }
}
template <class Element>
TUTTI_ON_BOTH void put_lane(Packet& packet, uint32_t lane, const Element& x) {
  constexpr uint32_t size = sizeof(Element);
  if constexpr (size == packet_bytes) {
    packet = bits_as<Packet>(x);
  } else if constexpr (size == 8) {
    const uint64_t bits = bits_as<uint64_t>(x);
    packet.word[2 * lane] = static_cast<uint32_t>(bits);
    packet.word[2 * lane + 1] = static_cast<uint32_t>(bits >> 32);
  } else if constexpr (size == 4) {
    packet.word[lane] = bits_as<uint32_t>(x);
  } else {
    constexpr uint32_t mask = (uint32_t{1} << (8 * size)) - 1;
    const uint32_t at = lane * size;
    packet.word[at / 4] |= (static_cast<uint32_t>(x) & mask) << (at % 4 * 8);
  }
}

// The operator for a packet: bitwise ones work on 32-bit words, whatever the type.
template <class Op>
struct InPackets {
  using type = Op;
};
template <class T>
struct InPackets<BitAnd<Integer<T>>> {
  using type = BitAnd<Integer<uint32_t>>;
};
template <class T>
struct InPackets<BitOr<Integer<T>>> {
  using type = BitOr<Integer<uint32_t>>;
};
template <class T>
struct InPackets<BitXor<Integer<T>>> {
  using type = BitXor<Integer<uint32_t>>;
};

template <class Operator>
struct PacketLanes {
  using Op = typename InPackets<Operator>::type;
  using Element = typename Op::Element;
  static constexpr uint32_t lanes = packet_bytes / sizeof(Element);
  using Data = Packet;
  struct State {
    typename Op::State lane[lanes];
  };
  TUTTI_ON_BOTH static State first(const Packet& x) {
    State state;
    TUTTI_UNROLL
    for (uint32_t i = 0; i < lanes; ++i) state.lane[i] = Op::first(lane_of<Element>(x, i));
    return state;
  }
  TUTTI_ON_BOTH static State next(const State& state, const Packet& x) {
    State result;
    TUTTI_UNROLL
    for (uint32_t i = 0; i < lanes; ++i) {
      result.lane[i] = Op::combine(state.lane[i], Op::first(lane_of<Element>(x, i)));
    }
    return result;
  }
  TUTTI_ON_BOTH static Packet last(const State& state) {
    Packet result{};
    TUTTI_UNROLL
    for (uint32_t i = 0; i < lanes; ++i) put_lane(result, i, Op::last(state.lane[i]));
    return result;
  }
  TUTTI_ON_BOTH static Packet divide(const Packet& x, uint32_t divisor) {
    Packet result{};
    TUTTI_UNROLL
    for (uint32_t i = 0; i < lanes; ++i) {
      put_lane(result, i, Op::Format::divide(lane_of<Element>(x, i), divisor));
    }
    return result;
  }
};

// A fold gives `width` independent results of n operands each. source.load(k, i) is operand k of
// result i; all are loaded before fold() returns. A single operand is copied.
//
// Each thread of a GPU has `batch * width` loads in flight.
struct LeftFold {
  static constexpr uint32_t batch = 4;
  template <class Lanes>
  static constexpr uint32_t width_of = Lanes::lanes > 4 ? 1 : 2;

  template <class Lanes, uint32_t width, class Source>
  TUTTI_ON_BOTH static void fold(const Source& source, uint32_t n,
                                 typename Lanes::Data (&out)[width]) {
    if (n == 1) {
      TUTTI_UNROLL
      for (uint32_t i = 0; i < width; ++i) out[i] = source.load(0, i);
      return;
    }
    typename Lanes::State state[width] = {};
    TUTTI_DO_NOT_UNROLL
    for (uint32_t begin = 0; begin < n; begin += batch) {
      typename Lanes::Data data[batch][width] = {};
      TUTTI_UNROLL
      for (uint32_t k = 0; k < batch; ++k) {
        if (begin + k >= n) continue;
        TUTTI_UNROLL
        for (uint32_t i = 0; i < width; ++i) data[k][i] = source.load(begin + k, i);
      }
      TUTTI_UNROLL
      for (uint32_t k = 0; k < batch; ++k) {
        if (begin + k >= n) continue;
        TUTTI_UNROLL
        for (uint32_t i = 0; i < width; ++i) {
          const bool first = k == 0 && begin == 0;
          state[i] = first ? Lanes::first(data[k][i]) : Lanes::next(state[i], data[k][i]);
        }
      }
    }
    TUTTI_UNROLL
    for (uint32_t i = 0; i < width; ++i) out[i] = Lanes::last(state[i]);
  }
};

// With q the largest power of two <= n and e = n - q: the first 2e operands are combined in
// adjacent pairs, which leaves q, and these by an aligned binary tree; every node is rounded to the
// type. Finished subtrees that wait for their right sibling are on a stack.
struct TreeFold {
  template <class Lanes>
  static constexpr uint32_t width_of = 1;

  // How many subtrees end with operand k.
  TUTTI_ON_BOTH static uint32_t nodes_after(uint32_t k, uint32_t pairs) {
    uint32_t nodes = 0;
    uint32_t leaf = k - pairs;
    if (k < 2 * pairs) {
      if (k % 2 == 0) return 0;
      nodes = 1;
      leaf = k / 2;
    }
    for (; leaf % 2 != 0; leaf /= 2) ++nodes;
    return nodes;
  }

  template <class Lanes, uint32_t width, class Source>
  TUTTI_ON_BOTH static void fold(const Source& source, uint32_t n,
                                 typename Lanes::Data (&out)[width]) {
    static_assert(width == 1);
    using Data = typename Lanes::Data;
    uint32_t leaves = 1;
    while (leaves * 2 <= n) leaves *= 2;
    Data waiting[8];
    uint32_t top = 0;
    Data following = source.load(0, 0);
    TUTTI_DO_NOT_UNROLL
    for (uint32_t k = 0; k < n; ++k) {
      Data done = following;
      if (k + 1 < n) following = source.load(k + 1, 0);
      uint32_t nodes = nodes_after(k, n - leaves);
      TUTTI_DO_NOT_UNROLL
      for (; nodes > 0; --nodes) {
        done = Lanes::last(Lanes::next(Lanes::first(waiting[--top]), done));
      }
      waiting[top++] = done;
    }
    out[0] = waiting[0];
  }
};

}  // namespace tutti::device
