// A descriptor that goes with one byte over a Unix socket.
#pragma once

#include <sys/socket.h>

#include <cstring>

namespace tutti::bench {

// What both ends need of such a message.
class DescriptorMessage {
 public:
  DescriptorMessage() {
    message_.msg_iov = &data_;
    message_.msg_iovlen = 1;
    message_.msg_control = control_;
    message_.msg_controllen = sizeof control_;
  }
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;

  // False: nobody is there to take it.
  bool send(int to, int descriptor) {
    cmsghdr* const header = CMSG_FIRSTHDR(&message_);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return sendmsg(to, &message_, MSG_NOSIGNAL) == 1;
  }
  // The caller's to close; -1: none came.
  int receive(int from) {
    if (recvmsg(from, &message_, MSG_CMSG_CLOEXEC) != 1) return -1;
    const cmsghdr* const header = CMSG_FIRSTHDR(&message_);
    if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
    int descriptor;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    return descriptor;
  }

 private:
  char byte_ = 0;
  iovec data_{&byte_, 1};
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int))] = {};
  msghdr message_{};
};

}  // namespace tutti::bench
