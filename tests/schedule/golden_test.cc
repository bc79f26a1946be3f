// The schedules of small rank counts as files, so that a change of an algorithm is read in review.
// To write them anew: GOLDEN_UPDATE=1 and run this test.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "algorithms/registry.h"
#include "lib/schedule/text.h"
#include "tests/schedule/support.h"

namespace tutti::schedule {
namespace {

// Several collectives have an algorithm of the same name.
std::string collective_prefix(const Algorithm& algorithm) {
  if (algorithm.collective == Collective::allreduce) return "";
  return std::string(collective_name(algorithm.collective)) + "-";
}

std::string path_of(const Algorithm& algorithm, uint32_t nranks) {
  return std::string(GOLDEN_FOLDER) + "/" + collective_prefix(algorithm) + algorithm.name + "-p" +
         std::to_string(nranks) + ".txt";
}

TEST(Golden, SchedulesAreWhatTheFilesSay) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const uint32_t nranks : {2u, 3u, 4u, 6u}) {
      const std::string path = path_of(algorithm, nranks);
      const std::string text = print(programs_of(algorithm, nranks));
      if (std::getenv("GOLDEN_UPDATE") != nullptr) std::ofstream(path) << text;
      std::ifstream file(path);
      ASSERT_TRUE(file) << path;
      std::stringstream golden;
      golden << file.rdbuf();
      EXPECT_EQ(golden.str(), text) << path;
    }
  }
}

}  // namespace
}  // namespace tutti::schedule
