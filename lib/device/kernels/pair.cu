// Complex numbers, and values with an index.
#include "lib/device/kernels/global.h"

using namespace tutti::device;

TUTTI_KERNELS_PAIR(TUTTI_COMBINE)
