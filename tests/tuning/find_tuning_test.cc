// Where the table is looked for.
#include "lib/config/find_tuning.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "lib/base/log.h"
#include "lib/tuning/file.h"

namespace tutti {
namespace {

class FindTuning : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "find_tuning." + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    unsetenv("TUTTI_TUNING");
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    set_log(nullptr, nullptr);
    std::filesystem::remove_all(folder_);
  }
  // A table that is told by its spins.
  static void write(const std::string& path, int spins) {
    TuningTable table;
    table.set(Field::spins, spins, Origin::measured);
    ASSERT_TRUE(write_tuning(table, path).ok());
  }
  static uint32_t found() {
    TuningTable table;
    const Status read = find_tuning(&table);
    EXPECT_TRUE(read.ok()) << read.text();
    return table.values().spins;
  }
  std::string folder_;
};

TEST_F(FindTuning, TakesTheDefaultsWhereThereIsNoTable) {
  EXPECT_EQ(found(), default_tuning.spins);
}

TEST_F(FindTuning, TakesTheOneInTheCacheFolder) {
  EXPECT_EQ(own_tuning_path().find(folder_ + "/tutti/tuning-"), 0u);
  write(own_tuning_path(), 71);
  EXPECT_EQ(found(), 71u);
}

TEST_F(FindTuning, TakesTheOneThatIsNamedFirst) {
  write(own_tuning_path(), 71);
  write(folder_ + "/mine.json", 72);
  setenv("TUTTI_TUNING", (folder_ + "/mine.json").c_str(), 1);
  EXPECT_EQ(found(), 72u);
  setenv("TUTTI_TUNING", "none", 1);
  EXPECT_EQ(found(), default_tuning.spins);
}

TEST_F(FindTuning, TakesTheDefaultsWhereCommunicatorsMeasure) {
  write(own_tuning_path(), 71);
  TuningTable table;
  for (const bool measures : {true, false}) {
    setenv("TUTTI_TUNING", measures ? "measure" : "none", 1);
    EXPECT_TRUE(find_tuning(&table).ok());
    EXPECT_EQ(table.measures, measures);
    EXPECT_EQ(table.values().spins, default_tuning.spins);
    EXPECT_EQ(table.name(), "default");
  }
  unsetenv("TUTTI_TUNING");
  EXPECT_TRUE(find_tuning(&table).ok());
  EXPECT_FALSE(table.measures);
}

TEST_F(FindTuning, RefusesWhatIsNoTable) {
  TuningTable table;
  setenv("TUTTI_TUNING", (folder_ + "/missing.json").c_str(), 1);
  EXPECT_EQ(find_tuning(&table).code(), TUTTI_INVALID);
  unsetenv("TUTTI_TUNING");
  std::filesystem::create_directories(folder_ + "/tutti");
  std::ofstream(own_tuning_path()) << "{\"tutti_tuning\": 1,\n\"set\": {\"nothing\": 1}}";
  const Status refused = find_tuning(&table);
  EXPECT_EQ(refused.code(), TUTTI_INVALID);
  EXPECT_EQ(refused.text(), own_tuning_path() + ", line 2: there is no field \"nothing\"");
}

TEST_F(FindTuning, PassesOverAFoundTableOfAnotherVersionAndSaysSo) {
  std::filesystem::create_directories(folder_ + "/tutti");
  std::ofstream(own_tuning_path()) << "{\"tutti_tuning\": 99,\n\"fields\": {}}";
  std::vector<std::string> said;
  set_log([](tutti_log_level, const char* text,
             void* to) { static_cast<std::vector<std::string>*>(to)->push_back(text); },
          &said);
  EXPECT_EQ(found(), default_tuning.spins);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("another version"), std::string::npos);
  setenv("TUTTI_TUNING", own_tuning_path().c_str(), 1);
  TuningTable table;
  EXPECT_EQ(find_tuning(&table).code(), TUTTI_INVALID) << "one that is named is not passed over";
}

TEST_F(FindTuning, NeedsAnAbsolutePath) {
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", "/somewhere", 1);
  EXPECT_EQ(own_tuning_path().find("/somewhere/.cache/tutti/"), 0u);
  setenv("HOME", "relative", 1);
  EXPECT_EQ(own_tuning_path(), "");
}

}  // namespace
}  // namespace tutti
