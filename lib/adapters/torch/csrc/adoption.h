// Memory of tensors that come back in call after call, as the buckets of gradients do, is shared by
// the ranks where it lies (tutti_mem_adopt), so that allreduces of it go without staging.
#pragma once

#include <ATen/core/ivalue.h>  // Clang finds it incomplete after the others of 1.13

#include <ATen/ATen.h>

#include <map>
#include <vector>

#include "library.h"

namespace tutti_torch {

// Of one communicator. To be called by one thread at a time.
class Adoption {
 public:
  // `comm` stays the caller's.
  explicit Adoption(tutti_comm comm);

  // Before the allreduce of a tensor, by all ranks for the same calls: in some of them they agree
  // whether its memory has come back on all of them, which is then shared, and which memory is of
  // no tensor any more, which is given back. Until then it is kept.
  void before_allreduce(const at::Tensor& tensor, const tutti_call_config* config);

 private:
  struct Seen {
    void* address;
    size_t bytes;
    bool refused;  // is of a kind that cannot be shared
  };
  struct Shared {
    c10::Storage storage;
    void* address;
  };

  bool asks_in_call(size_t bytes);
  Seen* find(const at::Tensor& tensor, size_t bytes);
  bool comes_back(const at::Tensor& tensor, size_t bytes);
  void share(const at::Tensor& tensor, size_t bytes);

  tutti_comm comm_;
  bool one_host_;
  std::map<size_t, int> calls_;  // of each length, on all ranks alike
  std::vector<Seen> seen_;       // the last tensors, in a ring
  size_t next_seen_ = 0;
  std::vector<Shared> shared_;  // on all ranks in the same order
};

}  // namespace tutti_torch
