#include "lib/device/kernels/images.h"

#include <cstdint>
#include <vector>

// By embed.py.
extern "C" {
struct TuttiKernelImage {
  const std::byte* begin;
  uint64_t bytes;
};
extern const TuttiKernelImage tutti_kernel_images[];
extern const uint64_t tutti_kernel_image_count;
}

namespace tutti::device {

std::span<const std::span<const std::byte>> kernel_images() {
  static const std::vector<std::span<const std::byte>> images = [] {
    std::vector<std::span<const std::byte>> all;
    for (uint64_t i = 0; i < tutti_kernel_image_count; ++i) {
      all.emplace_back(tutti_kernel_images[i].begin, tutti_kernel_images[i].bytes);
    }
    return all;
  }();
  return images;
}

}  // namespace tutti::device
