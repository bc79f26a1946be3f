// One outcome for all ranks, after a step that can fail on some of them only.
#pragma once

#include "lib/control/exchange.h"

namespace tutti {

// Collective. OK when `mine` is OK on every rank; else, on every rank, an error: its own if it has
// one, or that of the lowest rank that has one. An error about another rank may only be the trace
// of what befell that rank before (it closed its connections, because of a third): then the error
// is the one at the beginning of that chain, and a rank that has died is named wherever its death
// was noticed.
Status agree(Exchange& exchange, const Status& mine, uint64_t deadline_ns);

// The same, and where it is OK *all becomes what every rank passed as `text`, in one round.
Status agree_on(Exchange& exchange, const Status& mine, std::string_view text, uint64_t deadline_ns,
                std::vector<std::string>* all);

}  // namespace tutti
