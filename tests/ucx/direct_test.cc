// Links that move bytes from where they lie to where they are wanted. What they move is memory of
// the host here: UCX finds out itself what it is.
#include <gtest/gtest.h>

#include "tests/support/links.h"
#include "transports/ucx/ucx.h"

namespace tutti {
namespace {

using testing::leave_together;
using testing::mark_of;
using testing::recv_all;
using testing::send_all;

Status open_direct(const LinkSetup& setup, std::unique_ptr<Link>* link) {
  LinkSetup direct = setup;
  direct.memory = LinkMemory::unknown;
  return open_ucx(direct, link);
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

}  // namespace
}  // namespace tutti
