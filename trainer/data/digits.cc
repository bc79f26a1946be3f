// Pictures without files: the ten digits in a 5 x 7 font, twice as large, somewhere in 20 x 20
// pixels, with noise. And noise alone, for the convex model: its samples are numbers.
#include <algorithm>
#include <array>

#include "trainer/data/data.h"

namespace tutti::train {
namespace {

constexpr std::array<std::array<uint8_t, 7>, 10> glyphs = {{
    {0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e},
    {0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e},
    {0x0e, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1f},
    {0x1f, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0e},
    {0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02},
    {0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e},
    {0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e},
    {0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08},
    {0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e},
    {0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c},
}};

class Digits : public Data {
 public:
  explicit Digits(uint64_t seed) : seed_(seed) {
    height = width = 20;
    classes = 10;
  }
  std::string about() const override { return "drawn digits, 20 x 20"; }
  uint64_t digest() const override { return mixed(1, seed_); }
  uint64_t training_samples() const override { return 60000; }
  uint64_t validation_samples() const override { return 10000; }
  void append(uint64_t index, Batch& batch) const override {
    const uint64_t key = mixed(seed_, index);
    const auto digit = size_t(mixed(key, 0) % 10);
    const auto down = int64_t(mixed(key, 1) % 7);
    const auto right = int64_t(mixed(key, 2) % 11);
    const float ink = 0.5F + 0.5F * float(fraction(mixed(key, 3)));
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        const int64_t row = (y - down) / 2;
        const int64_t column = (x - right) / 2;
        const bool inside = y >= down && x >= right && row < 7 && column < 5;
        const bool drawn = inside && (glyphs[digit][size_t(row)] >> (4 - column) & 1);
        const auto noise = float(fraction(mixed(key, uint64_t(4 + y * width + x))));
        batch.pixels.push_back(std::min(1.0F, 0.4F * noise + (drawn ? ink : 0.0F)));
      }
    }
    batch.labels.push_back(int64_t(digit));
  }

 private:
  uint64_t seed_;
};

class Noise : public Data {
 public:
  std::string about() const override { return "noise"; }
  uint64_t digest() const override { return 0; }
  uint64_t training_samples() const override { return 1 << 20; }
  uint64_t validation_samples() const override { return 1; }
  void append(uint64_t index, Batch& batch) const override { batch.indices.push_back(index); }
};

}  // namespace

std::unique_ptr<Data> make_digits(uint64_t seed) { return std::make_unique<Digits>(seed); }
std::unique_ptr<Data> make_noise() { return std::make_unique<Noise>(); }

}  // namespace tutti::train
