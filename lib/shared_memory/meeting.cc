#include "lib/shared_memory/meeting.h"

#include <cstring>

namespace tutti::shared {

static_assert(sizeof(Meeting::Places) <= sizeof(slots::FlagLine::payload));

void Meeting::post(const Places& mine, uint32_t turn, uint32_t digest) {
  turn_ = turn;
  digest_ = digest;
  std::byte* const to = flags_.at(flags_.self(), line::places).payload;
  slots::will_write(to, sizeof(mine));
  std::memcpy(to, &mine, sizeof(mine));
  flags_.post(line::places, turn, digest);
}

bool Meeting::all_posted() const {
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
    if (rank != flags_.self() && !posted(rank)) return false;
  }
  return true;
}

Meeting::Places Meeting::of(uint32_t rank) const {
  Places places;
  const std::byte* const from = flags_.at(rank, line::places).payload;
  slots::will_read(from, sizeof(places));
  std::memcpy(&places, from, sizeof(places));
  return places;
}

Meeting::Outcome Meeting::outcome() const {
  bool mapped = true, copied = true;
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
    const Places places = of(rank);
    mapped = mapped && places.is_mapped != 0;
    copied = copied && places.is_copied != 0;
  }
  return mapped ? Outcome::mapped : copied ? Outcome::copied : Outcome::staged;
}

void Meeting::withdraw() { flags_.clear(line::places); }

}  // namespace tutti::shared
