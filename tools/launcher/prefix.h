// Forwards a rank's output, whole lines only, each prefixed with the rank. Nothing here waits for
// who reads it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lib/base/fd.h"

namespace tutti {

// What is written to a descriptor of the launcher's, as fast as its reader takes it.
class Output {
 public:
  explicit Output(int fd);

  void add(std::string_view text) {
    if (!broken_) kept_.append(text);
  }
  // Writes what can be written without waiting, and keeps the rest. If the reader has closed its
  // end all is lost; the ranks go on.
  void flush();
  size_t waiting() const { return kept_.size() - written_; }
  bool is_full() const { return waiting() >= most_waiting; }
  // To poll for POLLOUT while something waits.
  int fd() const { return own_ ? own_.get() : fd_; }

 private:
  static constexpr size_t most_waiting = 1 << 20;
  enum class Kind { file, socket, other };
  long write_some(const char* text, size_t bytes) const;

  int fd_;
  Kind kind_ = Kind::other;
  Fd own_;  // a description of its own that does not block; that of `fd_` others may share
  std::string kept_;
  size_t written_ = 0;  // of them
  bool broken_ = false;
};

// Of the launcher: one Output for both where they go to one place, so that lines stay whole.
class Outputs {
 public:
  Outputs();
  Output& out() { return out_; }
  Output& err() { return same_ ? out_ : err_; }

 private:
  Output out_, err_;
  bool same_;
};

class Prefixer {
 public:
  // Of a line that is longer, `most_line` bytes are a line of their own, and then the rest.
  Prefixer(Fd from, Output& to, int rank, size_t most_line);

  int fd() const { return from_.get(); }
  bool open() const { return bool(from_); }
  // Whether pump() would read: not while what was read waits for its reader.
  bool reads() const { return open() && !to_->is_full(); }

  // Reads once and forwards whole lines; at the end of the input also a last one without a newline.
  // `last`: there is no more than what has come.
  void pump(bool last = false);

 private:
  void take(std::string_view text);
  void pass_on(std::string_view text, bool ends);

  Fd from_;
  Output* to_;
  std::string tag_;
  size_t most_line_;
  std::string line_;  // the beginning of one
};

}  // namespace tutti
