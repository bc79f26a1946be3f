// Where the driver cannot be loaded, everything that needs no GPU goes on.
#include <gtest/gtest.h>

#include "lib/device/driver.h"

namespace tutti::device {
namespace {

TEST(NoDriver, GettingItSaysWhy) {
  Driver* driver = nullptr;
  for (int time = 0; time < 2; ++time) {
    const Status status = Driver::get(&driver);
    EXPECT_EQ(status.code(), TUTTI_UNSUPPORTED);
    const bool known = status.text().starts_with("there is no driver of GPUs: ") ||
                       status.text() == "this build of tutti has no CUDA";
    EXPECT_TRUE(known) << status.text();
    EXPECT_EQ(driver, nullptr);
  }
}

TEST(NoDriver, AllMemoryIsTheHosts) {
  int variable = 0, device = 7;
  tutti_memory_kind kind = TUTTI_MEMORY_DEVICE;
  EXPECT_EQ(tutti_memory_classify(&variable, &kind, &device), TUTTI_OK);
  EXPECT_EQ(kind, TUTTI_MEMORY_HOST);
  EXPECT_EQ(device, -1);
  EXPECT_EQ(tutti_memory_classify(&variable, nullptr, &device), TUTTI_INVALID);
}

}  // namespace
}  // namespace tutti::device
