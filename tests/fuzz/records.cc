// Any bytes as records: none opens that was not sealed, as a whole stream or as one that was
// changed.
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "lib/control/frame_channel.h"

using namespace tutti;

namespace {

const JobKey key = {{1, 2, 3}};

// What comes over a socket: no frame, whatever it is.
void read_as_frames(const uint8_t* data, size_t bytes) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) return;
  const Fd sender(ends[0]);
  FrameChannel channel({Fd(ends[1]), Integrity::encrypted, {key, key}}, wire::most_abort_bytes);
  static_cast<void>(::send(sender.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT));
  ::shutdown(sender.get(), SHUT_WR);
  wire::Header header;
  std::string_view payload;
  Status why;
  const FrameChannel::Got got = channel.read(&header, &payload, &why);
  if (got != FrameChannel::Got::closed && got != FrameChannel::Got::broken) abort();
  if (got == FrameChannel::Got::broken && why.code() != TUTTI_CORRUPT) abort();
}

// The first byte says where a record of the rest is changed, and how; 0: not at all.
void change_a_record(Integrity kind, const uint8_t* data, size_t bytes) {
  const iovec text{const_cast<uint8_t*>(data) + 1, std::min(bytes - 1, Seal::most_text_bytes)};
  Seal sealing(kind, Seal::Use::sealing, key), opening(kind, Seal::Use::opening, key);
  std::vector<uint8_t> record(Seal::most_record_bytes), opened(Seal::most_text_bytes);
  const size_t length = sealing.seal({&text, 1}, 0, text.iov_len, record.data());
  const uint8_t change = data[0];
  record[change % length] ^= change;
  // Another length is another record, of which more may be asked for than there is: of zeros.
  const bool opens = opening.open(record.data(), Seal::text_bytes(record.data()), opened.data());
  if (opens != (change == 0)) abort();
  if (opens && std::memcmp(opened.data(), text.iov_base, text.iov_len) != 0) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  read_as_frames(data, bytes);
  if (bytes < 2) return 0;
  change_a_record(Integrity::checksum, data, bytes);
  change_a_record(Integrity::encrypted, data, bytes);
  return 0;
}
