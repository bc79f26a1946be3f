#include "lib/sparse/coded.h"

#include <algorithm>
#include <cmath>

#include "lib/reduce/reduce.h"
#include "lib/sparse/pieces.h"

namespace tutti::sparse {

namespace {

// Encoded, decoded and reduced at once: stays in the first-level cache.
constexpr size_t slice_bytes = 16 << 10;
// Of each rank's part, exchanged at once among ranks that share memory: what is encoded stays in a
// core's own cache.
constexpr size_t piece_bytes = 256 << 10;

// Calls the program's functions, which may throw.
size_t encoded_bytes_of(const tutti_codec& codec, size_t count) {
  return call_back("codec", [&] { return codec.encoded_bytes(count, codec.context); });
}
void encode_with(const tutti_codec& codec, const float* values, size_t count, std::byte* to) {
  call_back("codec", [&] { codec.encode(values, count, to, codec.context); });
}
void decode_with(const tutti_codec& codec, const std::byte* from, size_t count, float* values) {
  call_back("codec", [&] { codec.decode(from, count, values, codec.context); });
}

// What encoding changed.
class ErrorMeter {
 public:
  void add(const float* values, const float* decoded, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (!std::isfinite(values[i]) || !std::isfinite(decoded[i])) {
        ++not_finite_;
        continue;
      }
      const double error = double(decoded[i]) - double(values[i]);
      greatest_ = std::max(greatest_, std::fabs(error));
      error_squares_ += error * error;
      value_squares_ += double(values[i]) * double(values[i]);
      ++finite_;
    }
  }
  void report(tutti_codec_error* out) const {
    const double n = finite_ != 0 ? double(finite_) : 1;
    out->max_error = greatest_;
    out->rms_error = std::sqrt(error_squares_ / n);
    out->rms_value = std::sqrt(value_squares_ / n);
    out->not_finite = not_finite_;
  }

 private:
  double greatest_ = 0, error_squares_ = 0, value_squares_ = 0;
  uint64_t finite_ = 0, not_finite_ = 0;
};

// A codec that encodes vectors in slices, one behind the other.
class SlicedCodec {
 public:
  explicit SlicedCodec(const tutti_codec& codec) : codec_(codec), slice_(blocks(slice_bytes)) {}

  // Elements that take about so many bytes: whole blocks.
  uint64_t blocks(size_t bytes) const {
    return std::max<uint64_t>(bytes / sizeof(float) / codec_.block, 1) * codec_.block;
  }
  uint64_t slice() const { return slice_; }
  size_t encoded_bytes(uint64_t count) const {
    const uint64_t slices = count / slice_, rest = count % slice_;
    return (slices != 0 ? slices * encoded_bytes_of(codec_, slice_) : 0) +
           (rest != 0 ? encoded_bytes_of(codec_, rest) : 0);
  }
  // Calls `each(begin, count, at)`: the elements of a slice, and where it lies in what is encoded.
  template <class Each>
  void for_slices(uint64_t count, const Each& each) const {
    const size_t stride = count > slice_ ? encoded_bytes_of(codec_, slice_) : 0;
    size_t at = 0;
    for (uint64_t begin = 0; begin < count; begin += slice_, at += stride) {
      each(begin, size_t(std::min(slice_, count - begin)), at);
    }
  }
  void encode_slice(const float* values, size_t count, std::byte* to) const {
    encode_with(codec_, values, count, to);
  }
  void decode_slice(const std::byte* from, size_t count, float* values) const {
    decode_with(codec_, from, count, values);
  }

 private:
  const tutti_codec& codec_;
  const uint64_t slice_;
};

class CodedAllreduce {
 public:
  CodedAllreduce(CompoundCall& call, const Arguments& arguments, const tutti_codec& codec,
                 ErrorMeter* meter)
      : call_(call),
        codec_(codec),
        block_(codec.block),
        kernels_(find_kernels(TUTTI_FLOAT32, tutti_op(arguments.op))),
        meter_(meter),
        n_(size_t(call.nranks())),
        lengths_(call.memory<size_t>(Buffer::indices, 3 * n_)),
        places_(lengths_ + n_),
        own_lengths_(places_ + n_) {}

  Status run(const float* input, uint64_t length, float* output) {
    const uint64_t most = call_.share_memory() ? codec_.blocks(piece_bytes) * n_ : length;
    for (uint64_t begin = 0; begin < length; begin += most) {
      TUTTI_TRY(reduce_piece(input + begin, std::min(most, length - begin), output + begin));
    }
    return {};
  }

 private:
  Status reduce_piece(const float* input, uint64_t length, float* output) {
    lay_out(length);
    const auto self = size_t(call_.rank());
    const uint64_t own_count = part(self, length).size();
    std::byte* const encoded = call_.memory(Buffer::outgoing, places_[n_ - 1] + lengths_[n_ - 1]);
    std::byte* const incoming = call_.memory(Buffer::incoming, lengths_[self] * n_);
    std::byte* const own = encoded + places_[self];
    for (size_t r = 0; r < n_; ++r) {
      const Part of_r = part(r, length);
      codec_.for_slices(of_r.size(), [&](uint64_t begin, size_t count, size_t at) {
        encode(input + of_r.begin + begin, count, encoded + places_[r] + at);
      });
    }
    TUTTI_TRY(even_ ? call_.alltoall(encoded, lengths_[self], incoming)
                    : call_.alltoallv(encoded, {lengths_, n_}, incoming, {own_lengths_, n_}));
    codec_.for_slices(own_count, [&](uint64_t, size_t count, size_t at) {
      reduce_slice(incoming + at, lengths_[self], count, own + at);
    });
    TUTTI_TRY(even_ ? call_.allgather(own, lengths_[self], encoded)
                    : call_.allgatherv(own, encoded, {lengths_, n_}));
    for (size_t r = 0; r < n_; ++r) {
      const Part of_r = part(r, length);
      codec_.for_slices(of_r.size(), [&](uint64_t begin, size_t count, size_t at) {
        codec_.decode_slice(encoded + places_[r] + at, count, output + of_r.begin + begin);
      });
    }
    return {};
  }

  Part part(size_t rank, uint64_t length) const {
    return part_of(length, int(rank), int(n_), block_);
  }

  // Blocks of one length have faster exchanges: parts are padded to the longest where that adds
  // little.
  void lay_out(uint64_t length) {
    size_t total = 0, longest = 0;
    for (size_t r = 0; r < n_; ++r) {
      lengths_[r] = codec_.encoded_bytes(part(r, length).size());
      places_[r] = total;
      total += lengths_[r];
      longest = std::max(longest, lengths_[r]);
    }
    constexpr size_t always_padded_bytes = 4 << 10;
    even_ = longest * n_ <= total + total / 8 + always_padded_bytes;
    for (size_t r = 0; even_ && r < n_; ++r) {
      lengths_[r] = longest;
      places_[r] = longest * r;
    }
    std::fill_n(own_lengths_, n_, lengths_[size_t(call_.rank())]);
  }

  void encode(const float* values, size_t count, std::byte* to) {
    codec_.encode_slice(values, count, to);
    if (meter_ == nullptr) return;
    auto* const back = call_.memory<float>(Buffer::values, count);
    codec_.decode_slice(to, count, back);
    meter_->add(values, back, count);
  }

  // Of each rank's slice, `stride` bytes apart.
  void reduce_slice(const std::byte* from, size_t stride, size_t count, std::byte* to) {
    auto* const values = call_.memory<float>(Buffer::operands, count * n_);
    const auto operands = call_.memory<const void*>(Buffer::result, n_);
    for (size_t r = 0; r < n_; ++r) {
      codec_.decode_slice(from + r * stride, count, values + r * count);
      operands[r] = values + r * count;
    }
    kernels_.reduce(values, operands, n_, count);
    if (kernels_.divide != nullptr) kernels_.divide(values, count, uint32_t(n_));
    encode(values, count, to);
  }

  CompoundCall& call_;
  const SlicedCodec codec_;
  const uint64_t block_;
  const Kernels kernels_;
  ErrorMeter* const meter_;
  const size_t n_;
  // Of the encoded parts of a piece, by rank: bytes, and where they lie. `own_lengths_`: this
  // rank's part as each rank sends it.
  size_t* const lengths_;
  size_t* const places_;
  size_t* const own_lengths_;
  bool even_ = true;  // all are equally long
};

}  // namespace

Status allreduce_coded(CompoundCall& call, const Arguments& arguments, const tutti_codec& codec,
                       const float* input, float* output, tutti_codec_error* error) {
  const auto n = size_t(call.nranks());
  auto* const openings = call.memory<Opening>(Buffer::outgoing, n);
  auto* const theirs = call.memory<Opening>(Buffer::incoming, n);
  std::fill_n(openings, n, Opening{arguments, 0, 0});
  TUTTI_TRY(call.open({openings, n}, {theirs, n}));
  ErrorMeter meter;
  CodedAllreduce allreduce(call, arguments, codec, error != nullptr ? &meter : nullptr);
  TUTTI_TRY(allreduce.run(input, arguments.length, output));
  if (error != nullptr) meter.report(error);
  return {};
}

}  // namespace tutti::sparse
