#include "tools/launcher/prefix.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tutti {

// ---------------------------------------------------------------- Output

Output::Output(int fd) : fd_(fd) {
  struct stat what {};
  if (fstat(fd, &what) != 0) return;
  if (S_ISREG(what.st_mode)) {
    kind_ = Kind::file;
  } else if (S_ISSOCK(what.st_mode)) {
    kind_ = Kind::socket;
  } else {
    own_ = Fd(open(("/proc/self/fd/" + std::to_string(fd)).c_str(),
                   O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  }
}

long Output::write_some(const char* text, size_t bytes) const {
  if (kind_ == Kind::socket) return send(fd_, text, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (kind_ == Kind::file || own_) return ::write(fd(), text, bytes);
  // It cannot be opened again. A pipe that can be written to takes so much without waiting.
  constexpr size_t surely_taken = 512;
  pollfd entry{fd_, POLLOUT, 0};
  if (poll(&entry, 1, 0) == 1) return ::write(fd_, text, std::min(bytes, surely_taken));
  errno = EAGAIN;
  return -1;
}

void Output::flush() {
  while (waiting() > 0) {
    const long took = write_some(kept_.data() + written_, waiting());
    if (took > 0) {
      written_ += size_t(took);
    } else if (took < 0 && errno == EAGAIN) {
      break;
    } else if (took == 0 || errno != EINTR) {
      broken_ = true;
      written_ = kept_.size();
    }
  }
  // What is written is dropped when it is half of all: each byte is moved once at most.
  if (written_ * 2 >= kept_.size()) {
    kept_.erase(0, written_);
    written_ = 0;
  }
}

namespace {

bool go_to_one_place(int a, int b) {
  struct stat first {
  }, second{};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

Outputs::Outputs()
    : out_(STDOUT_FILENO),
      err_(STDERR_FILENO),
      same_(go_to_one_place(STDOUT_FILENO, STDERR_FILENO)) {}

// ---------------------------------------------------------------- Prefixer

Prefixer::Prefixer(Fd from, Output& to, int rank, size_t most_line)
    : from_(std::move(from)),
      to_(&to),
      tag_("[" + std::to_string(rank) + "] "),
      most_line_(most_line) {}

void Prefixer::pump(bool last) {
  // As much as a pipe holds, so that a rank that prints without end does not starve the others.
  char buffer[65536];
  const ssize_t got = read(from_.get(), buffer, sizeof buffer);
  if (got > 0) {
    take({buffer, size_t(got)});
  } else if (got == 0 || (errno != EINTR && (errno != EAGAIN || last))) {
    from_.reset();
    if (!line_.empty()) pass_on({}, true);
  }
  to_->flush();
}

void Prefixer::take(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const size_t room = most_line_ - std::min(most_line_, line_.size());
    const size_t bytes = std::min(end == text.npos ? text.size() : end, room);
    const bool ends = bytes == end || line_.size() + bytes >= most_line_;
    pass_on(text.substr(0, bytes), ends);
    text.remove_prefix(bytes == end ? bytes + 1 : bytes);
  }
}

// Appends to the line, and forwards it where it ends.
void Prefixer::pass_on(std::string_view text, bool ends) {
  if (line_.empty() && ends) {
    to_->add(tag_);
    to_->add(text);
    return to_->add("\n");
  }
  if (line_.empty()) line_ = tag_;
  line_.append(text);
  if (!ends) return;
  line_ += '\n';
  to_->add(line_);
  line_ = {};
}

}  // namespace tutti
