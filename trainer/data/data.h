// The training data: samples numbered from 0, the same on every rank, divided into training and
// validation samples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

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

}  // namespace tutti::train
