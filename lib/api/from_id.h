// Communicators of ranks that hold an id.
#pragma once

#include <memory>

#include "lib/base/fd.h"
#include "lib/comm/comm.h"
#include "tutti/tutti.h"

namespace tutti::api {

// The listening sockets of the ids that this process has made, until rank 0 of each takes its own.
// Any thread. INVALID: there is none.
void keep_listener(const tutti_unique_id& id, Fd listener);
Status take_listener(const tutti_unique_id& id, Fd* out);

Status make(std::unique_ptr<Exchange> exchange, const CommSettings& settings, tutti_comm* out);
// Of one rank.
Status make_alone(const CommSettings& settings, tutti_comm* out);
// `listener`: of rank 0, where there are others.
Status from_id(const tutti_unique_id& id, Fd listener, int rank, int nranks,
               const CommSettings& settings, tutti_comm* out);

}  // namespace tutti::api
