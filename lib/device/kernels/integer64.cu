// Integers of 64 bits.
#include "lib/device/kernels/global.h"

using namespace tutti::device;

TUTTI_KERNELS_INTEGER64(TUTTI_COMBINE)
