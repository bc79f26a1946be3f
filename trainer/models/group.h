// Communication between ranks that divide a layer, as differentiable operations: each comment says
// what is computed forward, and for the gradient backward. All ranks of the group call them in the
// same order. Only the files that compute include this.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "trainer/parallel/split.h"

namespace tutti::train {

// The length of each rank's part where `total` is divided evenly.
std::vector<int64_t> parts(int64_t total, const Group& group);
// Forward: the rank's own part along a dimension, without communication. Backward: zeros for the
// other parts.
torch::Tensor own_part(const torch::Tensor& x, int64_t dimension, const Group& group);

// At the start of a region in which every rank does a part of the work on the same x. Forward: x
// itself. Backward: the sum of the ranks' gradients.
torch::Tensor copy_to(const torch::Tensor& x, const Group& group);
// At its end, where each rank has a term of the sum. Forward: the sum. Backward: the gradient
// itself.
torch::Tensor reduce_from(const torch::Tensor& x, const Group& group);
// The same two where the work outside is divided too, along a dimension, as by parts(). First,
// forward: an allgather; backward: a reduce-scatter. Second, forward: a reduce-scatter; backward:
// an allgather.
torch::Tensor gather_to(const torch::Tensor& x, int64_t dimension, int64_t total,
                        const Group& group);
torch::Tensor reduce_scatter_from(const torch::Tensor& x, int64_t dimension, const Group& group);
// For x that is the same on all ranks. First, forward: the rank's own part; backward: an allgather.
// Second: the other way round. `sizes`: of the ranks' parts.
torch::Tensor scatter_to(const torch::Tensor& x, int64_t dimension, const Group& group);
torch::Tensor gather_from(const torch::Tensor& x, int64_t dimension,
                          const std::vector<int64_t>& sizes, const Group& group);

// From rank to rank; the gradient goes the other way. send() returns a zero that must become a term
// of the sender's loss: its backward receives the gradient of x. `before` connects receive() to the
// graph: any tensor that requires a gradient; it gets zeros.
torch::Tensor send(const torch::Tensor& x, int to, const Group& group);
torch::Tensor receive(const torch::Tensor& before, std::vector<int64_t> shape, int from,
                      const Group& group);

// No gradients. Over the group; the same bits on all ranks.
torch::Tensor sum_of(const torch::Tensor& x, const Group& group);
torch::Tensor max_of(const torch::Tensor& x, const Group& group);

// Pictures are divided into strips, as by parts(): each rank's `x` has its own rows. Returns on
// rank r the rows `needed[r]`; missing ones come from the strips above and below, which must hold
// them.
torch::Tensor exchange_rows(const torch::Tensor& x, int64_t height, const std::vector<Span>& needed,
                            const Group& group);

}  // namespace tutti::train
