// UCX's functions, loaded at run time, and its errors as texts.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

#include "lib/base/status.h"

#define TUTTI_UCX_FUNCTIONS(X)      \
  X(ucp_get_version_string)         \
  X(ucp_config_read)                \
  X(ucp_config_modify)              \
  X(ucp_config_release)             \
  X(ucp_init_version)               \
  X(ucp_cleanup)                    \
  X(ucp_context_print_info)         \
  X(ucp_context_query)              \
  X(ucp_worker_create)              \
  X(ucp_worker_destroy)             \
  X(ucp_worker_get_address)         \
  X(ucp_worker_release_address)     \
  X(ucp_worker_get_efd)             \
  X(ucp_worker_arm)                 \
  X(ucp_worker_progress)            \
  X(ucp_worker_set_am_recv_handler) \
  X(ucp_ep_create)                  \
  X(ucp_ep_close_nbx)               \
  X(ucp_am_send_nbx)                \
  X(ucp_am_recv_data_nbx)           \
  X(ucp_am_data_release)            \
  X(ucp_request_check_status)       \
  X(ucp_request_free)

namespace tutti::ucx {

template <auto* function>
using Pointer = decltype(function);

struct Functions {
#define TUTTI_DECLARE(name) Pointer<::name> name = nullptr;
  TUTTI_UCX_FUNCTIONS(TUTTI_DECLARE)
#undef TUTTI_DECLARE
  const char* (*ucs_status_string)(ucs_status_t) = nullptr;
  bool loaded_here = false;  // the program itself had not loaded UCX before

  // The functions of this process; loaded with the first call.
  static Status get(const Functions** out);

  Status failure(ucs_status_t status, const std::string& what) const;

 private:
  Status load();
};

}  // namespace tutti::ucx
