// The kernel that copies, and the empty one.
#include "lib/device/kernels/global.h"

using namespace tutti::device;

TUTTI_GLOBAL(tutti_copy, CopyArguments, CopyScratch, copy_kernel)
TUTTI_GLOBAL(tutti_empty, Common, Turn, empty_kernel)
