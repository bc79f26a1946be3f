// Messages and bytes sent to other ranks and received from them: payload, counted once for each
// rank that gets it.
#pragma once

#include <cstdint>

namespace tutti {

struct Transfers {
  uint64_t messages_sent = 0, bytes_sent = 0;
  uint64_t messages_received = 0, bytes_received = 0;

  void sent(uint64_t messages, uint64_t bytes) {
    messages_sent += messages;
    bytes_sent += bytes;
  }
  void received(uint64_t messages, uint64_t bytes) {
    messages_received += messages;
    bytes_received += bytes;
  }
  Transfers& operator+=(const Transfers& other) {
    sent(other.messages_sent, other.bytes_sent);
    received(other.messages_received, other.bytes_received);
    return *this;
  }
};

}  // namespace tutti
