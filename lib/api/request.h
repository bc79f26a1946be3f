// Requests: handles by which the program holds operations.
#pragma once

#include <memory>

#include "lib/api/guard.h"
#include "lib/comm/operation.h"

namespace tutti::api {

inline tutti_request wrap(Operation* operation) {
  return reinterpret_cast<tutti_request>(operation);
}
inline Operation* unwrap(tutti_request request) { return reinterpret_cast<Operation*>(request); }

enum class Begins : uint8_t { now, when_started };

// Makes a request for the operation that `make` fills in, begun at once or when it is started.
template <class Make>
tutti_status make_request(Begins begins, tutti_comm comm, tutti_request* out, Make&& make) {
  if (out != nullptr) *out = nullptr;
  const auto body = [&](Communicator& c) {
    if (out == nullptr) return c.fail({TUTTI_INVALID, "there is nowhere to put the request"});
    auto operation = std::make_unique<Operation>();
    operation->persistent = begins == Begins::when_started;
    if (Status made = make(c, operation.get()); !made.ok())
      return c.refuse(std::move(made), *operation);
    if (const tutti_status prepared = c.prepare(operation.get()); prepared != TUTTI_OK) {
      return prepared;
    }
    if (begins == Begins::now) c.start(operation.get());
    *out = wrap(operation.release());
    return TUTTI_OK;
  };
  return begins == Begins::now ? calling(comm, body) : guarded(comm, body);
}

}  // namespace tutti::api
