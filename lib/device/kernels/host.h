// The kernels on the host, for tests without a GPU: the same code, as one block of one thread.
#pragma once

#include <string_view>

namespace tutti::device {

// `arguments`: the struct that the kernel takes, of any alignment. Returns when all is done.
using HostKernel = void (*)(const void* arguments);

// A kernel of list.h by its name; null for any other.
HostKernel find_host_kernel(std::string_view name);

}  // namespace tutti::device
