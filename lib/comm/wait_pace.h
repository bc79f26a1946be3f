// When a rank that waits shows so: once a wait has lasted 50 ms, and then every 50 ms.
#pragma once

#include <cstdint>

namespace tutti {

class WaitPace {
 public:
  // To be called again and again while the rank waits in `call`, numbered from 1.
  bool due(uint64_t call, uint64_t now_ns) {
    if (call != call_) {
      call_ = call;
      shown_ns_ = now_ns;
    }
    if (now_ns - shown_ns_ < period_ns) return false;
    shown_ns_ = now_ns;
    return true;
  }

 private:
  static constexpr uint64_t period_ns = 50'000'000;
  uint64_t call_ = 0;
  uint64_t shown_ns_ = 0;  // or when the wait began
};

}  // namespace tutti
