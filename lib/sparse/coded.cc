#include "lib/sparse/coded.h"

#include <algorithm>
#include <cmath>

#include "lib/reduce/reduce.h"
#include "lib/sparse/pieces.h"

namespace tutti::sparse {

namespace {

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

// A part of the vector, encoded.
struct Block {
  Part part;
  size_t bytes;
  size_t at;  // among the encoded parts of one vector
};

}  // namespace

Status allreduce_coded(CompoundCall& call, const Arguments& arguments, const tutti_codec& codec,
                       const float* input, float* output, tutti_codec_error* error) {
  const auto n = size_t(call.nranks());
  const std::vector<Opening> openings(n, Opening{arguments, 0, 0});
  std::vector<Opening> theirs;
  TUTTI_TRY(call.open(openings, &theirs));

  std::vector<Block> blocks;
  std::vector<size_t> lengths;
  size_t encoded_bytes = 0;
  for (size_t r = 0; r < n; ++r) {
    const Part part = part_of(arguments.length, int(r), int(n), codec.block);
    const size_t bytes = encoded_bytes_of(codec, part.size());
    blocks.push_back({part, bytes, encoded_bytes});
    lengths.push_back(bytes);
    encoded_bytes += bytes;
  }
  const Block& own = blocks[size_t(call.rank())];
  const size_t own_count = own.part.size();

  std::byte* const encoded = call.memory(Buffer::outgoing, encoded_bytes);
  std::byte* const incoming = call.memory(Buffer::incoming, own.bytes * n);
  auto* const decoded = call.memory<float>(Buffer::operands, own_count * n);
  ErrorMeter meter;
  const auto encode = [&](const float* values, const Block& block, std::byte* to) {
    if (block.part.size() == 0) return;
    encode_with(codec, values, block.part.size(), to);
    if (error == nullptr) return;
    auto* const back = call.memory<float>(Buffer::values, block.part.size());
    decode_with(codec, to, block.part.size(), back);
    meter.add(values, back, block.part.size());
  };

  for (const Block& block : blocks) encode(input + block.part.begin, block, encoded + block.at);
  TUTTI_TRY(call.alltoallv(encoded, lengths, incoming, std::vector<size_t>(n, own.bytes)));
  std::vector<const void*> operands;
  for (size_t r = 0; r < n; ++r) {
    float* const operand = decoded + r * own_count;
    if (own_count != 0) {
      decode_with(codec, incoming + r * own.bytes, own_count, operand);
    }
    operands.push_back(operand);
  }
  const Kernels kernels = find_kernels(TUTTI_FLOAT32, tutti_op(arguments.op));
  float* const reduced = decoded;
  kernels.reduce(reduced, operands.data(), n, own_count);
  if (kernels.divide != nullptr) kernels.divide(reduced, own_count, uint32_t(n));

  encode(reduced, own, incoming);
  TUTTI_TRY(call.allgatherv(incoming, encoded, lengths));
  for (const Block& block : blocks) {
    if (block.part.size() == 0) continue;
    decode_with(codec, encoded + block.at, block.part.size(), output + block.part.begin);
  }
  if (error != nullptr) meter.report(error);
  return {};
}

}  // namespace tutti::sparse
