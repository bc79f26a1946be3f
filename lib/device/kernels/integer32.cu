// Integers of 32 bits.
#include "lib/device/kernels/global.h"

using namespace tutti::device;

TUTTI_KERNELS_INTEGER32(TUTTI_COMBINE)
