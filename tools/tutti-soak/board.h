// What ranks report to the program that watches them, through memory that they share with it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tutti::soak {

enum class Phase : uint32_t { setup, fill, call, wait, check, ended };
enum class Ending : uint32_t { none, done, failed, timed_out, not_here };

// Written by one thread of one rank.
struct alignas(128) Slot {
  std::atomic<uint64_t> step;     // the current step
  std::atomic<uint64_t> call;     // of that step, from 0
  std::atomic<uint64_t> calls;    // that have ended
  std::atomic<uint64_t> bytes;    // sent and received by these
  std::atomic<uint64_t> wrong;    // calls that wrote where they must not, or wrong results
  std::atomic<uint64_t> refused;  // calls that a forced algorithm or level cannot make
  std::atomic<Phase> phase;
  std::atomic<Ending> ending;
};

// Zeroed memory is a fresh board.
struct Board {
  static constexpr size_t most_slots = 512;
  std::atomic<uint32_t> stop;  // the stretch is to end
  Slot slots[most_slots];
};

// Mapped until the process ends. Throws std::runtime_error.
Board* open_board(const std::string& path);

// A board in a memory file of this process.
class BoardOwner {
 public:
  BoardOwner();  // throws std::runtime_error
  ~BoardOwner();
  BoardOwner(const BoardOwner&) = delete;
  BoardOwner& operator=(const BoardOwner&) = delete;

  Board& board() const { return *board_; }
  std::string path() const;  // for processes of this user

 private:
  int fd_;
  Board* board_;
};

}  // namespace tutti::soak
