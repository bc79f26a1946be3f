#include "lib/comm/trials.h"

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

const Trial* Trials::find(const CallKey& key, const Counts& counts, uint32_t ways) const {
  const auto known = trials_.find(hash_with(hash_of_class(key, counts), ways));
  return known != trials_.end() ? known->second.get() : nullptr;
}

std::shared_ptr<Trial> Trials::of(const CallKey& key, const Counts& counts, uint32_t ways,
                                  bool long_calls, uint16_t* tag) {
  const uint64_t hash = hash_of_class(key, counts);
  *tag = uint16_t(hash >> 48);
  std::shared_ptr<Trial>& trial = trials_[hash_with(hash, ways)];
  if (trial == nullptr) trial = std::make_shared<Trial>(ways, long_calls);
  return trial;
}

}  // namespace tutti
