// What every function of the C API shares: exceptions are caught, and errors are kept where the
// program finds them.
#pragma once

#include <new>
#include <string>

#include "lib/base/status.h"
#include "lib/comm/comm.h"
#include "tutti/tutti.h"

namespace tutti::api {

// The calling thread's last failure of a function without a communicator.
std::string& thread_error();

inline tutti_status keep(const Status& status) {
  try {
    thread_error() = status.text();
  } catch (const std::bad_alloc&) {
    thread_error().clear();
  }
  return status.code();
}

// What a child made by fork() is told of its parent's communicators and requests.
tutti_status refuse_child();

inline Communicator& unwrap(tutti_comm comm) { return *reinterpret_cast<Communicator*>(comm); }
inline tutti_comm wrap(Communicator* comm) { return reinterpret_cast<tutti_comm>(comm); }

// For functions without a communicator, or whose communicator may be NULL: `body` gives a Status.
template <class Body>
tutti_status guarded(Body&& body) {
  try {
    return keep(body());
  } catch (...) {
    return keep(status_of_exception());
  }
}

// For local functions on a communicator, which is unharmed: `body` takes it and gives a
// tutti_status.
template <class Body>
tutti_status guarded(tutti_comm comm, Body&& body) {
  if (comm == nullptr) return keep({TUTTI_INVALID, "the communicator is NULL"});
  if (!unwrap(comm).is_here()) [[unlikely]]
    return refuse_child();
  try {
    return body(unwrap(comm));
  } catch (...) {
    return unwrap(comm).fail(status_of_exception());
  }
}

// For calls that other ranks wait for: an exception, also one from before the call has begun, ends
// the call on all ranks.
template <class Body>
tutti_status calling(tutti_comm comm, Body&& body) {
  if (comm == nullptr) return keep({TUTTI_INVALID, "the communicator is NULL"});
  if (!unwrap(comm).is_here()) [[unlikely]]
    return refuse_child();
  const Communicator::InCall in_call(unwrap(comm));
  try {
    return body(unwrap(comm));
  } catch (...) {
    return unwrap(comm).abandon();
  }
}

}  // namespace tutti::api
