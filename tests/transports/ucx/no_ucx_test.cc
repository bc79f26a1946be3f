// Where UCX cannot be loaded, who asks for it gets one sentence, and everybody else goes on.
#include <gtest/gtest.h>

#include "lib/control/host.h"
#include "tests/support/thread_exchange.h"
#include "transports/registry.h"
#include "transports/ucx/ucx.h"

namespace tutti {
namespace {

bool says_why(const std::string& text) {
  return text.starts_with("ucx: libucp.so.0 cannot be loaded: ") ||
         text == "ucx: this build of tutti has no UCX";
}

TEST(NoUcx, FindingItSaysWhy) {
  UcxFound found;
  for (int time = 0; time < 2; ++time) {
    const Status status = find_ucx(&found);
    EXPECT_EQ(status.code(), TUTTI_UNSUPPORTED);
    EXPECT_TRUE(says_why(status.text())) << status.text();
  }
  EXPECT_FALSE(ucx_may_use_rdma());
}

TEST(NoUcx, OpeningALinkFailsOnEveryRankAtOnce) {
  auto group = std::make_shared<testing::ThreadExchangeGroup>(3);
  const uint64_t start_ns = now_ns();
  testing::on_threads(3, [&](int rank) {
    testing::ThreadExchange exchange(group, rank);
    // Rank 2 has no peers, and waits for nobody either.
    const std::vector<uint8_t> peers = {uint8_t(rank == 1), uint8_t(rank == 0), 0};
    const LinkSetup setup{&exchange, 5, peers, "", deadline_after_ms(20'000)};
    std::unique_ptr<Link> link;
    const Status opened = ucx_transport.open(setup, &link);
    EXPECT_EQ(opened.code(), TUTTI_UNSUPPORTED) << opened.text();
    const size_t own = opened.text().find("ucx: ");
    ASSERT_NE(own, std::string::npos) << opened.text();
    EXPECT_TRUE(says_why(opened.text().substr(own))) << opened.text();
    EXPECT_EQ(link, nullptr);
  });
  EXPECT_LT(now_ns() - start_ns, 5'000'000'000u);
}

TEST(NoUcx, ACommunicatorThatIsFreeToChooseDoesWithout) {
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.setup_ms = 20'000;
  tutti_unique_id id;
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  testing::on_threads(2, [&](int rank) {
    tutti_comm comm = nullptr;
    ASSERT_EQ(tutti_comm_create_from_id(&id, rank, 2, &config, &comm), TUTTI_OK)
        << tutti_last_error();
    EXPECT_EQ(tutti_barrier(comm), TUTTI_OK);
    tutti_comm_free(comm);
  });
}

TEST(NoUcx, ACommunicatorThatMustHaveItIsRefused) {
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.transports = "ucx";
  config.setup_ms = 20'000;
  tutti_unique_id id;
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  testing::on_threads(2, [&](int rank) {
    tutti_comm comm = nullptr;
    EXPECT_EQ(tutti_comm_create_from_id(&id, rank, 2, &config, &comm), TUTTI_UNSUPPORTED);
    EXPECT_TRUE(says_why(tutti_last_error())) << tutti_last_error();
  });
}

}  // namespace
}  // namespace tutti
