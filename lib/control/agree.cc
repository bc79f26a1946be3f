#include "lib/control/agree.h"

#include <cstring>

namespace tutti {

namespace {

// Before the sentence, as raw bytes; a rank without an error sends nothing.
struct Opinion {
  int32_t code = TUTTI_OK;
  int32_t about = -1;  // the rank that the error names
};

std::string pack(const Status& status) {
  if (status.ok()) return {};
  const Opinion opinion{status.code(), status.rank()};
  return std::string(reinterpret_cast<const char*>(&opinion), sizeof(opinion)) + status.text();
}

bool unpack(const std::string& text, Opinion* opinion) {
  if (text.size() < sizeof(*opinion)) return false;
  std::memcpy(opinion, text.data(), sizeof(*opinion));
  if (opinion->code <= TUTTI_IN_PROGRESS || opinion->code > TUTTI_INTERNAL) {
    opinion->code = TUTTI_INTERNAL;
  }
  return true;
}

// The rank whose error explains that of `rank`: follows the ranks that errors name.
size_t first_cause(const std::vector<std::string>& all, size_t rank) {
  Opinion opinion;
  for (size_t steps = 0; steps < all.size() && unpack(all[rank], &opinion); ++steps) {
    const auto next = size_t(opinion.about);
    if (opinion.about < 0 || next >= all.size() || all[next].empty()) break;
    rank = next;
  }
  return rank;
}

}  // namespace

Status agree(Exchange& exchange, const Status& mine, uint64_t deadline_ns) {
  const auto self = size_t(exchange.rank());
  const bool about_another = !mine.ok() && mine.rank() >= 0 && mine.rank() != int(self);
  std::vector<std::string> all;
  const Status exchanged = exchange.allgather(pack(mine), deadline_ns, &all);
  if (!exchanged.ok()) {
    const bool found_dead = exchanged.code() == TUTTI_PEER_FAILED;
    return mine.ok() || (about_another && found_dead) ? exchanged : mine;
  }
  size_t from = self;
  for (size_t rank = 0; mine.ok() && from == self && rank < all.size(); ++rank) {
    if (!all[rank].empty()) from = rank;
  }
  from = first_cause(all, from);
  if (from == self) return mine;
  Opinion opinion;
  if (!unpack(all[from], &opinion)) {
    return {TUTTI_CORRUPT, rank_name(int(from)) + " reported something that makes no sense",
            int(from)};
  }
  return {tutti_status(opinion.code),
          rank_name(int(from)) + ": " + all[from].substr(sizeof(opinion)), int(from)};
}

}  // namespace tutti
