// Integers of 16 bits.
#include "lib/device/kernels/global.h"

using namespace tutti::device;

TUTTI_KERNELS_INTEGER16(TUTTI_COMBINE)
