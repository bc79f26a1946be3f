// One half of a point-to-point exchange.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/tutti.h"

namespace tutti {

struct Message {
  std::byte* buffer = nullptr;
  uint64_t count = 0;  // elements
  tutti_dtype dtype = TUTTI_INT8;
  int peer = 0;
  int tag = 0;
  bool sends = false;

  static Message to_send(const void* buffer, uint64_t count, tutti_dtype dtype, int peer, int tag) {
    auto* const at = const_cast<std::byte*>(static_cast<const std::byte*>(buffer));
    return {at, count, dtype, peer, tag, true};
  }
  static Message to_receive(void* buffer, uint64_t count, tutti_dtype dtype, int peer, int tag) {
    return {static_cast<std::byte*>(buffer), count, dtype, peer, tag, false};
  }
};

}  // namespace tutti
