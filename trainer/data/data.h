// The training data: samples numbered from 0, the same on every rank, divided into training and
// validation samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/common/random.h"
#include "trainer/data/vocabulary.h"

namespace tutti::train {

// Some samples. Which vectors are filled depends on the data: text has tokens, pictures have pixels
// and labels, noise has only the numbers of its samples.
struct Batch {
  int64_t samples = 0;
  std::vector<int64_t> tokens;  // samples x (context + 1)
  std::vector<float> pixels;    // samples x height x width, from 0 to 1
  std::vector<int64_t> labels;
  std::vector<uint64_t> indices;
};

class Data {
 public:
  virtual ~Data() = default;
  virtual std::string about() const = 0;  // one line
  // A digest of everything that the samples depend on; a checkpoint is resumed with the same data
  // only.
  virtual uint64_t digest() const = 0;
  virtual uint64_t training_samples() const = 0;
  virtual uint64_t validation_samples() const = 0;
  // Appends the sample; validation samples come after those for training.
  virtual void append(uint64_t index, Batch& batch) const = 0;
  // Terms of the loss in one sample: predicted tokens of a text, 1 of a picture.
  virtual int64_t terms() const { return 1; }
  virtual double bytes_a_term() const { return 1; }  // of a text
  const Vocabulary& vocabulary() const { return vocabulary_; }
  int64_t height = 0;
  int64_t width = 0;
  int64_t classes = 0;

 protected:
  Vocabulary vocabulary_;
};

// Opens `name`, "text:PATH", "idx:FOLDER", "digits" or "noise"; throws BadInput if it is missing or
// damaged. `context`: tokens of a text sample that predict the next one; `tokens`: as --tokens.
std::unique_ptr<Data> open_data(const std::string& name, int64_t context, uint64_t seed,
                                const std::string& tokens = "");

// Samples [begin, end) of the `batch` samples of a step, in order. Every epoch goes through all
// training samples once, in an order that the seed and the epoch pick.
Batch samples_of(const Data& data, uint64_t seed, int64_t step, int64_t batch, int64_t begin,
                 int64_t end);
// Validation samples [begin, end).
Batch validation_of(const Data& data, uint64_t begin, uint64_t end);

// Where piece `piece` of `pieces` begins when `total` is cut evenly; lengths differ by at most one.
constexpr int64_t cut(int64_t total, int64_t pieces, int64_t piece) {
  return total / pieces * piece + (piece < total % pieces ? piece : total % pieces);
}

// ---------------------------------------------------------------- shards

// The pieces of a step's samples, numbered over all workers.
inline int64_t shard_samples(const Options& o, int64_t shard) {
  return cut(o.batch, o.shards, shard + 1) - cut(o.batch, o.shards, shard);
}

inline Batch shard_batch(const Options& o, const Data& data, int64_t step, int64_t shard) {
  return samples_of(data, o.seed, step, o.batch, cut(o.batch, o.shards, shard),
                    cut(o.batch, o.shards, shard + 1));
}

// The seed of the shard's dropout.
inline uint64_t shard_seed(const Options& o, int64_t step, int64_t shard) {
  return mixed(o.seed, uint64_t(step), uint64_t(shard));
}

// ---------------------------------------------------------------- the kinds of data, one file each

std::unique_ptr<Data> open_text(const std::string& path, int64_t context,
                                const std::string& tokens);
std::unique_ptr<Data> open_idx(const std::string& folder);
std::unique_ptr<Data> make_digits(uint64_t seed);
std::unique_ptr<Data> make_noise();

// A whole file, unpacked where its name ends in .gz. Throws BadInput in the name of the option.
std::string data_in(const std::string& path, const char* option = "--data");

// FNV-1a, of bytes that follow those of `so_far`.
inline uint64_t digest_of(std::span<const std::byte> bytes, uint64_t so_far = 0xcbf29ce484222325u) {
  for (const std::byte byte : bytes) so_far = (so_far ^ uint64_t(byte)) * 0x100000001b3u;
  return so_far;
}

}  // namespace tutti::train
