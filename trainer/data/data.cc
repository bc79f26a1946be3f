#include "trainer/data/data.h"

#include <fmt/format.h>

#include <system_error>

#include "trainer/common/error.h"
#include "trainer/common/files.h"
#include "trainer/common/random.h"
#include "trainer/data/sources.h"

namespace tutti::train {

Batch samples_of(const Data& data, uint64_t seed, int64_t step, int64_t batch, int64_t begin,
                 int64_t end) {
  Batch out;
  out.samples = end - begin;
  const uint64_t size = data.training_samples();
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t number = uint64_t(step) * uint64_t(batch) + uint64_t(i);
    const uint64_t epoch = number / size;
    data.append(permuted(number % size, size, mixed(seed, epoch)), out);
  }
  return out;
}

Batch validation_of(const Data& data, uint64_t begin, uint64_t end) {
  Batch out;
  out.samples = int64_t(end - begin);
  for (uint64_t i = begin; i < end; ++i) data.append(data.training_samples() + i, out);
  return out;
}

std::string data_in(const std::string& path) {
  try {
    return read_file(path);
  } catch (const std::system_error& failed) {
    throw BadInput(fmt::format("--data: {}", failed.what()));
  }
}

std::unique_ptr<Data> open_data(const std::string& name, int64_t context, uint64_t seed) {
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  const std::string path = colon == std::string::npos ? "" : name.substr(colon + 1);
  if (kind == "text") return open_text(path, context);
  if (kind == "idx") return open_idx(path);
  if (name == "digits") return make_digits(seed);
  if (name == "noise") return make_noise();
  throw BadInput(fmt::format("--data {}: allowed are text:PATH, idx:FOLDER and digits", name));
}

}  // namespace tutti::train
