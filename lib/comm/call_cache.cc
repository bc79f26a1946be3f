#include "lib/comm/call_cache.h"

#include <algorithm>
#include <atomic>

namespace tutti {

namespace {

// Whether the cache is its only owner. Another owner may have released it on another thread: the
// fence makes visible what that thread did before.
bool is_free(const CallCache::Entry& entry) {
  if (entry.use_count() != 1) return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  return true;
}

}  // namespace

const CallCache::Entry* CallCache::find_alike(Set& set, const CallKey& key) {
  if (set.last == nullptr) return nullptr;
  if (set.last->serves(key) && is_free(set.last)) {
    set.last->set_size(key.count, key.lengths);
    return &set.last;
  }
  const auto other = std::find_if(set.others.begin(), set.others.end(), [&](const Entry& entry) {
    return entry->key == key || (entry->serves(key) && is_free(entry));
  });
  if (other == set.others.end()) return nullptr;
  std::swap(set.last, *other);
  if (!(set.last->key == key)) set.last->set_size(key.count, key.lengths);
  return &set.last;
}

const CallCache::Entry* CallCache::add(Entry made) {
  Set& set = sets_[set_of(made->key)];
  std::swap(set.last, made);
  if (made == nullptr) return &set.last;
  if (set.others.size() == most_others) {
    set.others.front() = std::move(made);  // the replaced one lives as long as its other owners
    std::rotate(set.others.begin(), set.others.begin() + 1, set.others.end());
  } else {
    set.others.push_back(std::move(made));
  }
  return &set.last;
}

}  // namespace tutti
