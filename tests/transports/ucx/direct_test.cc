// Links that move bytes from where they lie to where they are wanted, and communicators over them.
// What they move is memory of the host here: UCX finds out itself what it is.
#include <gtest/gtest.h>

#include <cstring>

#include "algorithms/registry.h"
#include "lib/comm/comm.h"
#include "tests/support/links.h"
#include "transports/registry.h"
#include "transports/ucx/ucx.h"

namespace tutti {
namespace {

using testing::leave_together;
using testing::mark_of;
using testing::on_threads;
using testing::recv_all;
using testing::send_all;
using testing::ThreadExchange;
using testing::ThreadExchangeGroup;

Status open_direct(const LinkSetup& setup, std::unique_ptr<Link>* link) {
  LinkSetup direct = setup;
  direct.memory = LinkMemory::unknown;
  return ucx_transport.open(direct, link);
}

void on_links(int nranks, const std::function<void(int, Link&)>& body) {
  testing::on_linked_threads(nranks, open_direct, [&](int rank, Link& link, Exchange& exchange) {
    body(rank, link);
    leave_together(exchange);
  });
}

std::vector<std::byte> pattern(size_t bytes, int seed) {
  std::vector<std::byte> all(bytes);
  for (size_t i = 0; i < bytes; ++i) all[i] = std::byte(i * 7 + (i >> 11) + size_t(seed));
  return all;
}

// ---------------------------------------------------------------- links

TEST(DirectLinks, CarryMessagesOfAnyLengthInOrder) {
  on_links(2, [](int rank, Link& link) {
    uint64_t epoch = 0;
    for (const size_t bytes : {1, 3, 48, 4095, 16'385, 524'288, 524'289, 5'000'003, 8}) {
      link.begin(mark_of(++epoch, bytes));
      const std::vector<std::byte> expected = pattern(bytes, 1);
      if (rank == 0) {
        ASSERT_TRUE(send_all(link, 1, expected.data(), bytes).ok());
      } else {
        std::vector<std::byte> got(bytes);
        ASSERT_TRUE(recv_all(link, 0, got.data(), bytes).ok());
        ASSERT_EQ(got, expected) << bytes;
      }
    }
  });
}

// What is taken is where it is wanted: the sender's memory is needed no more.
TEST(DirectLinks, TakeNothingBeforeThePeerWantsIt) {
  on_links(2, [](int rank, Link& link) {
    link.begin(mark_of(1));
    std::vector<std::byte> bytes = pattern(1 << 20, 2);
    if (rank == 0) {
      const uint64_t until_ns = deadline_after_ms(50);
      while (now_ns() < until_ns) {
        ASSERT_EQ(link.try_send(1, bytes.data(), bytes.size()), 0u);
        ASSERT_TRUE(link.inspect(now_ns()).ok());
      }
      ASSERT_TRUE(send_all(link, 1, bytes.data(), bytes.size()).ok());
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      std::vector<std::byte> got(bytes.size());
      ASSERT_TRUE(recv_all(link, 0, got.data(), got.size()).ok());
      EXPECT_EQ(got, bytes);
    }
  });
}

TEST(DirectLinks, KeepAPieceUntilAllOfItIsWanted) {
  on_links(2, [](int rank, Link& link) {
    link.begin(mark_of(1));
    const std::vector<std::byte> bytes = pattern(1000, 3);
    if (rank == 0) {
      ASSERT_TRUE(send_all(link, 1, bytes.data(), bytes.size()).ok());
      return;
    }
    std::vector<std::byte> got(bytes.size());
    EXPECT_EQ(recv_all(link, 0, got.data(), 999, 50'000'000).code(), TUTTI_TIMEOUT);
    EXPECT_EQ(got, std::vector<std::byte>(1000));
    ASSERT_TRUE(recv_all(link, 0, got.data(), 1000).ok());
    EXPECT_EQ(got, bytes);
  });
}

TEST(DirectLinks, ShowNothing) {
  on_links(2, [](int rank, Link& link) {
    link.begin(mark_of(1));
    if (rank == 0) return;
    EXPECT_TRUE(link.try_peek(0, 8, 8).empty());
    EXPECT_EQ(link.inspect(now_ns()).code(), TUTTI_INTERNAL);
  });
}

TEST(DirectLinks, NameTheCallsThatDiffer) {
  on_links(2, [](int rank, Link& link) {
    link.begin(mark_of(1, rank == 0 ? 100 : 200));
    uint32_t word = 5;
    const Status ended = rank == 0 ? send_all(link, 1, &word, 4) : recv_all(link, 0, &word, 4);
    EXPECT_EQ(ended.code(), TUTTI_MISMATCH) << ended.text();
    EXPECT_NE(ended.text().find("100"), std::string::npos) << ended.text();
    EXPECT_NE(ended.text().find("200"), std::string::npos) << ended.text();
    link.abort(ended);
  });
}

// Both links go while a long message is on its way.
TEST(DirectLinks, GoWithWhatIsOnItsWay) {
  std::vector<std::byte> bytes(8 << 20), got(8 << 20);  // outlive them
  testing::on_linked_threads(2, open_direct, [&](int rank, Link& link, Exchange&) {
    link.begin(mark_of(1));
    const uint64_t until_ns = deadline_after_ms(20);
    while (now_ns() < until_ns) {
      if (rank == 0) link.try_send(1, bytes.data(), bytes.size());
      if (rank == 1) link.try_recv(0, got.data(), got.size() - 1);
    }
  });
}

// ---------------------------------------------------------------- communicators

using Body = std::function<void(uint32_t, Communicator&)>;

void on_communicators(int nranks, const Body& body) {
  auto group = std::make_shared<ThreadExchangeGroup>(nranks);
  on_threads(nranks, [&](int rank) {
    CommSettings settings;
    settings.transports = {"ucx"};
    settings.transports_named = true;
    settings.timeout_ms = 20'000;
    settings.memory = LinkMemory::unknown;
    std::unique_ptr<Communicator> comm;
    const Status made =
        Communicator::create(std::make_unique<ThreadExchange>(group, rank), settings, &comm);
    ASSERT_TRUE(made.ok()) << made.text();
    body(uint32_t(rank), *comm);
    ThreadExchange exchange(group, rank);
    leave_together(exchange);
  });
}

// Of a call of blocks: where block `chunk` of the vector lies in a buffer that has it.
size_t place_in_input(const Goal& goal, uint32_t chunk) {
  if (goal.collective() == Collective::alltoall) return chunk % goal.nranks();
  return goal.collective() == Collective::scatter ? chunk : 0;
}
size_t place_in_output(const Goal& goal, uint32_t chunk) {
  if (goal.collective() == Collective::alltoall) return chunk / goal.nranks();
  return goal.collective() == Collective::scatter || goal.blocks() == 1 ? 0 : chunk;
}

// What a rank gets of others comes; its own is left to its caller.
void expect_moves(const CallKey& key, uint32_t self, Communicator& comm) {
  const auto n = uint32_t(comm.nranks());
  const Goal goal(key.collective, n, uint32_t(key.root));
  const bool broadcast = key.collective == Collective::broadcast;
  constexpr std::byte blank{0xa5};
  std::vector<std::byte> input(n * key.count, blank), output(n * key.count, blank);
  std::vector<std::byte> expected = output;
  const auto block = [&](uint32_t from, uint32_t chunk) {
    return pattern(key.count, int(from * 31 + chunk));
  };
  for (uint32_t chunk = 0; chunk < goal.blocks(); ++chunk) {
    for (uint32_t from = 0; from < n; ++from) {
      if (!goal.has(from, chunk)) continue;
      const std::vector<std::byte> bytes = block(from, chunk);
      if (from == self) {
        std::copy(bytes.begin(), bytes.end(),
                  input.begin() + ptrdiff_t(place_in_input(goal, chunk) * key.count));
      } else if (goal.gets(self, chunk)) {
        std::copy(bytes.begin(), bytes.end(),
                  expected.begin() + ptrdiff_t(place_in_output(goal, chunk) * key.count));
      }
    }
  }
  Call call;
  call.key = key;
  call.input = input.data();
  call.output = output.data();
  if (broadcast && self == goal.root()) call.output = input.data();
  if (broadcast && self != goal.root()) call.input = output.data();
  ASSERT_EQ(comm.run_slice(call, key.count), TUTTI_OK) << comm.last_error().text();
  EXPECT_EQ(output, expected) << collective_name(key.collective) << " by " << key.algorithm;
}

TEST(DirectCommunicators, MoveWhatOthersHaveAndTouchNothingElse) {
  for (const int nranks : {2, 3, 4}) {
    on_communicators(nranks, [&](uint32_t rank, Communicator& comm) {
      for (const Algorithm& algorithm : algorithms()) {
        for (const uint64_t count : {1, 1000, 700'001}) {
          CallKey key{.count = count, .root = nranks - 1, .collective = algorithm.collective};
          key.algorithm = algorithm.name;
          if (comm.can_move(key)) expect_moves(key, rank, comm);
        }
      }
    });
  }
}

TEST(DirectCommunicators, RefuseWhatDoesMoreThanMove) {
  on_communicators(4, [](uint32_t, Communicator& comm) {
    const auto can = [&](Collective collective, const char* algorithm) {
      CallKey key{.count = 10, .collective = collective};
      key.algorithm = algorithm;
      return comm.can_move(key);
    };
    for (const Collective collective :
         {Collective::broadcast, Collective::allgather, Collective::gather, Collective::scatter,
          Collective::alltoall}) {
      EXPECT_TRUE(can(collective, "")) << collective_name(collective);
      EXPECT_FALSE(can(collective, "nonsense"));
    }
    EXPECT_TRUE(can(Collective::broadcast, "scatter-allgather"));
    EXPECT_TRUE(can(Collective::allgather, "bruck"));
    EXPECT_FALSE(can(Collective::alltoall, "bruck"));
    for (const Collective collective :
         {Collective::allreduce, Collective::barrier, Collective::reduce,
          Collective::reduce_scatter, Collective::scan, Collective::exscan}) {
      EXPECT_FALSE(can(collective, "")) << collective_name(collective);
    }
    Call call;
    call.key.count = 1;
    EXPECT_EQ(comm.run_slice(call, 1), TUTTI_UNSUPPORTED);
  });
}

}  // namespace
}  // namespace tutti
