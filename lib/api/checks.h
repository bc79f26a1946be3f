// Checks of arguments that several functions of the C API share. INVALID with one sentence.
#pragma once

#include "lib/base/status.h"
#include "lib/call/call.h"
#include "lib/comm/comm.h"
#include "tutti/tutti.h"

namespace tutti::api {

Status read_config(const tutti_call_config* config, CallSettings* out);

Status check_level(tutti_level level);

// The checks that all collectives need: `count` elements must fit into memory.
Status check_vector(uint64_t count, tutti_dtype dtype);
Status check_operator(tutti_op op, tutti_dtype dtype);
Status no_such_root(const Communicator& c, int root);
inline Status check_root(const Communicator& c, int root) {
  if (root >= 0 && root < c.nranks()) [[likely]]
    return {};
  return no_such_root(c, root);
}

// The buffers of a call, `send_count` and `recv_count` elements long. TUTTI_IN_PLACE is refused.
Status check_send(const void* send, uint64_t count);
Status check_recv(const void* recv, uint64_t count);
Status check_apart(const void* send, uint64_t send_count, const void* recv, uint64_t recv_count,
                   tutti_dtype dtype);

// The type, and that one block of `count` elements a rank fits into memory.
Status check_equal_blocks(const Communicator& c, uint64_t count, tutti_dtype dtype);
// Lengths and places of a v form's blocks: that they fit into memory and, where they are received,
// that no two overlap. *span: elements from the buffer's start to the end of the last block.
Status check_send_blocks(const Communicator& c, const size_t* counts, const size_t* displs,
                         tutti_dtype dtype, uint64_t* span);
Status check_recv_blocks(const Communicator& c, const size_t* counts, const size_t* displs,
                         tutti_dtype dtype, uint64_t* span);

}  // namespace tutti::api
