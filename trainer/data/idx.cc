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
fs::path file_of(const std::string& folder, const char* name) {
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

class Pictures : public Data {
 public:
  Pictures(std::string folder, const Array& images, const Array& labels, size_t training)
      : folder_(std::move(folder)),
        pixels_(images.bytes),
        labels_(labels.bytes),
        training_(training) {
    height = int64_t(images.shape[1]);
    width = int64_t(images.shape[2]);
    classes =
        1 + *std::max_element(reinterpret_cast<const uint8_t*>(labels_.data()),
                              reinterpret_cast<const uint8_t*>(labels_.data()) + labels_.size());
  }
  std::string about() const override {
    return fmt::format("{} pictures of {} x {} ({})", labels_.size(), height, width, folder_);
  }
  uint64_t digest() const override {
    return digest_of(std::as_bytes(std::span(labels_)),
                     digest_of(std::as_bytes(std::span(pixels_))));
  }
  uint64_t training_samples() const override { return training_; }
  uint64_t validation_samples() const override { return labels_.size() - training_; }
  void append(uint64_t index, Batch& batch) const override {
    const size_t size = size_t(height * width);
    for (size_t i = 0; i < size; ++i)
      batch.pixels.push_back(float(uint8_t(pixels_[index * size + i])) / 255.0F);
    batch.labels.push_back(uint8_t(labels_[index]));
  }

 private:
  std::string folder_;
  std::string pixels_;
  std::string labels_;
  size_t training_;
};

void check_pair(const std::string& folder, const Array& images, const Array& labels) {
  if (images.shape[0] != labels.shape[0])
    throw BadInput(fmt::format("--data idx:{}: {} pictures, but {} labels", folder, images.shape[0],
                               labels.shape[0]));
  if (images.shape[0] < 2 || images.shape[1] < 4 || images.shape[2] < 4)
    throw BadInput(fmt::format("--data idx:{}: too few or too small pictures", folder));
}

}  // namespace

std::unique_ptr<Data> open_idx(const std::string& folder) {
  Array images = read_array(file_of(folder, "train-images-idx3-ubyte"), 3);
  Array labels = read_array(file_of(folder, "train-labels-idx1-ubyte"), 1);
  check_pair(folder, images, labels);
  const size_t all = labels.bytes.size();
  size_t training = all - std::max<size_t>(all / 10, 1);
  if (const fs::path pictures = file_of(folder, "t10k-images-idx3-ubyte"); fs::exists(pictures)) {
    const Array more = read_array(pictures, 3);
    const Array theirs = read_array(file_of(folder, "t10k-labels-idx1-ubyte"), 1);
    check_pair(folder, more, theirs);
    if (more.shape[1] != images.shape[1] || more.shape[2] != images.shape[2])
      throw BadInput(fmt::format("--data idx:{}: pictures of two sizes", folder));
    images.bytes += more.bytes;
    labels.bytes += theirs.bytes;
    training = all;
  }
  return std::make_unique<Pictures>(folder, images, labels, training);
}

}  // namespace tutti::train
