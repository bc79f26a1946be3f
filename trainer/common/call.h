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

}  // namespace tutti::train
