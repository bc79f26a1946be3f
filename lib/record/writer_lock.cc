#include "lib/record/writer_lock.h"

#include <fcntl.h>

#include <cerrno>

namespace tutti::record {

namespace {

struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Status lock_as_writer(const Fd& file) {
  struct flock lock = whole_file(F_WRLCK);
  if (fcntl(file.get(), F_SETLK, &lock) == 0) return {};
  return system_error("cannot lock the flight record", errno);
}

Writer writer_of(const Fd& file) {
  struct flock lock = whole_file(F_RDLCK);
  if (fcntl(file.get(), F_GETLK, &lock) != 0) return {};
  if (lock.l_type == F_UNLCK) return {Writer::Is::gone, 0};
  return {Writer::Is::there, lock.l_pid};
}

}  // namespace tutti::record
