// The times of a rank's work, for the report and the trace.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace tutti::train {

// Seconds of a clock that all processes of a host share.
inline double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

struct Event {
  std::string lane;  // "compute", "communication"
  std::string name;
  double begin = 0, end = 0;  // seconds
  int64_t step = 0;
  double bytes = 0;
};

// Keeps the first steps and the last one: enough to look at, and bounded.
class Timeline {
 public:
  static constexpr int64_t kept_steps = 20;
  explicit Timeline(bool on) : on_(on) {}
  void step(int64_t number) {
    if (first_ < 0) first_ = number;
    step_ = number;
    while (on_ && !events_.empty() && events_.back().step >= first_ + kept_steps &&
           events_.back().step < number)
      events_.pop_back();
  }
  void add(std::string lane, std::string name, double begin, double end, double bytes = 0) {
    if (on_) events_.push_back({std::move(lane), std::move(name), begin, end, step_, bytes});
  }
  const std::vector<Event>& events() const { return events_; }

 private:
  bool on_;
  int64_t first_ = -1;
  int64_t step_ = 0;
  std::vector<Event> events_;
};

}  // namespace tutti::train
