// Ranks in processes of their own, also on two hosts.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include "tests/transports/tcp/ranks.h"

namespace tutti::testing {

// Memory that the test's processes share.
struct Board {
  std::atomic<int> opened{0};
  std::atomic<uint64_t> killed_ns{0};
  std::atomic<int> step{0};
  tutti_unique_id id{};
};

class Shared {
 public:
  Shared()
      : board_(new (mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                         -1, 0)) Board) {}
  ~Shared() { munmap(board_, sizeof(Board)); }
  Board* operator->() const { return board_; }

 private:
  Board* board_;
};

template <class Condition>
bool eventually(const Condition& condition, int64_t limit_ms = 20'000) {
  const uint64_t deadline_ns = deadline_after_ms(limit_ms);
  while (!condition()) {
    if (now_ns() > deadline_ns) return false;
    usleep(500);
  }
  return true;
}

// Rank 0 takes the listener.
inline Status join(Rendezvous& rendezvous, int rank, int nranks,
                   std::unique_ptr<Exchange>* exchange) {
  Fd listener = rank == 0 ? std::move(rendezvous.listener) : Fd();
  return join_rendezvous(rendezvous.id, std::move(listener), rank, nranks,
                         deadline_after_ms(20'000), ns_of_ms(1500), exchange);
}
inline Status join_and_open(Rendezvous& rendezvous, int rank, int nranks,
                            std::unique_ptr<Exchange>* exchange, std::unique_ptr<Link>* link) {
  TUTTI_TRY(join(rendezvous, rank, nranks, exchange));
  return open_all(**exchange, 900, link);
}

// Ranks in processes of their own, whose exit statuses are run(rank, rendezvous).
template <class Run>
std::vector<RankProcess> fork_ranks(int nranks, Run&& run) {
  Rendezvous rendezvous;
  EXPECT_TRUE(open_rendezvous("", &rendezvous).ok());
  std::vector<RankProcess> ranks;
  ranks.reserve(size_t(nranks));
  for (int rank = 0; rank < nranks; ++rank)
    ranks.emplace_back([&, rank]() -> int { return run(rank, rendezvous); });
  return ranks;
}

inline bool run(const std::string& command) {
  return system((command + " 2>/dev/null").c_str()) == 0;
}

// Two processes in network namespaces of their own, joined by a virtual cable; the second has
// 10.199.7.2. Nothing of it outlives the processes.
class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
    if (!run("ip -V >/dev/null")) GTEST_SKIP() << "network namespaces need the program ip";
    const RankProcess probe([] { return unshare(CLONE_NEWNET) == 0 ? (pause(), 0) : 1; });
    usleep(20'000);
    if (!run("ip link add type veth help >/dev/null; test -e /proc/" + std::to_string(probe.pid()) +
             "/ns/net")) {
      GTEST_SKIP() << "no network namespace can be made here";
    }
  }

  // Runs body(rank) in both and returns their exit statuses' sum.
  int on_hosts(const std::function<int(int rank)>& body) {
    std::vector<RankProcess> hosts;
    for (int rank = 0; rank < 2; ++rank) {
      hosts.emplace_back([&, rank]() -> int {
        if (unshare(CLONE_NEWNET) != 0) return 77;
        ++shared_->opened;
        if (!eventually([&] { return shared_->step >= 1; })) return 2;
        const std::string name = "tt" + std::to_string(rank);
        if (!run("ip addr add 10.199.7." + std::to_string(rank + 1) + "/24 dev " + name +
                 " && ip link set " + name + " up && ip link set lo up")) {
          return 3;
        }
        ++shared_->step;
        if (!eventually([&] { return shared_->step >= 3; })) return 4;
        return body(rank);
      });
    }
    EXPECT_TRUE(eventually([&] { return shared_->opened == 2; }));
    if (!run("ip link add tt0 netns " + std::to_string(hosts[0].pid()) +
             " type veth peer name tt1 netns " + std::to_string(hosts[1].pid()))) {
      return -1;
    }
    shared_->step = 1;
    return hosts[0].wait() + hosts[1].wait();
  }

  Status meet(int rank, std::unique_ptr<Exchange>* exchange) {
    Rendezvous rendezvous;
    if (rank == 0) {
      TUTTI_TRY(open_rendezvous("tt0", &rendezvous));
      shared_->id = rendezvous.id;
      shared_->step = 10;
    } else if (!eventually([&] { return shared_->step == 10; })) {
      return {TUTTI_TIMEOUT, "rank 0 made no id"};
    }
    rendezvous.id = shared_->id;
    return join_rendezvous(rendezvous.id, std::move(rendezvous.listener), rank, 2,
                           deadline_after_ms(20'000), ns_of_ms(1500), exchange);
  }

  Shared shared_;
};

// What both of TwoHosts do, once they have a link: returns as RANK_EXPECT does.
inline int exchange_both_ways(int rank, Link& link) {
  std::vector<uint32_t> mine(1 << 20), theirs(1 << 20);
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = uint32_t(i * 7 + size_t(rank));
  link.begin(mark_of(1));
  size_t sent = 0, got = 0;
  const size_t bytes = mine.size() * 4;
  const Status ended = complete(
      link, Patience{100, 20}, 20'000'000'000u,
      [&] {
        const size_t s = link.try_send(
            1 - rank, reinterpret_cast<const std::byte*>(mine.data()) + sent, bytes - sent);
        const size_t g =
            link.try_recv(1 - rank, reinterpret_cast<std::byte*>(theirs.data()) + got, bytes - got);
        sent += s;
        got += g;
        return s + g != 0;
      },
      [&] { return sent == bytes && got == bytes; });
  RANK_EXPECT(ended.ok(), ended.text());
  for (size_t i = 0; i < mine.size(); ++i) {
    RANK_EXPECT(theirs[i] == uint32_t(i * 7 + size_t(1 - rank)), std::to_string(i));
  }
  return 0;
}

// Cuts the cable; who only waits finds out.
inline int notice_a_cut_cable(int rank, Link& link) {
  link.begin(mark_of(1));
  if (rank == 0) run("ip link set tt0 down");
  uint64_t word = 0;
  const uint64_t start = now_ns();
  const Status ended = recv_all(link, 1 - rank, &word, 8, 20'000'000'000u);
  RANK_EXPECT(ended.code() == TUTTI_PEER_FAILED && ended.rank() == 1 - rank, ended.text());
  RANK_EXPECT(now_ns() - start < 8'000'000'000u, std::to_string(now_ns() - start));
  return 0;
}

}  // namespace tutti::testing
