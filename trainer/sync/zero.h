// ZeRO stage 1: allreduce with --zero 1.
#pragma once

#include "trainer/sync/wire.h"

namespace tutti::train {

template <class Real>
std::unique_ptr<Wire<Real>> make_sharded(const Worker& worker, const std::vector<Bucket>& buckets);

}  // namespace tutti::train
