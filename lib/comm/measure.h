// TUTTI_TUNING=measure: what algorithms are chosen by, measured in 20 ms when the first
// communicator of a kind of medium is made.
#pragma once

#include "lib/comm/connection.h"
#include "lib/control/exchange.h"

namespace tutti {

// Collective over `exchange`, which has the ranks of `connection`. Sets the fields of its medium in
// *table, to the same values on all ranks: those that the lowest rank which has some knows of an
// earlier communicator, else what calls on a communicator made for that take. Where that is not
// found in time *table stays as it is on all ranks, and the log says why. An error is one of the
// exchange or of making a communicator, as in Communicator::create().
Status measure(Exchange& exchange, const Connection& connection, uint64_t deadline_ns,
               TuningTable* table);

}  // namespace tutti
