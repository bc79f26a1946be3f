// Links for tests: among threads, and calls on them that block until they have ended.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/progress/wait.h"
#include "tests/support/thread_exchange.h"
#include "transports/transport.h"

namespace tutti::testing {

inline CallMark mark_of(uint64_t epoch, uint64_t count = 1) {
  CallMark mark;
  mark.epoch = epoch;
  mark.signature.count = count;
  mark.signature.dtype = TUTTI_FLOAT32;
  mark.digest = call_digest(epoch, mark.signature);
  return mark;
}

inline Status send_all(Link& link, int peer, const void* data, size_t bytes,
                       uint64_t limit_ns = 10'000'000'000u) {
  size_t done = 0;
  return complete(
      link, Patience{100, 20}, limit_ns,
      [&] {
        const size_t n =
            link.try_send(peer, static_cast<const std::byte*>(data) + done, bytes - done);
        done += n;
        return n != 0;
      },
      [&] { return done == bytes; });
}

inline Status recv_all(Link& link, int peer, void* data, size_t bytes,
                       uint64_t limit_ns = 10'000'000'000u) {
  size_t done = 0;
  return complete(
      link, Patience{100, 20}, limit_ns,
      [&] {
        const size_t n = link.try_recv(peer, static_cast<std::byte*>(data) + done, bytes - done);
        done += n;
        return n != 0;
      },
      [&] { return done == bytes; });
}

// No rank leaves while a peer may still read its memory.
inline void leave_together(Exchange& exchange) {
  std::vector<std::string> all;
  ASSERT_TRUE(exchange.allgather("", deadline_after_ms(20'000), &all).ok());
}

// Runs body(rank, link, exchange) on threads; `open` opens the links between all pairs.
inline void on_linked_threads(
    int nranks, const std::function<Status(const LinkSetup&, std::unique_ptr<Link>*)>& open,
    const std::function<void(int, Link&, Exchange&)>& body) {
  static std::atomic<uint64_t> next_id{1};
  const uint64_t comm_id = next_id++;
  auto group = std::make_shared<ThreadExchangeGroup>(nranks);
  on_threads(nranks, [&](int rank) {
    ThreadExchange exchange(group, rank);
    std::vector<uint8_t> peers(size_t(nranks), 1);
    peers[size_t(rank)] = 0;
    const LinkSetup setup{&exchange, comm_id, peers, "", deadline_after_ms(20'000)};
    std::unique_ptr<Link> link;
    const Status opened = open(setup, &link);
    ASSERT_TRUE(opened.ok()) << opened.text();
    body(rank, *link, exchange);
  });
}

}  // namespace tutti::testing
