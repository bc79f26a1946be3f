// Names of hosts: how long they are looked for, and where rank 0 is where its own name means
// loopback.
#include "lib/control/address.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <unistd.h>

#include <atomic>

#include "lib/base/clock.h"
#include "lib/base/host_name.h"
#include "lib/control/bootstrap.h"
#include "lib/control/rendezvous_id.h"
#include "lib/control/socket.h"

namespace {

constexpr const char* unanswered = "unanswered.test";
constexpr const char* debians = "127.0.1.1";  // what a host's own name means by Debian's /etc/hosts
std::atomic<int> asked{0};
std::atomic<bool> answers{false};
std::atomic<bool> answered{false};

}  // namespace

// Stands before the C library's.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** result) {
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "getaddrinfo"));
  ++asked;
  const std::string name = node;
  if (name == unanswered) {
    while (!answers) usleep(1000);
    answered = true;
    return EAI_AGAIN;
  }
  return real(name == tutti::host_name() ? debians : node, service, hints, result);
}

namespace tutti {
namespace {

TEST(ResolveHost, ANumberIsNotAskedFor) {
  const int before = asked;
  Address address;
  for (const char* number : {"127.0.0.1", "::1", "192.0.2.7"}) {
    ASSERT_TRUE(resolve_host(number, 4711, deadline_after_ms(1000), &address).ok());
    EXPECT_EQ(address.host(), number);
    EXPECT_EQ(address.port(), 4711);
  }
  EXPECT_EQ(asked, before);
}

TEST(ResolveHost, ANameIsFound) {
  Address address;
  const Status found = resolve_host("localhost", 4711, deadline_after_ms(10'000), &address);
  ASSERT_TRUE(found.ok()) << found.text();
  EXPECT_TRUE(address.is_loopback());
  EXPECT_EQ(address.port(), 4711);
}

TEST(ResolveHost, AResolverThatDoesNotAnswerEndsAtTheDeadline) {
  const uint64_t start_ns = now_ns();
  Address address;
  const Status found = resolve_host(unanswered, 4711, deadline_after_ms(100), &address);
  EXPECT_EQ(found.code(), TUTTI_TIMEOUT);
  EXPECT_NE(found.text().find(unanswered), std::string::npos) << found.text();
  EXPECT_GE(now_ns() - start_ns, 100'000'000u);
  EXPECT_LT(now_ns() - start_ns, 2'000'000'000u);
  answers = true;  // its thread ends, and finds nobody there
  while (!answered) usleep(1000);
}

Address place_of(const std::string& host, const std::string& interface, Rendezvous* out) {
  Address free = Address::loopback();
  Fd listener;
  EXPECT_TRUE(listen_on(&free, &listener).ok());
  listener.reset();
  const Status opened =
      open_rendezvous_at({host, free.port(), interface}, {1}, true, deadline_after_ms(10'000), out);
  EXPECT_TRUE(opened.ok()) << opened.text();
  RendezvousId id;
  EXPECT_TRUE(RendezvousId::parse(out->id, &id).ok());
  EXPECT_EQ(id.address.port(), free.port());
  EXPECT_EQ(local_address(out->listener.get()).text(), id.address.text());
  return id.address;
}

TEST(Rank0, ListensWhereOthersReachItThoughItsNameMeansLoopbackHere) {
  if (host_name() == "localhost") GTEST_SKIP() << "this host has no name of its own";
  Address outward;
  if (!first_outward(&outward).ok() || outward.is_link_local()) {
    GTEST_SKIP() << "this host has no interface but loopback";
  }
  Rendezvous rendezvous;
  EXPECT_EQ(place_of(host_name(), "", &rendezvous).host(), outward.host());
  EXPECT_EQ(place_of(host_name(), "lo", &rendezvous).host(), "127.0.0.1");
}

TEST(Rank0, ListensOnLoopbackWhereThatIsWhatItsAddressSays) {
  Rendezvous rendezvous;
  EXPECT_TRUE(place_of("localhost", "", &rendezvous).is_loopback());
  EXPECT_EQ(place_of(debians, "", &rendezvous).host(), debians);
}

}  // namespace
}  // namespace tutti
