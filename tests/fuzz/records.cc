// Any bytes as records: none opens that was not sealed, as a whole stream or as one that was
// changed. And frames over a channel, in clear or in records: what comes out is what went in, up to
// the first thing that was no frame.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "lib/control/frame_channel.h"

using namespace tutti;

namespace {

const JobKey key = {{1, 2, 3}};
constexpr Integrity kinds[] = {Integrity::none, Integrity::checksum, Integrity::encrypted};

struct Ends {
  Fd sender;
  FrameChannel channel;
};

Ends make_ends(Integrity kind) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) abort();
  return {Fd(ends[0]), {{Fd(ends[1]), kind, {key, key}}, wire::most_mail_bytes}};
}

// What comes over a socket: no frame, whatever it is.
void read_as_frames(const uint8_t* data, size_t bytes) {
  Ends ends = make_ends(Integrity::encrypted);
  static_cast<void>(::send(ends.sender.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT));
  ::shutdown(ends.sender.get(), SHUT_WR);
  wire::Header header;
  std::string_view payload;
  Status why;
  const FrameChannel::Got got = ends.channel.read(&header, &payload, &why);
  if (got != FrameChannel::Got::closed && got != FrameChannel::Got::broken) abort();
  if (got == FrameChannel::Got::broken && why.code() != TUTTI_CORRUPT) abort();
}

// The same, taken in before it is received; the sender goes without having read what it got.
void take_in_first(const uint8_t* data, size_t bytes) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) abort();
  Fd sender(ends[0]);
  SecureSocket socket(Fd(ends[1]), Integrity::encrypted, {key, key});
  uint8_t got[64] = {};
  const iovec part{got, sizeof(got)};
  if (socket.send({&part, 1}) != sizeof(got)) abort();
  static_cast<void>(::send(sender.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT));
  sender.reset();
  for (int i = 0; i < 3; ++i) socket.take_in();
  const ssize_t taken = socket.receive({&part, 1});
  if (taken > 0 || (taken < 0 && errno != EBADMSG && errno != ECONNRESET)) abort();
}

// What the input wants to be sent: frames, and other things.
struct Wish {
  std::string text;
  std::vector<size_t> lengths;  // of the payloads that can be read
  bool sensible = true;
};

Wish wish_of(const uint8_t* data, size_t bytes) {
  Wish wish;
  for (size_t i = 0; i + 2 <= bytes && wish.text.size() < 100'000; i += 2) {
    wire::Header header;
    header.type = wire::Type(data[i] % 12);
    header.epoch = i;
    header.length = 257 * data[i + 1];
    if (data[i] >= 128) header.length = 257 * 255 + data[i + 1];
    wire::HeaderBytes frame = wire::encode(header);
    if (data[i] == 127) frame[data[i + 1] % frame.size()] ^= 1;
    wish.text.append(reinterpret_cast<const char*>(frame.data()), frame.size());
    wish.text.append(header.length, char(i));
    wire::Header known;
    wish.sensible &= wire::parse(frame, &known).ok() && header.length <= wire::most_mail_bytes;
    if (wish.sensible) wish.lengths.push_back(header.length);
  }
  return wish;
}

// The text as it goes over the socket, in records whose lengths the input chooses.
std::string sealed(const std::string& text, Integrity kind, size_t most) {
  if (kind == Integrity::none) return text;
  Seal seal(kind, Seal::Use::sealing, key);
  std::string stream;
  std::vector<uint8_t> record(Seal::most_record_bytes);
  const iovec all{const_cast<char*>(text.data()), text.size()};
  for (size_t at = 0; at < text.size();) {
    const size_t some = std::min(most, text.size() - at);
    const size_t length = seal.seal({&all, 1}, at, some, record.data());
    stream.append(reinterpret_cast<const char*>(record.data()), length);
    at += some;
  }
  return stream;
}

void send_frames(const uint8_t* data, size_t bytes) {
  const Integrity kind = kinds[data[0] % 3];
  const Wish wish = wish_of(data + 3, bytes - 3);
  // Not so many pieces that it takes long.
  const std::string stream =
      sealed(wish.text, kind, std::max<size_t>(1 + 128 * data[1], wish.text.size() / 512));
  const size_t piece = std::max<size_t>(1 + 131 * data[2], stream.size() / 512);
  Ends ends = make_ends(kind);
  wire::Header header;
  std::string_view payload;
  Status why;
  size_t found = 0;
  FrameChannel::Got got = FrameChannel::Got::nothing;
  const auto read_all = [&] {
    while ((got = ends.channel.read(&header, &payload, &why)) == FrameChannel::Got::frame) {
      if (found == wish.lengths.size() || payload.size() != wish.lengths[found]) abort();
      if (header.epoch != 2 * found) abort();
      if (payload.find_first_not_of(char(2 * found)) != payload.npos) abort();
      ++found;
    }
  };
  for (size_t at = 0; at < stream.size() && got == FrameChannel::Got::nothing;) {
    const ssize_t sent = ::send(ends.sender.get(), stream.data() + at,
                                std::min(piece, stream.size() - at), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) at += size_t(sent);
    read_all();
  }
  ends.sender.reset();
  if (got == FrameChannel::Got::nothing) read_all();
  if (got != (wish.sensible ? FrameChannel::Got::closed : FrameChannel::Got::broken)) abort();
  if (found != wish.lengths.size()) abort();
  if (!wish.sensible && why.code() != TUTTI_CORRUPT) abort();
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

// Once: beyond the record with which the key is another.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  Seal sealing(Integrity::encrypted, Seal::Use::sealing, key);
  Seal opening(Integrity::encrypted, Seal::Use::opening, key);
  uint8_t byte = 1, record[64];
  const iovec text{&byte, 1};
  for (uint64_t i = 0; i < Seal::records_a_key + 2; ++i) {
    sealing.seal({&text, 1}, 0, 1, record);
    uint8_t opened = 0;
    if (!opening.open(record, 1, &opened) || opened != byte++) abort();
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  read_as_frames(data, bytes);
  take_in_first(data, bytes);
  if (bytes < 2) return 0;
  change_a_record(Integrity::checksum, data, bytes);
  change_a_record(Integrity::encrypted, data, bytes);
  if (bytes >= 3) send_frames(data, bytes);
  return 0;
}
