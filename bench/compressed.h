// Allreduces that send less than whole vectors: of sparse ones, and through codecs. float32 sums.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/subjects.h"

namespace tutti::bench {

// Of vectors in which each element is present with the probability `density`, by a hash of the rank
// and the index. Their values are the oracle's.
class SparseSubject : public CheckedSubject {
 public:
  SparseSubject(const Rank& me, tutti_comm comm, double density, size_t count);
  void run(size_t calls) override;
  uint64_t check(const Oracle& oracle) override;
  void describe(Result* result) const override;

 private:
  bool has(int rank, size_t index) const;
  void call();

  const Rank& me_;
  tutti_comm comm_;
  double density_;
  size_t count_;
  std::vector<uint32_t> indices_, out_indices_;
  std::vector<float> values_, out_values_;
  size_t out_entries_ = 0;
};

// Of the same vectors as the dense algorithms', encoded for sending.
class CodedSubject : public CheckedSubject {
 public:
  CodedSubject(const Rank& me, tutti_comm comm, const std::string& codec, size_t count,
               const Buffers& buffers);
  void run(size_t calls) override;
  // An element is wrong if its error exceeds twice what the codec's roundings allow.
  uint64_t check(const Oracle& oracle) override;
  void describe(Result* result) const override;

 private:
  const Rank& me_;
  tutti_comm comm_;
  const tutti_codec* codec_ = nullptr;
  size_t count_;
  const Buffers& buffers_;
  tutti_codec_error error_{};
};

}  // namespace tutti::bench
