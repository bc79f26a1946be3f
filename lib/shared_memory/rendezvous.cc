#include "lib/shared_memory/rendezvous.h"

#include <cstring>

namespace tutti::shared {

static_assert(sizeof(Rendezvous::Places) <= sizeof(slots::FlagLine::payload));

void Rendezvous::post(const Places& mine, uint32_t turn, uint32_t digest) {
  turn_ = turn;
  digest_ = digest;
  std::byte* const to = flags_.at(flags_.self(), line::places).payload;
  slots::will_write(to, sizeof(mine));
  std::memcpy(to, &mine, sizeof(mine));
  flags_.post(line::places, turn, digest);
}

Rendezvous::Places Rendezvous::of(uint32_t rank) const {
  Places places;
  const std::byte* const from = flags_.at(rank, line::places).payload;
  slots::will_read(from, sizeof(places));
  std::memcpy(&places, from, sizeof(places));
  return places;
}

Rendezvous::Outcome Rendezvous::outcome() const {
  bool mapped = true, copied = true;
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
    const Places places = of(rank);
    mapped = mapped && places.is_mapped != 0;
    copied = copied && places.is_copied != 0;
  }
  return mapped ? Outcome::mapped : copied ? Outcome::copied : Outcome::staged;
}

bool Rendezvous::one_shot() const {
  for (uint32_t rank = 0; rank < flags_.nranks(); ++rank) {
    if (of(rank).one_shot == 0) return false;
  }
  return true;
}

void Rendezvous::withdraw() { flags_.clear(line::places); }

}  // namespace tutti::shared
