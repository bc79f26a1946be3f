// The functions of libtutti.so, found in the file that the Python package has loaded: the extension
// links to no library by name, so that both forms of the process group use one and the same.
#pragma once

#include <tutti/tutti.h>

#include <string>

namespace tutti_torch {

#define TUTTI_TORCH_FUNCTIONS(F) \
  F(status_name)                 \
  F(last_error)                  \
  F(comm_free)                   \
  F(comm_abort)                  \
  F(comm_last_error)             \
  F(comm_transport)              \
  F(mem_adopt)                   \
  F(mem_release)                 \
  F(op_create_premul_sum)        \
  F(op_free)                     \
  F(op_supports)                 \
  F(allreduce_with)              \
  F(reduce_with)                 \
  F(broadcast_with)              \
  F(allgather_with)              \
  F(allgatherv_with)             \
  F(gather_with)                 \
  F(scatter_with)                \
  F(reduce_scatter_block_with)   \
  F(reduce_scatter_with)         \
  F(alltoallv_with)              \
  F(barrier_with)                \
  F(isend)                       \
  F(irecv)                       \
  F(irecv_any)                   \
  F(test)

struct Library {
#define TUTTI_TORCH_MEMBER(name) decltype(&tutti_##name) name = nullptr;
  TUTTI_TORCH_FUNCTIONS(TUTTI_TORCH_MEMBER)
#undef TUTTI_TORCH_MEMBER
};

// What load_library() found; to be called before anything else here.
const Library& library();

// Looks the functions up in the shared library at `path`. Throws std::runtime_error that says which
// is missing.
void load_library(const std::string& path);

}  // namespace tutti_torch
