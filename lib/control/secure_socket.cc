#include "lib/control/secure_socket.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tutti {

namespace {

constexpr size_t first_bytes = 4 << 10;  // most connections carry little
constexpr size_t most_bytes = 4 * Seal::most_record_bytes;

// A call may work when it is made again.
bool may_work_again(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

msghdr message_of(std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  return message;
}

}  // namespace

SecureSocket::SecureSocket(Fd socket, Integrity integrity, const SessionKeys& keys)
    : socket_(std::move(socket)), integrity_(integrity) {
  if (integrity == Integrity::none) return;
  out_.reset(new Outgoing{{integrity, Seal::Use::sealing, keys.sending}, nullptr});
  in_.reset(new Incoming{{integrity, Seal::Use::opening, keys.receiving}, nullptr});
}

// ---------------------------------------------------------------- sending

bool SecureSocket::flush_record() {
  while (out_->begin < out_->end) {
    if (out_->failed != 0) {
      errno = out_->failed;
      return false;
    }
    const ssize_t sent = ::send(socket_.get(), out_->record.get() + out_->begin,
                                out_->end - out_->begin, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      out_->begin += size_t(sent);
    } else if (errno != EINTR) {
      if (!may_work_again(errno)) out_->failed = errno;
      return false;
    }
  }
  return true;
}

ssize_t SecureSocket::send(std::span<const iovec> parts) {
  if (out_ == nullptr) {
    const msghdr message = message_of(parts);
    return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  size_t offered = 0, taken = 0;
  for (const iovec& part : parts) offered += part.iov_len;
  while (flush_record()) {
    const size_t some = std::min(out_->text_bytes, offered - taken);
    out_->text_bytes -= some;
    taken += some;
    if (taken == offered) return ssize_t(taken);
    if (!out_->record) {
      out_->record = std::make_unique_for_overwrite<uint8_t[]>(Seal::most_record_bytes);
    }
    const size_t next = std::min(offered - taken, Seal::most_text_bytes);
    out_->begin = 0;
    out_->end = out_->seal.seal(parts, taken, next, out_->record.get());
    if (out_->end == 0) {
      errno = EIO;
      break;
    }
    out_->text_bytes = next;
  }
  return taken > 0 ? ssize_t(taken) : -1;
}

// ---------------------------------------------------------------- receiving

ssize_t SecureSocket::receive(std::span<const iovec> parts) {
  if (in_ == nullptr) {
    msghdr message = message_of(parts);
    return ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  }
  size_t taken = 0;
  for (const iovec& part : parts) {
    for (size_t done = 0; done < part.iov_len;) {
      const ssize_t got = in_->take(socket_.get(), static_cast<uint8_t*>(part.iov_base) + done,
                                    part.iov_len - done);
      if (got <= 0) return taken > 0 ? ssize_t(taken) : got;
      done += size_t(got);
      taken += size_t(got);
    }
  }
  return ssize_t(taken);
}

ssize_t SecureSocket::Incoming::take(int fd, uint8_t* to, size_t room) {
  for (;;) {
    if (text_begin < text_end) {
      const size_t some = std::min(room, text_end - text_begin);
      std::memcpy(to, text.get() + text_begin, some);
      text_begin += some;
      return ssize_t(some);
    }
    if (const uint8_t* const record = next_record(); record != nullptr) {
      const size_t length = Seal::text_bytes(record);
      const bool fits = length <= room;
      if (!fits && !text) {
        text = std::make_unique_for_overwrite<uint8_t[]>(Seal::most_text_bytes);
      }
      if (!seal.open(record, length, fits ? to : text.get())) {
        broken = true;
        continue;
      }
      begin += Seal::head_bytes + length + seal.tag_bytes();
      if (fits) return ssize_t(length);
      text_begin = 0;
      text_end = length;
      continue;
    }
    if (broken) {
      errno = EBADMSG;
      return -1;
    }
    if (failed != 0) {
      errno = failed;
      return -1;
    }
    if (const ssize_t got = fill(fd); got <= 0) return got;
  }
}

void SecureSocket::take_in() {
  if (in_ != nullptr) in_->take_in(socket_.get());
}

void SecureSocket::Incoming::take_in(int fd) {
  if (failed == 0 && end - begin < most_bytes) fill(fd);
}

const uint8_t* SecureSocket::Incoming::next_record() {
  if (broken || end - begin < Seal::head_bytes) return nullptr;
  const uint8_t* const record = bytes.get() + begin;
  const size_t length = Seal::text_bytes(record);
  broken = length == 0;
  const size_t whole = Seal::head_bytes + length + seal.tag_bytes();
  return broken || end - begin < whole ? nullptr : record;
}

// Grows with the bytes that have come, never by a record's length.
ssize_t SecureSocket::Incoming::fill(int fd) {
  const size_t kept = end - begin;
  if ((was_filled || kept == capacity) && capacity < most_bytes) {
    const size_t larger = std::clamp(4 * capacity, first_bytes, most_bytes);
    auto grown = std::make_unique_for_overwrite<uint8_t[]>(larger);
    if (kept > 0) std::memcpy(grown.get(), bytes.get() + begin, kept);
    bytes = std::move(grown);
    capacity = larger;
  } else if (begin > 0 && kept > 0) {
    std::memmove(bytes.get(), bytes.get() + begin, kept);
  }
  begin = 0;
  end = kept;
  const ssize_t got = ::recv(fd, bytes.get() + end, capacity - end, MSG_DONTWAIT);
  was_filled = got > 0 && size_t(got) == capacity - end;
  if (got > 0) end += size_t(got);
  if (got < 0 && !may_work_again(errno)) failed = errno;
  return got;
}

}  // namespace tutti
