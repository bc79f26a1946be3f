// What ranks that share the work of a layer send each other, as operations that autograd knows:
// each says what travels forward and what travels back. All ranks of the group call them in the
// same order. Only the files that compute include this.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "trainer/parallel/split.h"

namespace tutti::train {

// How long each rank's part is where `total` is divided evenly.
std::vector<int64_t> parts(int64_t total, const Group& group);
// The own part along a dimension; no communication, and zeros for the other parts' gradients.
torch::Tensor own_part(const torch::Tensor& x, int64_t dimension, const Group& group);

// Where a region begins in which every rank does a part of the work on the same x: x itself, and
// back the sum of the parts' gradients.
torch::Tensor copy_to(const torch::Tensor& x, const Group& group);
// Where it ends, each rank having a term: the sum, and back the gradient itself.
torch::Tensor reduce_from(const torch::Tensor& x, const Group& group);
// The same two where the work outside is divided too, along a dimension, as by parts(): all parts,
// and back the own part of the sum of gradients; the own part of the sum, and back all parts.
torch::Tensor gather_to(const torch::Tensor& x, int64_t dimension, int64_t total,
                        const Group& group);
torch::Tensor reduce_scatter_from(const torch::Tensor& x, int64_t dimension, const Group& group);
// Of what all ranks have, the own part, and back all parts; and the other way round. `sizes`: of
// the ranks' parts.
torch::Tensor scatter_to(const torch::Tensor& x, int64_t dimension, const Group& group);
torch::Tensor gather_from(const torch::Tensor& x, int64_t dimension,
                          const std::vector<int64_t>& sizes, const Group& group);

// From rank to rank, and the gradient the other way. What send() returns is a zero that must become
// a term of the sender's loss: its gradient is that of x. receive() takes the place of such a zero:
// `before` is any tensor that needs a gradient and gets zeros.
torch::Tensor send(const torch::Tensor& x, int to, const Group& group);
torch::Tensor receive(const torch::Tensor& before, std::vector<int64_t> shape, int from,
                      const Group& group);

// No gradients: over the group, the same bits on all ranks.
torch::Tensor sum_of(const torch::Tensor& x, const Group& group);
torch::Tensor most_of(const torch::Tensor& x, const Group& group);

// Pictures are divided into strips, as by parts(): each rank's `x` has its own rows. Returns the
// rows `needed[r]` of each rank r, which neighbours send: at most what the strips above and below
// hold.
torch::Tensor exchange_rows(const torch::Tensor& x, int64_t height, const std::vector<Span>& needed,
                            const Group& group);

}  // namespace tutti::train
