// Sizes as options, "4:64M" or "4,1K,10000", and as text, "64 MiB". Suffixes are binary: K = 1024.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tutti::bench {

// One size. Throws BadInput.
size_t parse_bytes(const std::string& text);

// A comma list of sizes and ranges BEGIN:END (in steps of `factor`, END always included), in bytes;
// each must be a multiple of `element`. Throws BadInput.
std::vector<size_t> parse_sizes(const std::string& text, size_t element, size_t factor = 4);

// "4 B", "1.5 KiB", "64 MiB".
std::string format_bytes(size_t bytes);

// 25557032 -> "25,557,032".
std::string format_thousands(unsigned long long value);

}  // namespace tutti::bench
