#include "adoption.h"

#include <algorithm>
#include <cstring>

#include "work.h"

namespace tutti_torch {

namespace {

// Shorter vectors go as fast without.
constexpr size_t least_bytes = 64 << 10;
// Ranks ask each other in each of the first calls of a length, which they do in one word, then in
// one call in so many: a prime, so that it is not always the same one of several buckets.
constexpr int first_calls = 64;
constexpr int call_period = 61;
// What an adopted tensor's bit stands for is its place in a word, which has one for the tensor of
// the call, too.
constexpr size_t most_shared = 63;
constexpr size_t most_seen = 128;
constexpr size_t most_lengths = 1024;

}  // namespace

Adoption::Adoption(tutti_comm comm) : comm_(comm) {
  const char* transport = nullptr;
  one_host_ = library().comm_transport(comm, &transport) == TUTTI_OK && transport != nullptr &&
              std::strcmp(transport, "shm") == 0;
}

bool Adoption::asks_in_call(size_t bytes) {
  if (calls_.size() == most_lengths && calls_.count(bytes) == 0) return false;
  const int call = ++calls_[bytes];
  return call > 1 && (call <= first_calls || call % call_period == 0);
}

Adoption::Seen* Adoption::find(const at::Tensor& tensor, size_t bytes) {
  const auto found = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& one) {
    return one.address == tensor.data_ptr() && one.bytes == bytes;
  });
  return found == seen_.end() ? nullptr : &*found;
}

// Whether an earlier call had it, and it can be shared as far as is known.
bool Adoption::comes_back(const at::Tensor& tensor, size_t bytes) {
  if (const Seen* seen = find(tensor, bytes)) return !seen->refused;
  const Seen this_one{tensor.data_ptr(), bytes, false};
  if (seen_.size() < most_seen) {
    seen_.push_back(this_one);
  } else {
    seen_[next_seen_] = this_one;
    next_seen_ = (next_seen_ + 1) % most_seen;
  }
  return false;
}

void Adoption::before_allreduce(const at::Tensor& tensor, const tutti_call_config* config) {
  const size_t bytes = tensor.numel() * tensor.element_size();
  if (!one_host_ || bytes < least_bytes) return;
  const bool again = tensor.is_contiguous() && comes_back(tensor, bytes);
  if (!asks_in_call(bytes)) return;
  // A bit of the tensor, and one of each that is shared. They are set where a rank agrees.
  uint64_t agreed = 0;
  const auto is_shared = [&](const Shared& one) {
    return one.storage.is_alias_of(tensor.storage());
  };
  // What is pinned a GPU knows by its pages.
  if (again && !tensor.is_pinned() && shared_.size() < most_shared &&
      std::none_of(shared_.begin(), shared_.end(), is_shared))
    agreed |= 1;
  for (size_t i = 0; i < shared_.size(); ++i) {
    if (shared_[i].storage.use_count() == 1) agreed |= uint64_t(2) << i;
  }
  check(
      library().allreduce_with(TUTTI_IN_PLACE, &agreed, 1, TUTTI_UINT64, TUTTI_BAND, comm_, config),
      "agreement on shared memory", comm_);
  for (size_t i = shared_.size(); i-- > 0;) {
    if ((agreed >> (i + 1) & 1) == 0) continue;
    check(library().mem_release(comm_, shared_[i].address), "memory of a tensor that is gone",
          comm_);
    shared_.erase(shared_.begin() + static_cast<ptrdiff_t>(i));
  }
  if ((agreed & 1) != 0) share(tensor, bytes);
}

void Adoption::share(const at::Tensor& tensor, size_t bytes) {
  const auto status = library().mem_adopt(comm_, tensor.data_ptr(), bytes);
  if (status == TUTTI_OK) {
    shared_.push_back({tensor.storage(), tensor.data_ptr()});
    return;
  }
  // That of one rank cannot be shared, as all have been told: calls of it go as before.
  if (status != TUTTI_INVALID && status != TUTTI_UNSUPPORTED)
    check(status, "memory of a tensor", comm_);
  if (Seen* seen = find(tensor, bytes)) seen->refused = true;
}

}  // namespace tutti_torch
