// What every function of the C API shares: exceptions end here, and errors find their place.
#pragma once

#include <new>
#include <string>

#include "lib/comm/comm.h"
#include "lib/status.h"
#include "tutti/tutti.h"

namespace tutti::api {

// The calling thread's last failure of a function without a communicator.
std::string& thread_error();

inline tutti_status keep(const Status& status) {
  thread_error() = status.text();
  return status.code();
}

inline Communicator& unwrap(tutti_comm comm) { return *reinterpret_cast<Communicator*>(comm); }
inline tutti_comm wrap(Communicator* comm) { return reinterpret_cast<tutti_comm>(comm); }

// For functions without a communicator, or whose communicator may be NULL: `body` gives a Status.
template <class Body>
tutti_status guarded(Body&& body) {
  try {
    return keep(body());
  } catch (const std::bad_alloc&) {
    return keep({TUTTI_NO_MEMORY, "out of memory"});
  } catch (const std::exception& e) {
    return keep({TUTTI_INTERNAL, e.what()});
  }
}

// For functions on a communicator: `body` takes it and gives a tutti_status.
template <class Body>
tutti_status guarded(tutti_comm comm, Body&& body) {
  if (comm == nullptr) return keep({TUTTI_INVALID, "the communicator is NULL"});
  try {
    return body(unwrap(comm));
  } catch (const std::bad_alloc&) {
    return unwrap(comm).fail({TUTTI_NO_MEMORY, "out of memory"});
  } catch (const std::exception& e) {
    return unwrap(comm).fail({TUTTI_INTERNAL, e.what()});
  }
}

}  // namespace tutti::api
