#include "lib/control/agree.h"

#include <cstring>

#include "lib/base/printable.h"

namespace tutti {

namespace {

// How what a rank says begins: a text follows, or an opinion and a sentence.
constexpr char text_follows = '+', error_follows = '-';

// As raw bytes.
struct Opinion {
  int32_t code = TUTTI_OK;
  int32_t about = -1;  // the rank that the error names
};

std::string pack(const Status& status, std::string_view text) {
  if (status.ok()) return text_follows + std::string(text);
  const Opinion opinion{status.code(), status.rank()};
  return error_follows + std::string(reinterpret_cast<const char*>(&opinion), sizeof(opinion)) +
         status.text();
}

bool is_fine(const std::string& said) { return said.starts_with(text_follows); }

bool unpack(const std::string& said, Opinion* opinion) {
  if (!said.starts_with(error_follows) || said.size() < 1 + sizeof(*opinion)) return false;
  std::memcpy(opinion, said.data() + 1, sizeof(*opinion));
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
    if (opinion.about < 0 || next >= all.size() || is_fine(all[next])) break;
    rank = next;
  }
  return rank;
}

}  // namespace

Status agree_on(Exchange& exchange, const Status& mine, std::string_view text, uint64_t deadline_ns,
                std::vector<std::string>* all) {
  const auto self = size_t(exchange.rank());
  const bool about_another = !mine.ok() && mine.rank() >= 0 && mine.rank() != int(self);
  const Status exchanged = exchange.allgather(pack(mine, text), deadline_ns, all);
  if (!exchanged.ok()) {
    const bool found_dead = exchanged.code() == TUTTI_PEER_FAILED;
    return mine.ok() || (about_another && found_dead) ? exchanged : mine;
  }
  size_t from = self;
  for (size_t rank = 0; mine.ok() && from == self && rank < all->size(); ++rank) {
    if (!is_fine((*all)[rank])) from = rank;
  }
  from = first_cause(*all, from);
  if (from == self) {
    for (std::string& said : *all) said.erase(0, 1);
    return mine;
  }
  Opinion opinion;
  if (!unpack((*all)[from], &opinion)) {
    return {TUTTI_CORRUPT, rank_name(int(from)) + " reported something that makes no sense",
            int(from)};
  }
  return {tutti_status(opinion.code),
          rank_name(int(from)) + ": " + printable((*all)[from].substr(1 + sizeof(opinion))),
          int(from)};
}

Status agree(Exchange& exchange, const Status& mine, uint64_t deadline_ns) {
  std::vector<std::string> nothing;
  return agree_on(exchange, mine, {}, deadline_ns, &nothing);
}

}  // namespace tutti
