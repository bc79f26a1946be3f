// Texts and errors of all ranks, of any length.
#pragma once

#include <string>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::train {

// Collective. Returns the texts by rank on rank 0; nothing elsewhere.
inline std::vector<std::string> gather_text(const communicator& comm, const std::string& mine) {
  std::vector<uint64_t> lengths(size_t(comm.size()));
  const uint64_t length = mine.size();
  comm.allgather<uint64_t>(std::span(&length, 1), lengths);
  const std::vector<size_t> counts(lengths.begin(), lengths.end());
  size_t total = 0;
  for (const size_t count : counts) total += count;
  std::string all(total, '\0');
  comm.allgatherv<int8_t>(std::span(reinterpret_cast<const int8_t*>(mine.data()), mine.size()),
                          std::span(reinterpret_cast<int8_t*>(all.data()), total), counts);
  std::vector<std::string> texts;
  if (comm.rank() != 0) return texts;
  size_t at = 0;
  for (const size_t count : counts) {
    texts.push_back(all.substr(at, count));
    at += count;
  }
  return texts;
}

// Collective. Returns rank 0's text on all ranks.
inline std::string told_by_first(const communicator& comm, const std::string& text) {
  uint64_t length = text.size();
  comm.broadcast<uint64_t>(std::span(&length, 1), 0);
  std::string all = comm.rank() == 0 ? text : std::string();
  all.resize(length);
  if (length > 0)
    comm.broadcast<int8_t>(std::span(reinterpret_cast<int8_t*>(all.data()), length), 0);
  return all;
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
