// What programs that repeat a trial many times share: options, each a name and a value, and what
// their lines say.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

namespace tutti::testing {

struct TrialOptions {
  int trials;
  double most_p99_ms, most_ms;
  uint64_t seed = 1;
  std::vector<int> ranks{2, 4};
};

[[noreturn]] inline void refuse_option(const char* program, const std::string& what) {
  fprintf(stderr, "%s: %s\n", program, what.c_str());
  exit(2);
}

inline std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (size_t from = 0, comma; from <= text.size(); from = comma + 1) {
    comma = std::min(text.find(',', from), text.size());
    words.push_back(text.substr(from, comma - from));
  }
  return words;
}

// Those of `all` whose names are in the list, in its order; `kind`: what they are.
template <class Named, size_t n>
std::vector<Named> named_in(const std::string& list, const Named (&all)[n], const char* program,
                            const char* kind) {
  std::vector<Named> chosen;
  for (const std::string& word : split(list)) {
    const auto* const found = std::find_if(std::begin(all), std::end(all),
                                           [&](const Named& one) { return word == one.name; });
    if (found == std::end(all))
      refuse_option(program, std::string("there is no ") + kind + " " + word);
    chosen.push_back(*found);
  }
  return chosen;
}

// `own(option, value)` takes what only this program has, and what it reads in its own way; false:
// not this one.
template <class Own>
void read_options(const char* program, int argc, char** argv, int most_ranks, TrialOptions& options,
                  Own&& own) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i], value = argv[i + 1];
    if (own(option, value)) continue;
    if (option == "--trials") {
      options.trials = std::max(1, std::stoi(value));
    } else if (option == "--seed") {
      options.seed = std::stoull(value);
    } else if (option == "--ranks") {
      options.ranks.clear();
      for (const std::string& word : split(value))
        options.ranks.push_back(std::clamp(std::stoi(word), 2, most_ranks));
    } else if (option == "--most-p99-ms") {
      options.most_p99_ms = std::stod(value);
    } else if (option == "--most-ms") {
      options.most_ms = std::stod(value);
    } else {
      refuse_option(program, "there is no option " + option);
    }
  }
  if (argc % 2 == 0)
    refuse_option(program, std::string("a value is missing for ") + argv[argc - 1]);
}

inline double quantile(const std::vector<double>& sorted, double q) {
  return sorted[std::min(sorted.size() - 1, size_t(q * double(sorted.size())))];
}

}  // namespace tutti::testing
