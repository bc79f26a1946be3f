// The compiled kernels: fat binaries, each a module for cuModuleLoadData(); every kernel of list.h
// is in one of them. Empty in a build without nvcc.
#pragma once

#include <cstddef>
#include <span>

namespace tutti::device {

std::span<const std::span<const std::byte>> kernel_images();

}  // namespace tutti::device
