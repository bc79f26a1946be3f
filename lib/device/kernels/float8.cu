// float8_e4m3 and float8_e5m2.
#include "lib/device/kernels/global.h"

using namespace tutti::device;

TUTTI_KERNELS_FLOAT8(TUTTI_COMBINE)
