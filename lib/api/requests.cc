// The part of the C API that starts, waits for, tests and frees requests.
#include "lib/api/request.h"

#include <vector>

namespace tutti::api {

namespace {

// Frees a request that is no longer in flight, unless it can be started again.
void settle(tutti_request* request) {
  Operation* const operation = unwrap(*request);
  if (operation->persistent) return;
  delete operation;
  *request = nullptr;
}

// Whether this process is a forked child and the request is of its parent's communicator.
bool is_parents(const Operation& operation) {
  const Communicator* const c = operation.owner->communicator;
  return c != nullptr && !c->is_here();
}

// Calls `body` with the request's communicator. If that has been freed the operation has ended.
template <class Body>
tutti_status on_owner(Operation& operation, Body&& body) {
  Communicator* const c = operation.owner->communicator;
  if (is_parents(operation)) return refuse_child();
  if (c == nullptr) {
    operation.active = false;
    return keep(operation.failure);
  }
  const tutti_status status = calling(reinterpret_cast<tutti_comm>(c), body);
  return status == TUTTI_OK ? TUTTI_OK : keep(c->last_error());
}

tutti_status wait(tutti_request* request) {
  if (*request == nullptr) return TUTTI_OK;
  Operation& operation = *unwrap(*request);
  if (!operation.active) return TUTTI_OK;
  const tutti_status status =
      on_owner(operation, [&](Communicator& c) { return c.wait(&operation); });
  if (!is_parents(operation)) settle(request);
  return status;
}

Status check_requests(size_t n, const tutti_request* requests) {
  if (n != 0 && requests == nullptr) return {TUTTI_INVALID, "the list of requests is NULL"};
  return {};
}

tutti_status start(tutti_request request) {
  if (request == nullptr) return keep({TUTTI_INVALID, "the request is NULL"});
  Operation& operation = *unwrap(request);
  if (operation.owner->communicator == nullptr) {
    return keep({TUTTI_INVALID, "the communicator of the request has been freed"});
  }
  return on_owner(operation, [&](Communicator& c) {
    if (!operation.persistent) {
      return c.fail({TUTTI_INVALID, "only a request of an _init function can be started"});
    }
    if (operation.active) {
      return c.fail({TUTTI_INVALID, "the request is in flight; wait for it before the next start"});
    }
    if (Status closed = c.outside_group(); !closed.ok()) return c.fail(std::move(closed));
    c.start(&operation);
    return TUTTI_OK;
  });
}

tutti_status wait_any(size_t n, tutti_request* requests, size_t* index) {
  std::vector<Operation*> active;
  active.reserve(n);
  for (;;) {
    active.clear();
    for (size_t i = 0; i < n; ++i) {
      Operation* const operation = requests[i] != nullptr ? unwrap(requests[i]) : nullptr;
      if (operation == nullptr || !operation->active) continue;
      if (operation->ended()) {
        *index = i;
        return wait(&requests[i]);
      }
      active.push_back(operation);
    }
    if (active.empty()) return TUTTI_OK;
    if (is_parents(*active[0])) return refuse_child();
    on_owner(*active[0], [&](Communicator& c) {
      c.wait_any(active);
      return TUTTI_OK;
    });
  }
}

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

tutti_status tutti_start(tutti_request request) { return api::start(request); }

tutti_status tutti_startall(size_t n, const tutti_request* requests) {
  if (Status checked = api::check_requests(n, requests); !checked.ok()) return api::keep(checked);
  for (size_t i = 0; i < n; ++i) {
    if (const tutti_status status = api::start(requests[i]); status != TUTTI_OK) return status;
  }
  return TUTTI_OK;
}

tutti_status tutti_wait(tutti_request* request) {
  if (request == nullptr) return api::keep({TUTTI_INVALID, "the request is NULL"});
  return api::wait(request);
}

tutti_status tutti_test(tutti_request* request, int* ended) {
  if (request == nullptr || ended == nullptr) {
    return api::keep({TUTTI_INVALID, "the request or the place for the answer is NULL"});
  }
  *ended = 1;
  if (*request == nullptr) return TUTTI_OK;
  Operation& operation = *api::unwrap(*request);
  if (!operation.active) return TUTTI_OK;
  bool over = true;
  const tutti_status status =
      api::on_owner(operation, [&](Communicator& c) { return c.test(&operation, &over); });
  *ended = over ? 1 : 0;
  if (over && !api::is_parents(operation)) api::settle(request);
  return status;
}

tutti_status tutti_waitall(size_t n, tutti_request* requests) {
  if (Status checked = api::check_requests(n, requests); !checked.ok()) return api::keep(checked);
  tutti_status first = TUTTI_OK;
  std::string text;
  for (size_t i = 0; i < n; ++i) {
    const tutti_status status = api::wait(&requests[i]);
    if (status == TUTTI_OK || first != TUTTI_OK) continue;
    first = status;
    text.swap(api::thread_error());
  }
  if (first != TUTTI_OK) api::thread_error().swap(text);
  return first;
}

tutti_status tutti_waitany(size_t n, tutti_request* requests, size_t* index) {
  Status checked = api::check_requests(n, requests);
  if (checked.ok() && index == nullptr) {
    checked = {TUTTI_INVALID, "there is nowhere to put the index"};
  }
  if (!checked.ok()) return api::keep(checked);
  *index = TUTTI_NO_REQUEST;
  try {
    return api::wait_any(n, requests, index);
  } catch (...) {
    return api::keep(status_of_exception());
  }
}

tutti_status tutti_request_free(tutti_request* request) {
  if (request == nullptr || *request == nullptr) return TUTTI_OK;
  Operation* const operation = api::unwrap(*request);
  if (operation->active) {
    return api::keep({TUTTI_INVALID, "the request is in flight; wait for it before it is freed"});
  }
  delete operation;
  *request = nullptr;
  return TUTTI_OK;
}

}  // extern "C"
