#include "lib/device/kernels/host.h"

#include <cstring>
#include <unordered_map>

#include "lib/device/kernels/combine.h"
#include "lib/device/kernels/copy.h"
#include "lib/device/kernels/list.h"

namespace tutti::device {
namespace {

constexpr Team alone{0, 1, 0, 1};

template <class Arguments, class Scratch, void (*kernel)(const Arguments&, const Team&, Scratch&)>
void run(const void* from) {
  Arguments arguments;
  std::memcpy(&arguments, from, sizeof(arguments));
  Scratch scratch{};
  kernel(arguments, alone, scratch);
}

template <class Fold, class Op>
constexpr HostKernel combine = run<CombineArguments, CombineScratch, combine_kernel<Fold, Op>>;

using Kernels = std::unordered_map<std::string_view, HostKernel>;

const Kernels& kernels() {
  static const Kernels all = {
#define TUTTI_KERNEL(name, Fold, ...) {#name, combine<Fold, __VA_ARGS__>},
      TUTTI_COMBINE_KERNELS(TUTTI_KERNEL)
#undef TUTTI_KERNEL
          {"tutti_copy", run<CopyArguments, CopyScratch, copy_kernel>},
      {"tutti_empty", run<Common, Turn, empty_kernel>},
  };
  return all;
}

}  // namespace

HostKernel find_host_kernel(std::string_view name) {
  const auto found = kernels().find(name);
  return found == kernels().end() ? nullptr : found->second;
}

}  // namespace tutti::device
