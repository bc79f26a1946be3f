// Live data: between two calls a program writes its next input and reads its last result. Where
// nobody does (still data), the lines of both stay in whichever cache wants them, and calls look
// faster than they are in a program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "bench/clock.h"
#include "bench/error.h"

namespace tutti::bench {

enum class Data { still, live };

inline Data data_from_name(const std::string& name) {
  if (name == "still") return Data::still;
  if (name == "live") return Data::live;
  throw BadInput("unknown data '" + name + "': allowed are still, live");
}
inline const char* data_name(Data data) { return data == Data::live ? "live" : "still"; }

inline const char* about_data(Data data) {
  return data == Data::live ? "Before each call every rank writes its input, and reads its result "
                              "afterwards, as programs do; that is not in the time."
                            : "Nobody touches the vectors between calls (--data live: as programs "
                              "do).";
}

// What a rank gives and what it gets in one call.
struct Touched {
  unsigned char* input = nullptr;
  size_t input_bytes = 0;
  const unsigned char* output = nullptr;
  size_t output_bytes = 0;
};

// Stores every byte anew, with the value that it has: the lines are then modified in a cache of
// this core, as those of a fresh input are.
inline void rewrite(unsigned char* at, size_t bytes) {
  for (; bytes >= sizeof(uint64_t); at += sizeof(uint64_t), bytes -= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    asm volatile("" : "+r"(word));  // the compiler must not see that nothing changes
    std::memcpy(at, &word, sizeof word);
  }
  for (; bytes != 0; ++at, --bytes) *static_cast<volatile unsigned char*>(at) = *at;
}

inline void read_all(const unsigned char* at, size_t bytes) {
  uint64_t sum = 0;
  for (; bytes >= sizeof(uint64_t); at += sizeof(uint64_t), bytes -= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    sum += word;
  }
  for (; bytes != 0; ++at, --bytes) sum += *at;
  asm volatile("" : : "r"(sum));  // the compiler must not see that nobody uses it
}

// The microseconds of one call by itself, between a barrier and the reading of its result. Two
// looks at the clock are in it.
template <class Barrier, class Call>
double live_call_us(const Touched& touched, Barrier&& barrier, Call&& call) {
  rewrite(touched.input, touched.input_bytes);
  barrier();
  const auto begin = Clock::now();
  call();
  const double us = us_since(begin);
  read_all(touched.output, touched.output_bytes);
  return us;
}

}  // namespace tutti::bench
