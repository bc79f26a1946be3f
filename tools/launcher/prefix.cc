#include "tools/launcher/prefix.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include <string_view>
#include <utility>

namespace tutti {
namespace {

// If the reader has closed the pipe the rest is lost; the ranks go on.
void write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(to, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(size_t(written));
    } else if (errno == EAGAIN) {
      pollfd writable{to, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

Prefixer::Prefixer(Fd from, int to, int rank)
    : from_(std::move(from)), to_(to), tag_("[" + std::to_string(rank) + "] ") {}

void Prefixer::pump() {
  // As much as a pipe holds, so that a rank that prints without end does not starve the others.
  char buffer[65536];
  const ssize_t got = read(from_.get(), buffer, sizeof buffer);
  if (got > 0) {
    pending_.append(buffer, size_t(got));
    pass_on();
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    from_.reset();
    if (!pending_.empty()) pending_ += '\n';
    pass_on();
  }
}

void Prefixer::close() {
  if (!open()) return;
  char buffer[65536];
  for (ssize_t got; (got = read(from_.get(), buffer, sizeof buffer)) > 0;)
    pending_.append(buffer, size_t(got));
  from_.reset();
  if (!pending_.empty() && pending_.back() != '\n') pending_ += '\n';
  pass_on();
}

void Prefixer::pass_on() {
  std::string text;
  size_t from = 0;
  for (size_t end; (end = pending_.find('\n', from)) != pending_.npos; from = end + 1)
    text += tag_ + pending_.substr(from, end + 1 - from);
  pending_.erase(0, from);
  write_all(to_, text);
}

}  // namespace tutti
