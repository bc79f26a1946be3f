// Deaths and networks: ranks in processes of their own.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <sys/socket.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "tests/support/refusal.h"
#include "tests/support/wrapped_exchange.h"
#include "tests/transports/tcp/two_hosts.h"

namespace tutti {
namespace {

using testing::eventually;
using testing::exchange_both_ways;
using testing::fork_ranks;
using testing::join;
using testing::join_and_open;
using testing::mark_of;
using testing::notice_a_cut_cable;
using testing::open_all;
using testing::RankProcess;
using testing::recv_all;
using testing::send_all;
using testing::Shared;

// A survivor of rank 2's death: waits for `waits_for`, which says nothing either.
int survive(Shared& shared, Rendezvous& rendezvous, int rank, int waits_for) {
  std::unique_ptr<Exchange> exchange;
  std::unique_ptr<Link> link;
  const Status opened = join_and_open(rendezvous, rank, 4, &exchange, &link);
  RANK_EXPECT(opened.ok(), opened.text());
  link->begin(mark_of(1));
  ++shared->opened;
  uint64_t word = 0;
  const Status ended = recv_all(*link, waits_for, &word, 8);
  const uint64_t found_ns = now_ns();
  RANK_EXPECT(ended.code() == TUTTI_PEER_FAILED, ended.text());
  RANK_EXPECT(ended.rank() == 2, ended.text());
  RANK_EXPECT(ended.text().find("rank 2") != std::string::npos, ended.text());
  const uint64_t took_ns = found_ns - shared->killed_ns.load();
  RANK_EXPECT(took_ns < 1'000'000'000u, std::to_string(took_ns));
  link->abort(ended);
  return 0;
}

TEST(TcpDeath, AKilledRankIsNamedByEverySurvivorWithinASecondWhoeverTheyWaitFor) {
  Shared shared;
  std::vector<RankProcess> ranks = fork_ranks(4, [&](int rank, Rendezvous& rendezvous) -> int {
    if (rank != 2) return survive(shared, rendezvous, rank, rank == 0 ? 2 : rank == 1 ? 3 : 1);
    std::unique_ptr<Exchange> exchange;
    std::unique_ptr<Link> link;
    const Status opened = join_and_open(rendezvous, rank, 4, &exchange, &link);
    RANK_EXPECT(opened.ok(), opened.text());
    link->begin(mark_of(1));
    ++shared->opened;
    for (;;) pause();
  });
  ASSERT_TRUE(eventually([&] { return shared->opened == 4; }));
  usleep(100'000);  // all sleep in their calls
  shared->killed_ns = now_ns();
  ranks[2].kill(SIGKILL);
  EXPECT_EQ(ranks[0].wait(), 0);
  EXPECT_EQ(ranks[1].wait(), 0);
  EXPECT_EQ(ranks[3].wait(), 0);
}

// Dies when it has taken part in `steps` all-gathers.
class DyingExchange final : public testing::WrappedExchange {
 public:
  DyingExchange(std::unique_ptr<Exchange> whole, int steps)
      : WrappedExchange(*whole), whole_(std::move(whole)), steps_(steps) {}
  Status allgather(std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) override {
    const Status gathered = WrappedExchange::allgather(mine, deadline_ns, all);
    if (--steps_ == 0) kill(getpid(), SIGKILL);
    return gathered;
  }

 private:
  std::unique_ptr<Exchange> whole_;
  int steps_;
};

// Opens the link that rank `dead` does not live to see.
int open_without(Rendezvous& rendezvous, int rank, int dead, int steps) {
  std::unique_ptr<Exchange> exchange;
  const Status joined = join(rendezvous, rank, 4, &exchange);
  RANK_EXPECT(joined.ok(), joined.text());
  std::unique_ptr<Link> link;
  if (rank == dead) {
    DyingExchange dying(std::move(exchange), steps);
    static_cast<void>(open_all(dying, 901, &link));
    return 1;
  }
  const uint64_t start_ns = now_ns();
  const Status opened = open_all(*exchange, 901, &link);
  const std::string name = "rank " + std::to_string(dead);
  RANK_EXPECT(opened.code() == TUTTI_PEER_FAILED, opened.text());
  RANK_EXPECT(opened.rank() == dead, opened.text());
  RANK_EXPECT(opened.text().find(name) != std::string::npos, opened.text());
  const uint64_t took_ns = now_ns() - start_ns;
  RANK_EXPECT(took_ns < 2'000'000'000u, std::to_string(took_ns));
  return 0;
}

TEST(TcpDeath, ARankThatDiesWhileConnectionsAreMadeIsNamedByEverySurvivor) {
  for (const int steps : {1, 2, 3}) {
    for (int dead = 0; dead < 4; ++dead) {
      SCOPED_TRACE("rank " + std::to_string(dead) + " dies after " + std::to_string(steps));
      std::vector<RankProcess> ranks = fork_ranks(4, [&](int rank, Rendezvous& rendezvous) -> int {
        return open_without(rendezvous, rank, dead, steps);
      });
      for (int rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(ranks[size_t(rank)].wait(), rank == dead ? -1 : 0) << "rank " << rank;
      }
    }
  }
}

// Its process's calls to other ranks fail from the first all-gather on, as behind a firewall.
class WalledExchange final : public testing::WrappedExchange {
 public:
  WalledExchange(std::unique_ptr<Exchange> whole, int error)
      : WrappedExchange(*whole), whole_(std::move(whole)), error_(error) {}
  Status allgather(std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) override {
    if (!std::exchange(walled_, true)) testing::refuse({SYS_connect, error_});
    return WrappedExchange::allgather(mine, deadline_ns, all);
  }

 private:
  std::unique_ptr<Exchange> whole_;
  int error_;
  bool walled_ = false;
};

int open_with_a_walled_rank(Rendezvous& rendezvous, int rank, int nranks, int walled, int error) {
  std::unique_ptr<Exchange> exchange;
  const Status joined = join(rendezvous, rank, nranks, &exchange);
  RANK_EXPECT(joined.ok(), joined.text());
  if (rank == walled) exchange = std::make_unique<WalledExchange>(std::move(exchange), error);
  const uint64_t start_ns = now_ns();
  std::unique_ptr<Link> link;
  const Status opened = open_all(*exchange, 902, &link);
  // Looks as if the others had gone; which of those left alone is named is then anybody's.
  const bool silent = error == ECONNREFUSED;
  RANK_EXPECT(opened.code() == (silent ? TUTTI_PEER_FAILED : TUTTI_SYSTEM), opened.text());
  const std::string name = "rank " + std::to_string(walled) + ": ";
  RANK_EXPECT(rank == walled || silent || opened.text().find(name) != std::string::npos,
              opened.text());
  RANK_EXPECT(now_ns() - start_ns < 1'000'000'000u, std::to_string(now_ns() - start_ns));
  return 0;
}

// The others wait for it to call: no connection says that it will not.
TEST(TcpSetup, ARankThatCannotCallOthersEndsAllAtOnce) {
  if (!testing::can_refuse()) GTEST_SKIP() << "no seccomp filters here";
  for (const int error : {EHOSTUNREACH, EPERM, ECONNREFUSED}) {
    for (const int nranks : {2, 4}) {
      for (int walled = 1; walled < nranks; ++walled) {
        SCOPED_TRACE("rank " + std::to_string(walled) + " of " + std::to_string(nranks) + ", " +
                     strerror(error));
        std::vector<RankProcess> ranks =
            fork_ranks(nranks, [&](int rank, Rendezvous& rendezvous) -> int {
              return open_with_a_walled_rank(rendezvous, rank, nranks, walled, error);
            });
        for (RankProcess& rank : ranks) EXPECT_EQ(rank.wait(), 0);
      }
    }
  }
}

TEST(TcpDeath, ARankThatIsKilledWhileItSendsIsNamed) {
  Shared shared;
  std::vector<RankProcess> ranks = fork_ranks(2, [&](int rank, Rendezvous& rendezvous) -> int {
    std::unique_ptr<Exchange> exchange;
    std::unique_ptr<Link> link;
    const Status opened = join_and_open(rendezvous, rank, 2, &exchange, &link);
    RANK_EXPECT(opened.ok(), opened.text());
    std::vector<char> bytes(size_t(64) << 20);
    Status ended;
    for (uint64_t epoch = 1; ended.ok(); ++epoch) {
      link->begin(mark_of(epoch));
      ++shared->opened;
      ended = rank == 0 ? recv_all(*link, 1, bytes.data(), bytes.size())
                        : send_all(*link, 0, bytes.data(), bytes.size());
    }
    RANK_EXPECT(ended.code() == TUTTI_PEER_FAILED && ended.rank() == 1 - rank, ended.text());
    return 0;
  });
  ASSERT_TRUE(eventually([&] { return shared->opened >= 6; }));
  ranks[1].kill(SIGKILL);
  EXPECT_EQ(ranks[0].wait(), 0);
}

TEST(TcpDeath, ARankThatIsOnlyStoppedForAWhileIsNotTakenForDead) {
  Shared shared;
  std::vector<RankProcess> ranks = fork_ranks(2, [&](int rank, Rendezvous& rendezvous) -> int {
    std::unique_ptr<Exchange> exchange;
    std::unique_ptr<Link> link;
    const Status opened = join_and_open(rendezvous, rank, 2, &exchange, &link);
    RANK_EXPECT(opened.ok(), opened.text());
    std::vector<char> bytes(size_t(16) << 20);
    for (uint64_t epoch = 1; epoch == 1 || shared->step == 0; ++epoch) {
      link->begin(mark_of(epoch));
      ++shared->opened;
      const Status ended = rank == 0 ? send_all(*link, 1, bytes.data(), bytes.size())
                                     : recv_all(*link, 0, bytes.data(), bytes.size());
      // Rank 0 may see the end of the test first and leave.
      if (!ended.ok() && shared->step == 1) return 0;
      RANK_EXPECT(ended.ok(), ended.text());
    }
    return 0;
  });
  ASSERT_TRUE(eventually([&] { return shared->opened >= 4; }));
  ranks[1].kill(SIGSTOP);
  usleep(1'500'000);
  ranks[1].kill(SIGCONT);
  usleep(100'000);
  shared->step = 1;
  EXPECT_EQ(ranks[0].wait(), 0);
  EXPECT_EQ(ranks[1].wait(), 0);
}

// ---------------------------------------------------------------- two hosts

class TwoHosts : public testing::TwoHosts {
 protected:
  Status meet(int rank, std::unique_ptr<Exchange>* exchange, std::unique_ptr<Link>* link) {
    TUTTI_TRY(testing::TwoHosts::meet(rank, exchange));
    return open_all(**exchange, 900, link);
  }
};

TEST_F(TwoHosts, ExchangeBytesBothWays) {
  const int failed = on_hosts([&](int rank) -> int {
    std::unique_ptr<Exchange> exchange;
    std::unique_ptr<Link> link;
    const Status met = meet(rank, &exchange, &link);
    RANK_EXPECT(met.ok(), met.text());
    RANK_EXPECT(exchange->local_address() == "10.199.7." + std::to_string(rank + 1),
                exchange->local_address());
    RANK_EXPECT(link->integrity_to(1 - rank) == Integrity::encrypted,
                std::string(name_of(link->integrity_to(1 - rank))));
    return exchange_both_ways(rank, *link);
  });
  EXPECT_EQ(failed, 0);
}

// All packets that a host's interfaces have received.
class Packets {
 public:
  Packets() : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL))) {
    const int bytes = 4 << 20;
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
  }
  bool contain(const std::string& text) const {
    std::vector<char> packet(1 << 17);
    for (;;) {
      const ssize_t got = ::recv(socket_.get(), packet.data(), packet.size(), 0);
      if (got <= 0) return false;
      if (std::string_view(packet.data(), size_t(got)).find(text) != std::string_view::npos)
        return true;
    }
  }

 private:
  Fd socket_;
};

TEST_F(TwoHosts, WhoReadsWhatGoesBetweenHostsFindsNothingInClear) {
  const int failed = on_hosts([&](int rank) -> int {
    std::unique_ptr<Exchange> exchange;
    const Status met = testing::TwoHosts::meet(rank, &exchange);
    RANK_EXPECT(met.ok(), met.text());
    for (const Integrity integrity : {Integrity::automatic, Integrity::none}) {
      const Packets packets;
      std::unique_ptr<Link> link;
      const std::vector<uint8_t> peers = {uint8_t(rank == 1), uint8_t(rank == 0)};
      LinkSetup setup{exchange.get(), 901, peers, "", deadline_after_ms(20'000)};
      setup.integrity = integrity;
      const Status opened = tcp_transport.open(setup, &link);
      RANK_EXPECT(opened.ok(), opened.text());
      link->begin(mark_of(1));
      std::string secret = "what only the two ranks may know";
      Status ended =
          rank == 0 ? testing::send_all(*link, 1, secret.data(), secret.size()) : Status();
      std::string got(secret.size(), '\0');
      if (rank == 1) ended = recv_all(*link, 0, got.data(), got.size());
      RANK_EXPECT(ended.ok(), ended.text());
      RANK_EXPECT(rank == 0 || got == secret, got);
      RANK_EXPECT(packets.contain(secret) == (integrity == Integrity::none),
                  std::string(name_of(integrity)));
      std::vector<std::string> all;
      RANK_EXPECT(exchange->allgather("", deadline_after_ms(20'000), &all).ok(), met.text());
    }
    return 0;
  });
  EXPECT_EQ(failed, 0);
}

// The first host's own name means 127.0.1.1 there, as Debian's /etc/hosts has it, and its address
// elsewhere.
TEST_F(TwoHosts, Rank0IsFoundByItsNameThoughThatMeansLoopbackThere) {
  const std::string key_file = ::testing::TempDir() + "key" + std::to_string(getpid());
  ASSERT_TRUE(testing::run("umask 077; head -c 32 /dev/urandom > " + key_file));
  const int failed = on_hosts([&](int rank) -> int {
    const std::string hosts = key_file + ".hosts" + std::to_string(rank);
    const std::string address = rank == 0 ? "127.0.1.1" : "10.199.7.1";
    if (unshare(CLONE_NEWNS | CLONE_NEWUTS) != 0) return 1;
    RANK_EXPECT(testing::run("mount --make-rprivate / && hostname tutti-host-" +
                             std::to_string(rank) + " && echo '" + address + " tutti-host-0' > " +
                             hosts + " && mount --bind " + hosts + " /etc/hosts"),
                hosts);
    std::unique_ptr<Exchange> exchange;
    const Status joined = join_rendezvous_at({"tutti-host-0", 29517, ""}, key_file, rank, 2,
                                             deadline_after_ms(5'000), ns_of_ms(1500), &exchange);
    RANK_EXPECT(joined.ok(), joined.text());
    const std::string own = "10.199.7." + std::to_string(rank + 1);
    RANK_EXPECT(exchange->local_address() == own, exchange->local_address());
    return 0;
  });
  EXPECT_EQ(failed, 0);
  testing::run("rm -f " + key_file + "*");
}

TEST_F(TwoHosts, ACutCableIsNoticedByARankThatOnlyWaits) {
  const int failed = on_hosts([&](int rank) -> int {
    std::unique_ptr<Exchange> exchange;
    std::unique_ptr<Link> link;
    const Status met = meet(rank, &exchange, &link);
    RANK_EXPECT(met.ok(), met.text());
    return notice_a_cut_cable(rank, *link);
  });
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace tutti
