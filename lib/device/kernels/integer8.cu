// Integers of 8 bits, and bool.
#include "lib/device/kernels/global.h"

using namespace tutti::device;

TUTTI_KERNELS_INTEGER8(TUTTI_COMBINE)
