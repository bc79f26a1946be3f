#include "lib/comm/trials.h"

#include <algorithm>

namespace tutti {

namespace {

uint64_t hash_of_class(const CallKey& key, const Counts& counts) {
  const auto* const name = reinterpret_cast<const std::byte*>(key.algorithm.data());
  CallSignature types;  // the program's own have numbers that differ from rank to rank
  types.set_types(key.dtype, key.op);
  const uint64_t words[] = {counts.least,          counts.most,
                            uint64_t(key.root),    uint64_t(key.collective),
                            types.dtype,           types.op,
                            types.element_size,    uint64_t(key.level),
                            uint64_t(key.part_of), hash_of_bytes(name, key.algorithm.size())};
  return hash_of(words);
}

}  // namespace

const Trials::Entry* Trials::find(uint64_t hash, uint32_t ways) const {
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.of == hash && entry.ways == ways;
  });
  return known != entries_.end() ? &*known : nullptr;
}

const Trial* Trials::find(const CallKey& key, const Counts& counts, uint32_t ways) const {
  const Entry* const known = find(hash_of_class(key, counts), ways);
  return known != nullptr ? known->trial.get() : nullptr;
}

std::shared_ptr<Trial> Trials::of(const CallKey& key, const Counts& counts, uint32_t ways,
                                  uint16_t* tag) {
  const uint64_t hash = hash_of_class(key, counts);
  *tag = uint16_t(hash >> 48);
  if (const Entry* const known = find(hash, ways)) return known->trial;
  if (entries_.size() == most_trials) return nullptr;
  entries_.push_back({hash, ways, std::make_shared<Trial>(ways)});
  return entries_.back().trial;
}

}  // namespace tutti
