#include "bench/compressed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti::bench {
namespace {

// The mixer of splitmix64.
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

float value_of(int nranks, int rank, size_t index) {
  return float(Oracle::value(TUTTI_FLOAT32, TUTTI_SUM, nranks, rank, index).first);
}

// Bytes on the wire of a part with so many entries, as tutti.h says.
double piece_bytes(double entries, double elements) {
  return std::min(4 * entries, elements / 8) + 4 * entries;
}

double others_share(const Rank& me) { return double(me.nranks() - 1) / me.nranks(); }

}  // namespace

SparseSubject::SparseSubject(const Rank& me, tutti_comm comm, double density, size_t count)
    : me_(me), comm_(comm), density_(density), count_(count) {
  for (size_t i = 0; i < count; ++i) {
    if (!has(me.rank(), i)) continue;
    indices_.push_back(uint32_t(i));
    values_.push_back(value_of(me.nranks(), me.rank(), i));
  }
  const size_t most = std::min<size_t>(count, me.sum(indices_.size()));
  out_indices_.resize(most);
  out_values_.resize(most);
}

bool SparseSubject::has(int rank, size_t index) const {
  const uint64_t hash = mixed((uint64_t(rank) << 40) + index + 0x9e3779b97f4a7c15u);
  return double(hash >> 11) * 0x1p-53 < density_;
}

void SparseSubject::call() {
  const tutti_sparse_in in{indices_.data(), values_.data(), indices_.size()};
  tutti_sparse_out out{out_indices_.data(), out_values_.data(), out_indices_.size(), 0};
  require(tutti_allreduce_sparse(&in, &out, count_, TUTTI_FLOAT32, TUTTI_SUM, comm_), comm_,
          "sparse");
  out_entries_ = out.entries;
}

void SparseSubject::run(size_t calls) {
  for (size_t i = 0; i < calls; ++i) call();
}

uint64_t SparseSubject::check(const Oracle&) {
  std::fill(out_values_.begin(), out_values_.end(), NAN);
  call();
  uint64_t wrong = 0;
  size_t at = 0;
  for (size_t i = 0; i < count_; ++i) {
    float sum = 0;
    bool there = false;
    for (int rank = 0; rank < me_.nranks(); ++rank) {
      if (!has(rank, i)) continue;
      there = true;
      sum += value_of(me_.nranks(), rank, i);
    }
    if (!there) continue;
    wrong += at >= out_entries_ || out_indices_[at] != i || out_values_[at] != sum;
    ++at;
  }
  return wrong + (at < out_entries_ ? out_entries_ - at : 0);
}

void SparseSubject::describe(Result* result) const {
  result->algorithm = fmt::format("sparse {}", density_);
  const auto elements = double(count_);
  result->sent_bytes = others_share(me_) * (piece_bytes(double(indices_.size()), elements) +
                                            piece_bytes(double(out_entries_), elements));
}

CodedSubject::CodedSubject(const Rank& me, tutti_comm comm, const std::string& codec, size_t count,
                           const Buffers& buffers)
    : me_(me), comm_(comm), count_(count), buffers_(buffers) {
  require(tutti_codec_from_name(codec.c_str(), &codec_), nullptr, "finding the codec");
  error_.size = sizeof error_;
}

void CodedSubject::run(size_t calls) {
  for (size_t i = 0; i < calls; ++i)
    require(
        tutti_allreduce_coded(buffers_.send(), buffers_.recv(), count_, TUTTI_SUM, codec_, comm_),
        comm_, codec_->name);
}

uint64_t CodedSubject::check(const Oracle& oracle) {
  buffers_.poison_output(0, count_ * sizeof(float));
  require(tutti_allreduce_coded_with(buffers_.send(), buffers_.recv(), count_, TUTTI_SUM, codec_,
                                     comm_, nullptr, &error_),
          comm_, codec_->name);
  const auto* out = reinterpret_cast<const float*>(buffers_.recv());
  const double rounding = std::string(codec_->name) == "bf16" ? 1.0 / 256 : 1.0 / 16;
  uint64_t wrong = oracle.wrong_inputs(buffers_.send(), count_) + buffers_.broken_guard();
  for (size_t i = 0; i < count_; ++i) {
    double sum = 0, magnitudes = 0;
    for (int rank = 0; rank < me_.nranks(); ++rank) {
      const double value = value_of(me_.nranks(), rank, i);
      sum += value;
      magnitudes += std::fabs(value);
    }
    // Small values lose a little more beside large ones in a block.
    wrong +=
        !(std::fabs(out[i] - sum) <= (2 + rounding) * rounding * magnitudes + 0.001 * me_.nranks());
  }
  return wrong;
}

void CodedSubject::describe(Result* result) const {
  result->algorithm = fmt::format("codec {}", codec_->name);
  result->sent_bytes =
      2 * others_share(me_) * double(codec_->encoded_bytes(count_, codec_->context));
  result->relative_error = error_.rms_value > 0 ? error_.rms_error / error_.rms_value : 0;
}

}  // namespace tutti::bench
