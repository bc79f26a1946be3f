#include "tools/tutti-soak/board.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace tutti::soak {
namespace {

Board* map_board(int fd) {
  void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    throw std::runtime_error(fmt::format("cannot map the board: {}", std::strerror(errno)));
  return static_cast<Board*>(memory);
}

}  // namespace

Board* open_board(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0)
    throw std::runtime_error(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  Board* const board = map_board(fd);
  close(fd);
  return board;
}

BoardOwner::BoardOwner() : fd_(memfd_create("tutti-soak", MFD_CLOEXEC)) {
  if (fd_ < 0 || ftruncate(fd_, sizeof(Board)) != 0)
    throw std::runtime_error(fmt::format("cannot make the board: {}", std::strerror(errno)));
  board_ = map_board(fd_);
}

BoardOwner::~BoardOwner() {
  munmap(board_, sizeof(Board));
  close(fd_);
}

std::string BoardOwner::path() const { return fmt::format("/proc/{}/fd/{}", getpid(), fd_); }

}  // namespace tutti::soak
