// Texts and errors of all ranks, of any length.
#pragma once

#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::train {

inline std::span<int8_t> bytes_in(std::string& text) {
  return {reinterpret_cast<int8_t*>(text.data()), text.size()};
}

// Collective. Returns the texts by rank on rank 0; nothing elsewhere.
inline std::vector<std::string> gather_text(const communicator& comm, std::string mine) {
  std::vector<size_t> lengths(size_t(comm.size()));
  const size_t length = mine.size();
  comm.allgather<size_t>(std::span(&length, 1), lengths);
  std::string all(std::accumulate(lengths.begin(), lengths.end(), size_t(0)), '\0');
  comm.allgatherv<int8_t>(bytes_in(mine), bytes_in(all), lengths);
  std::vector<std::string> texts;
  if (comm.rank() != 0) return texts;
  for (size_t at = 0; const size_t count : lengths) {
    texts.push_back(all.substr(at, count));
    at += count;
  }
  return texts;
}

// Collective. Returns rank 0's text on all ranks.
inline std::string told_by_first(const communicator& comm, std::string text) {
  size_t length = text.size();
  comm.broadcast<size_t>(std::span(&length, 1), 0);
  text.resize(length);
  if (length > 0) comm.broadcast<int8_t>(bytes_in(text), 0);
  return text;
}

// Collective: rank 0 does the work. If that throws an E all ranks do, the others without a text, as
// rank 0 says it.
template <class E, class Work>
void on_first(const communicator& comm, Work&& work) {
  std::string wrong;
  try {
    if (comm.rank() == 0) work();
  } catch (const E& failed) {
    wrong = failed.what();
  }
  if (!told_by_first(comm, wrong).empty()) throw E(wrong);
}

}  // namespace tutti::train
