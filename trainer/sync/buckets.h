// Which gradients share one collective call. The first bucket is small, so that its call starts
// early; the others are large, so that there are few calls. A parameter is never split between
// buckets.
#pragma once

#include <cstddef>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/models/replica.h"
#include "trainer/parallel/optimizer.h"

namespace tutti::train {

struct Bucket {
  size_t first = 0, last = 0;  // parameters [first, last) of the layout
  size_t offset = 0, count = 0;
};

inline Range range_of(const Bucket& bucket) {
  return {bucket.offset, bucket.offset + bucket.count};
}
// The part of the bucket that `rank` of `ranks` keeps where they divide it.
inline Range share_of(const Bucket& bucket, int ranks, int rank) {
  const Span share = part_of(int64_t(bucket.count), ranks, rank);
  return {bucket.offset + size_t(share.begin), bucket.offset + size_t(share.end)};
}

// A bucket closes as soon as it holds `first_bytes` (the first one) or `bytes` (the others); an
// element counts as four bytes.
inline std::vector<Bucket> buckets_of(const Layout& layout, size_t first_bytes, size_t bytes) {
  std::vector<Bucket> buckets;
  Bucket open;
  for (size_t i = 0; i < layout.size(); ++i) {
    open.count += layout[i].count;
    open.last = i + 1;
    if (4 * open.count >= (buckets.empty() ? first_bytes : bytes) || open.last == layout.size()) {
      buckets.push_back(open);
      open = {open.last, open.last, open.offset + open.count, 0};
    }
  }
  return buckets;
}
// As --first-bucket and --bucket say.
inline std::vector<Bucket> buckets_of(const Layout& layout, const Options& o) {
  const auto bytes = [](double mib) { return size_t(mib * 1048576); };
  return buckets_of(layout, bytes(o.first_bucket_mib), bytes(o.bucket_mib));
}

}  // namespace tutti::train
