#include "lib/config/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace tutti {
namespace {

class Config : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const VariableInfo& info : config_variables()) unsetenv(info.name);
  }
  static void set(const char* name, const char* value) { setenv(name, value, 1); }
};

TEST_F(Config, UnsetAndEmptyAreNothing) {
  std::optional<int64_t> number = 7;
  ASSERT_TRUE(config_integer(Variable::tutti_rank, &number).ok());
  EXPECT_FALSE(number);
  set("TUTTI_RANK", "");
  number = 7;
  ASSERT_TRUE(config_integer(Variable::tutti_rank, &number).ok());
  EXPECT_FALSE(number);
}

TEST_F(Config, IntegersAreReadInTheirWholeRange) {
  std::optional<int64_t> number;
  set("MASTER_PORT", "65535");
  ASSERT_TRUE(config_integer(Variable::master_port, &number).ok());
  EXPECT_EQ(number, 65535);
  set("TUTTI_RANK", "0");
  ASSERT_TRUE(config_integer(Variable::tutti_rank, &number).ok());
  EXPECT_EQ(number, 0);
}

TEST_F(Config, NonsenseIntegersAreInvalidAndTheSentenceSaysWhatIsAllowed) {
  for (const char* nonsense :
       {"0", "-1", "3x", " 3", "1e3", "0x10", "65536", "99999999999999999999"}) {
    set("MASTER_PORT", nonsense);
    std::optional<int64_t> number;
    const Status status = config_integer(Variable::master_port, &number);
    EXPECT_EQ(status.code(), TUTTI_INVALID) << nonsense;
    EXPECT_EQ(status.text(), "MASTER_PORT is '" + std::string(nonsense) +
                                 "', but must be an integer from 1 to 65535");
  }
}

TEST_F(Config, ListsComeInPartsAndUnknownWordsAreInvalid) {
  std::vector<std::string> parts;
  set("TUTTI_TRANSPORTS", "tcp,shm");
  ASSERT_TRUE(config_list(Variable::tutti_transports, &parts).ok());
  EXPECT_EQ(parts, (std::vector<std::string>{"tcp", "shm"}));
  for (const char* nonsense : {"tcp,", ",", "TCP", "tcp shm", "rdma"}) {
    set("TUTTI_TRANSPORTS", nonsense);
    const Status status = config_list(Variable::tutti_transports, &parts);
    EXPECT_EQ(status.code(), TUTTI_INVALID) << nonsense;
    EXPECT_NE(status.text().find("inproc,shm,ucx,tcp"), std::string::npos) << status.text();
  }
}

TEST_F(Config, WordsAreOneOfThoseAllowed) {
  std::optional<std::string> word;
  set("TUTTI_LEVEL", "canonical");
  ASSERT_TRUE(config_text(Variable::tutti_level, &word).ok());
  EXPECT_EQ(word, "canonical");
  for (const char* nonsense : {"fast,exact", "Fast", "default"}) {
    set("TUTTI_LEVEL", nonsense);
    const Status status = config_text(Variable::tutti_level, &word);
    EXPECT_EQ(status.code(), TUTTI_INVALID) << nonsense;
    EXPECT_EQ(status.text(), "TUTTI_LEVEL is '" + std::string(nonsense) +
                                 "', but must be one of fast,layout,canonical,exact");
  }
}

}  // namespace
}  // namespace tutti
