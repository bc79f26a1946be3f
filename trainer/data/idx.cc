// MNIST's file format: pictures and labels of a folder, in the files train-images-idx3-ubyte and
// train-labels-idx1-ubyte, with t10k-... for validation if they exist, else the last tenth; .gz
// too.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainer/common/error.h"
#include "trainer/data/data.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;

struct Array {
  std::vector<uint64_t> shape;
  std::string bytes;
};

// The file of that name, or with .gz at its end.
fs::path file_of(const std::string& folder, const std::string& name) {
  const fs::path plain = fs::path(folder) / name, packed = plain.string() + ".gz";
  return !fs::exists(plain) && fs::exists(packed) ? packed : plain;
}

// Every number in the file is checked against the file's length before it is used.
Array read_array(const fs::path& path, size_t dimensions) {
  Array out;
  out.bytes = data_in(path);
  const size_t head = 4 + 4 * dimensions;
  const auto byte = [&](size_t i) { return uint64_t(uint8_t(out.bytes[i])); };
  if (out.bytes.size() < head || byte(0) != 0 || byte(1) != 0 || byte(2) != 8 ||
      byte(3) != dimensions)
    throw BadInput(fmt::format("--data: {} is no idx file of bytes in {} dimension{}",
                               path.string(), dimensions, dimensions == 1 ? "" : "s"));
  uint64_t total = 1;
  for (size_t at = 4; at < head; at += 4) {
    out.shape.push_back(byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3));
    if (__builtin_mul_overflow(total, out.shape.back(), &total)) total = ~uint64_t(0);
  }
  out.bytes.erase(0, head);
  if (total != out.bytes.size())
    throw BadInput(fmt::format("--data: {} has {} bytes of data where its header says {}",
                               path.string(), out.bytes.size(), total));
  return out;
}

struct Labelled {
  Array images, labels;
};
// The set's files, "train" or "t10k".
Labelled read_set(const std::string& folder, const std::string& set) {
  Labelled read{read_array(file_of(folder, set + "-images-idx3-ubyte"), 3),
                read_array(file_of(folder, set + "-labels-idx1-ubyte"), 1)};
  const std::vector<uint64_t>& shape = read.images.shape;
  if (shape[0] != read.labels.shape[0])
    throw BadInput(fmt::format("--data idx:{}: {} pictures, but {} labels", folder, shape[0],
                               read.labels.shape[0]));
  if (shape[0] < 2 || shape[1] < 4 || shape[2] < 4)
    throw BadInput(fmt::format("--data idx:{}: too few or too small pictures", folder));
  return read;
}

class Pictures : public Data {
 public:
  explicit Pictures(const std::string& folder) : folder_(folder), all_(read_set(folder, "train")) {
    std::string& labels = all_.labels.bytes;
    training_ = labels.size() - std::max<size_t>(labels.size() / 10, 1);
    const std::vector<uint64_t>& shape = all_.images.shape;
    if (fs::exists(file_of(folder, "t10k-images-idx3-ubyte"))) {
      training_ = labels.size();
      const Labelled more = read_set(folder, "t10k");
      if (more.images.shape[1] != shape[1] || more.images.shape[2] != shape[2])
        throw BadInput(fmt::format("--data idx:{}: pictures of two sizes", folder));
      all_.images.bytes += more.images.bytes;
      labels += more.labels.bytes;
    }
    height = int64_t(shape[1]);
    width = int64_t(shape[2]);
    for (const char label : labels) classes = std::max<int64_t>(classes, 1 + uint8_t(label));
  }
  std::string about() const override {
    return fmt::format("{} pictures of {} x {} ({})", all_.labels.bytes.size(), height, width,
                       folder_);
  }
  uint64_t digest() const override {
    return digest_of(std::as_bytes(std::span(all_.labels.bytes)),
                     digest_of(std::as_bytes(std::span(all_.images.bytes))));
  }
  uint64_t training_samples() const override { return training_; }
  uint64_t validation_samples() const override { return all_.labels.bytes.size() - training_; }
  void append(uint64_t index, Batch& batch) const override {
    const size_t size = size_t(height * width);
    for (size_t i = 0; i < size; ++i)
      batch.pixels.push_back(float(uint8_t(all_.images.bytes[index * size + i])) / 255.0F);
    batch.labels.push_back(uint8_t(all_.labels.bytes[index]));
  }

 private:
  std::string folder_;
  Labelled all_;
  size_t training_ = 0;
};

}  // namespace

std::unique_ptr<Data> open_idx(const std::string& folder) {
  return std::make_unique<Pictures>(folder);
}

}  // namespace tutti::train
