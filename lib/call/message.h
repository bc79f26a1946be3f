// One half of a point-to-point exchange.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/tutti.h"

namespace tutti {

struct Message {
  static constexpr int any_rank = -2;  // the peer of a receive from any rank, until it has one

  std::byte* buffer = nullptr;
  uint64_t count = 0;  // elements
  tutti_dtype dtype = TUTTI_INT8;
  int peer = 0;
  int tag = 0;
  bool sends = false;
  int* source = nullptr;  // of a receive from any rank: where its peer is written

  bool from_any() const { return peer == any_rank; }
  static Message to_send(const void* buffer, uint64_t count, tutti_dtype dtype, int peer, int tag) {
    auto* const at = const_cast<std::byte*>(static_cast<const std::byte*>(buffer));
    return {at, count, dtype, peer, tag, true};
  }
  static Message to_receive(void* buffer, uint64_t count, tutti_dtype dtype, int peer, int tag) {
    return {static_cast<std::byte*>(buffer), count, dtype, peer, tag, false};
  }
  static Message to_receive_from_any(void* buffer, uint64_t count, tutti_dtype dtype, int tag,
                                     int* source) {
    return {static_cast<std::byte*>(buffer), count, dtype, any_rank, tag, false, source};
  }
};

}  // namespace tutti
