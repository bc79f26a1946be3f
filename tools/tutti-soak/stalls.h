// Stops the calling thread at any instruction, as preemption would: a timer's signal, whose handler
// sleeps.
#pragma once

#include <ctime>

namespace tutti::soak {

class Stalls {
 public:
  Stalls();  // throws std::runtime_error
  ~Stalls();
  Stalls(const Stalls&) = delete;
  Stalls& operator=(const Stalls&) = delete;

  void set(bool on);

 private:
  bool on_ = false;
};

}  // namespace tutti::soak
