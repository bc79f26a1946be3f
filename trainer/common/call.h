// Helpers for calls of the C API that tutti.hpp does not wrap.
#pragma once

#include "tutti/tutti.hpp"

namespace tutti::train {

inline void check(tutti_status status, const communicator& comm) {
  if (status == TUTTI_OK) return;
  tutti_error last{};
  tutti_comm_last_error(comm.get(), &last);
  throw error(status, last.rank, last.call, last.text ? last.text : "");
}

// Whether a call failed because of a dead rank. ABORTED: others have found it out before, and go on
// already.
inline bool is_loss(const error& failed) {
  return failed.status() == TUTTI_PEER_FAILED || failed.status() == TUTTI_ABORTED;
}

}  // namespace tutti::train
