// float32, float64, float16 and bfloat16.
#include "lib/device/kernels/global.h"

using namespace tutti::device;

TUTTI_KERNELS_FLOAT(TUTTI_COMBINE)
