// Rank counts on a command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

// Up to which schedules are shown and proven.
constexpr uint32_t most_ranks = 512;

// "8", "2,3,8" or "2:64", or a list of those, from 1 to `most`; each once, ascending. Refuses
// anything else with one line.
std::vector<uint32_t> parse_rank_counts(const std::string& text, uint32_t most);

// A whole number from `least` to `most` for the option `name`.
uint32_t parse_number(const std::string& name, const std::string& text, uint32_t least,
                      uint32_t most);

}  // namespace tutti
