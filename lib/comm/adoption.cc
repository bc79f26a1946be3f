#include "lib/comm/adoption.h"

#include <algorithm>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/types.h"
#include "lib/comm/comm.h"
#include "lib/shared_memory/mapped_chunk.h"

namespace tutti {

namespace {

constexpr size_t least_bytes = 64 << 10;  // of a vector or a block: shorter ones go as fast without
// Ranks ask each other in each of the first calls of a length, then in one in so many: a prime, so
// that it is not always the same one of several vectors.
constexpr uint32_t first_calls = 64, call_period = 61;
constexpr size_t most_lengths = 1024, most_seen = 128;
// A program that frees vectors of a length again and again keeps its own memory.
constexpr uint32_t most_lost = 3;
constexpr size_t looks_in_a_call = 4;  // at shared vectors, whether they are still there

// The word: a bit is set in the agreement where it is on all ranks.
constexpr uint64_t wants_input = 1, reaches_input = 2, wants_output = 4, reaches_output = 8;
constexpr size_t first_shared_bit = 4, most_shared = 64 - first_shared_bit;
// That a shared vector is still there.
constexpr uint64_t bit_of(size_t shared) { return uint64_t{1} << (first_shared_bit + shared); }

// Of an allreduce that goes direct the others reach input and output, of other calls the input. Not
// where a rank may leave a call before others enter it: ranks would wait to ask each other.
bool is_adopted_from(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce_scatter ||
         collective == Collective::allgather || collective == Collective::alltoall;
}

}  // namespace

Status Adoption::after(const Call& call, uint64_t deadline_ns) {
  const CallKey& key = call.key;
  if (!is_adopted_from(key.collective) || key.lengths != 0) return {};
  if (key.count * dtype_size(key.dtype) < least_bytes) return {};
  const Seen vectors = vectors_of(call);
  const size_t bytes = vectors.input.bytes;
  auto found = lengths_.find(bytes);
  if (found == lengths_.end()) {
    if (lengths_.size() == most_lengths) return {};
    found = lengths_.emplace(bytes, Length()).first;
  }
  // What is copied aside before the call is not read where it lies.
  const bool again = come_back(vectors) && !call.input_aside;
  if (!is_time(found->second)) return {};
  const uint64_t mine = look(vectors, again);
  uint64_t agreed = 0;
  Call ask;
  // No call of the program's is the same, so that ranks which are not at one fail.
  ask.key = {.count = 1, .dtype = TUTTI_UINT64, .op = TUTTI_BAND};
  ask.key.part_of = Compound::adoption;
  ask.input = reinterpret_cast<const std::byte*>(&mine);
  ask.output = reinterpret_cast<std::byte*>(&agreed);
  ask.timeout_ms = call.timeout_ms;
  if (deadline_ns != never_ns) {
    const uint64_t now = now_ns();
    ask.timeout_ms = deadline_ns > now ? int64_t((deadline_ns - now) / 1'000'000) + 1 : 1;
  }
  if (communicator_.run(ask) != TUTTI_OK) return communicator_.last_error();
  return follow(agreed, vectors, deadline_ns);
}

void Adoption::give_back(const Call& call) {
  const Seen vectors = vectors_of(call);
  std::erase_if(shared_, [&](const Shared& one) {
    if (!one.vector.overlaps(vectors.input) && !one.vector.overlaps(vectors.output)) return false;
    regions_.remove(one.region, shared::Adopted::End::given_back);
    return true;
  });
}

Adoption::Seen Adoption::vectors_of(const Call& call) const {
  const CallKey& key = call.key;
  const size_t blocks = input_has_blocks(key.collective) ? size_t(communicator_.nranks()) : 1;
  const size_t bytes = blocks * key.count * dtype_size(key.dtype);
  const Vector input{const_cast<std::byte*>(call.input), bytes};
  const bool reaches_output = key.collective == Collective::allreduce;
  return {input, reaches_output ? Vector{call.output, bytes} : input};
}

bool Adoption::is_time(Length& length) const {
  const uint32_t call = ++length.calls;
  if (call == 1 || (length.lost >= most_lost && shared_.empty())) return false;
  return call <= first_calls || call % call_period == 0;
}

Adoption::Seen* Adoption::find(const Seen& vectors) {
  const auto found = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& one) {
    return one.input.address == vectors.input.address &&
           one.output.address == vectors.output.address && one.input.bytes == vectors.input.bytes;
  });
  return found == seen_.end() ? nullptr : &*found;
}

// Whether an earlier call had them, and they can be shared as far as is known.
bool Adoption::come_back(const Seen& vectors) {
  if (const Seen* const seen = find(vectors)) return !seen->refused;
  if (seen_.size() < most_seen) {
    seen_.push_back(vectors);
  } else {
    seen_[next_seen_] = vectors;
    next_seen_ = (next_seen_ + 1) % most_seen;
  }
  return false;
}

uint64_t Adoption::look(const Seen& vectors, bool again) {
  uint64_t word = ~uint64_t{0} << first_shared_bit;
  const bool in_place = vectors.input.address == vectors.output.address;
  const bool has_input = reaches(vectors.input), has_output = in_place || reaches(vectors.output);
  if (has_input) word |= reaches_input;
  if (has_output) word |= reaches_output;
  // Some at a time, since a look is a system call; and what lies where the vectors are now.
  bool overlap = false;
  for (size_t i = 0; i < shared_.size(); ++i) {
    const Vector& one = shared_[i].vector;
    const bool turn =
        (i + shared_.size() - next_looked_at_ % shared_.size()) % shared_.size() < looks_in_a_call;
    const bool other = (!has_input && one.overlaps(vectors.input)) ||
                       (!has_output && one.overlaps(vectors.output));
    overlap = overlap || other;
    if (other || (turn && !reaches(one))) word &= ~bit_of(i);
  }
  next_looked_at_ += looks_in_a_call;
  const bool may = again && !overlap && shared_.size() + 2 <= most_shared &&
                   lengths_[vectors.input.bytes].lost < most_lost &&
                   communicator_.what_is_in_flight().empty();
  const auto can = [&](const Vector& vector, bool has) {
    return may && !has && shared::is_mapped_chunk(vector.address, vector.bytes);
  };
  if (can(vectors.input, has_input)) word |= wants_input;
  if (can(vectors.output, has_output)) word |= wants_output;
  return word;
}

Status Adoption::follow(uint64_t agreed, const Seen& vectors, uint64_t deadline_ns) {
  for (size_t i = shared_.size(); i-- > 0;) {
    if ((agreed & bit_of(i)) == 0) forget(i);
  }
  const bool input = (agreed & wants_input) != 0, output = (agreed & wants_output) != 0;
  if (!(input || (agreed & reaches_input) != 0) || !(output || (agreed & reaches_output) != 0))
    return {};  // calls would not go direct
  bool shared = true;
  if (input) TUTTI_TRY(share(vectors.input, vectors, deadline_ns, &shared));
  if (output && shared) TUTTI_TRY(share(vectors.output, vectors, deadline_ns, &shared));
  return {};
}

// *shared: the same on all ranks.
Status Adoption::share(const Vector& vector, const Seen& vectors, uint64_t deadline_ns,
                       bool* shared) {
  Status ended = communicator_.share_in_place(vector.address, vector.bytes,
                                              shared::Adopted::End::left, deadline_ns);
  *shared = ended.ok();
  if (ended.ok()) {
    shared_.push_back({vector, regions_.last_id()});
    if (logging())
      log(TUTTI_LOG_INFO, rank_name(communicator_.rank()) + ": adopted a vector of " +
                              std::to_string(vector.bytes) + " bytes");
    return {};
  }
  // That of one rank cannot be shared, as all have been told: calls of it go as before.
  const bool refused = ended.code() == TUTTI_INVALID || ended.code() == TUTTI_UNSUPPORTED ||
                       ended.code() == TUTTI_NO_MEMORY || ended.code() == TUTTI_SYSTEM;
  if (!refused) return ended;
  if (Seen* const seen = find(vectors)) seen->refused = true;
  return {};
}

void Adoption::forget(size_t index) {
  const Shared gone = shared_[index];
  regions_.remove(gone.region, shared::Adopted::End::left);
  shared_.erase(shared_.begin() + ptrdiff_t(index));
  const auto length = lengths_.find(gone.vector.bytes);
  if (length != lengths_.end()) ++length->second.lost;
}

}  // namespace tutti
