// What is shown while a run goes on.
#include "trainer/report/screen.h"

#include <gtest/gtest.h>

namespace tutti::train {
namespace {

StepRecord record() {
  StepRecord r;
  r.step = 1234;
  r.seconds = 0.5;
  r.samples_per_s = 16.25;
  r.figures.loss = 2.34567;
  r.figures.exposed = 0.025;
  return r;
}

TEST(Progress, HasWhatMattersIn80Columns) {
  const std::string line = progress_line(record(), 5000, 3661, 79);
  EXPECT_LE(line.size(), 79U);
  EXPECT_EQ(line, "step 1234/5000  loss 2.346  61:01 left  16.25 samples/s  5 % waits");
}

TEST(Progress, HasABarWhereThereIsRoomAndNeverTooMuch) {
  EXPECT_EQ(progress_line(record(), 5000, 59.9, 120),
            "[####................] step 1234/5000  loss 2.346  0:59 left  16.25 samples/s  5 % "
            "waits");
  for (size_t columns = 16; columns < 120; ++columns) {
    const std::string line = progress_line(record(), 5000, 3661, columns);
    EXPECT_LE(line.size(), columns);
    EXPECT_NE(line.find("step 1234/5000"), std::string::npos) << columns;
  }
}

}  // namespace
}  // namespace tutti::train
