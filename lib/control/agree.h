// One outcome for all: after a step that can fail on some ranks only.
#pragma once

#include <charconv>

#include "lib/control/exchange.h"

namespace tutti {

// Collective. OK when `mine` is OK on every rank; else, on every rank, the error of the lowest rank
// that has one (a rank's own error stays its own).
inline Status agree(Exchange& exchange, const Status& mine, uint64_t deadline_ns) {
  std::string text;
  if (!mine.ok()) text = std::to_string(int(mine.code())) + ' ' + mine.text();
  std::vector<std::string> all;
  const Status exchanged = exchange.allgather(text, deadline_ns, &all);
  if (!mine.ok()) return mine;
  TUTTI_TRY(exchanged);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    int code = TUTTI_INTERNAL;
    const char* end = all[rank].data() + all[rank].size();
    const char* after = std::from_chars(all[rank].data(), end, code).ptr;
    if (code <= TUTTI_IN_PROGRESS || code > TUTTI_INTERNAL) code = TUTTI_INTERNAL;
    return {tutti_status(code),
            "rank " + std::to_string(rank) + ":" + std::string(after, size_t(end - after)),
            int(rank)};
  }
  return {};
}

}  // namespace tutti
