// What a rank's process, whose EXPECT_ nobody would hear, checks of itself.
#pragma once

#include <cstdio>

#include "tests/support/processes.h"

// In a function that has a `Report report` and returns it: ends it where the condition does not
// hold, with the line and the condition as its text.
#define REQUIRE(condition)                                                        \
  do {                                                                            \
    if (!(condition)) {                                                           \
      snprintf(report.text, sizeof(report.text), "%d: %s", __LINE__, #condition); \
      return report;                                                              \
    }                                                                             \
  } while (false)
