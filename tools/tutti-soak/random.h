// Numbers that follow from a seed, the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::soak {

// SplitMix64's finaliser.
inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Mixes several numbers into one; their order matters.
template <class... More>
uint64_t mix(uint64_t first, uint64_t second, More... more) {
  const uint64_t both = mix(mix(first) ^ (second + 0x632be59bd9b4e019u));
  if constexpr (sizeof...(more) == 0) {
    return both;
  } else {
    return mix(both, uint64_t(more)...);
  }
}

class Random {
 public:
  explicit Random(uint64_t seed) : key_(mix(seed)) {}
  uint64_t next() { return mix(key_ + ++drawn_); }
  uint64_t below(uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  // True with the probability of_thousand / 1000.
  bool chance(uint64_t of_thousand) { return below(1000) < of_thousand; }
  // One of an array or a vector.
  template <class Choices>
  const auto& pick(const Choices& choices) {
    return choices[below(std::size(choices))];
  }

 private:
  uint64_t key_, drawn_ = 0;
};

}  // namespace tutti::soak
