#include "trainer/common/options.h"

#include <fmt/format.h>

#include <cstdlib>
#include <sstream>

#include "trainer/common/error.h"

namespace tutti::train {

std::vector<size_t> Options::stage_layers() const {
  std::vector<size_t> counts;
  std::istringstream words(stages);
  for (std::string word; std::getline(words, word, ',');) {
    char* end = nullptr;
    const long long count = std::strtoll(word.c_str(), &end, 10);
    if (word.empty() || *end || count < 1 || count > 1 << 20)
      throw BadInput(fmt::format("--stages {}: '{}' is no number of layers", stages, word));
    counts.push_back(size_t(count));
  }
  return counts;
}

}  // namespace tutti::train
