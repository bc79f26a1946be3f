// Two hosts: UCX watches its endpoints then, and shared memory is out of reach.
#include <sys/mount.h>

#include "tests/transports/tcp/two_hosts.h"
#include "transports/registry.h"
#include "transports/ucx/ucx.h"

namespace tutti {
namespace {

using testing::eventually;
using testing::exchange_both_ways;
using testing::mark_of;
using testing::notice_a_cut_cable;
using testing::recv_all;
using testing::run;
using testing::send_all;

// UCX finds interfaces in /sys, which shows those of the namespace in which it was mounted.
bool sees_own_interfaces() {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
}

class UcxTwoHosts : public testing::TwoHosts {
 protected:
  Status open(int rank, std::unique_ptr<Exchange>* exchange, std::unique_ptr<Link>* link) {
    if (!sees_own_interfaces()) return {TUTTI_SYSTEM, "/sys cannot be mounted"};
    // UCX takes only interfaces that have a carrier when it looks.
    const std::string up = "ip link show dev tt" + std::to_string(rank) + " | grep -q LOWER_UP";
    if (!eventually([&] { return run(up); })) return {TUTTI_SYSTEM, "the cable is not up"};
    TUTTI_TRY(meet(rank, exchange));
    const std::vector<uint8_t> peers = {uint8_t(rank == 1), uint8_t(rank == 0)};
    LinkSetup setup{exchange->get(), 900, peers, "", deadline_after_ms(20'000)};
    setup.integrity = integrity_;
    return ucx_transport.open(setup, link);
  }

  Integrity integrity_ = Integrity::none;
};

TEST_F(UcxTwoHosts, NothingGoesInClearBetweenHostsUnlessThatIsAskedFor) {
  integrity_ = Integrity::automatic;
  const int failed = on_hosts([&](int rank) -> int {
    std::unique_ptr<Exchange> exchange;
    std::unique_ptr<Link> link;
    const Status met = open(rank, &exchange, &link);
    RANK_EXPECT(met.code() == TUTTI_UNSUPPORTED, met.text());
    RANK_EXPECT(met.text().find("TUTTI_INTEGRITY=none") != std::string::npos, met.text());
    return 0;
  });
  EXPECT_EQ(failed, 0);
}

TEST_F(UcxTwoHosts, ExchangeBytesBothWays) {
  const int failed = on_hosts([&](int rank) -> int {
    std::unique_ptr<Exchange> exchange;
    std::unique_ptr<Link> link;
    const Status met = open(rank, &exchange, &link);
    RANK_EXPECT(met.ok(), met.text());
    return exchange_both_ways(rank, *link);
  });
  EXPECT_EQ(failed, 0);
}

TEST_F(UcxTwoHosts, ARankThatIsKilledWhileItSendsIsNamed) {
  const int failed = on_hosts([&](int rank) -> int {
    std::unique_ptr<Exchange> exchange;
    std::unique_ptr<Link> link;
    const Status met = open(rank, &exchange, &link);
    RANK_EXPECT(met.ok(), met.text());
    std::vector<char> bytes(size_t(4) << 20);
    const uint64_t start_ns = now_ns();
    Status ended;
    for (uint64_t epoch = 1; ended.ok(); ++epoch) {
      link->begin(mark_of(epoch));
      ended = rank == 0 ? recv_all(*link, 1, bytes.data(), bytes.size())
                        : send_all(*link, 0, bytes.data(), bytes.size());
      // As if by SIGKILL; to the test it says that all was well.
      if (rank == 1 && now_ns() - start_ns > 300'000'000u) _exit(0);
    }
    RANK_EXPECT(ended.code() == TUTTI_PEER_FAILED && ended.rank() == 1, ended.text());
    RANK_EXPECT(now_ns() - start_ns < 3'000'000'000u, std::to_string(now_ns() - start_ns));
    return 0;
  });
  EXPECT_EQ(failed, 0);
}

TEST_F(UcxTwoHosts, ACutCableIsNoticedByARankThatOnlyWaits) {
  const int failed = on_hosts([&](int rank) -> int {
    std::unique_ptr<Exchange> exchange;
    std::unique_ptr<Link> link;
    const Status met = open(rank, &exchange, &link);
    RANK_EXPECT(met.ok(), met.text());
    return notice_a_cut_cable(rank, *link);
  });
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace tutti
