// What a peer sends as data over tcp, in any pieces, first over the control channel and then over
// a connection, while the receiver looks, takes and changes its call as the input wishes: it gets
// the payload of every right frame, in order, never for another call than that of the frame, and
// nothing of or after the first that is wrong, which is named. Wrong is also a frame of another
// call where an element that is peeked at goes on.
#include "transports/tcp/stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/fuzz/input.h"

using namespace tutti;
using fuzz::Input;

namespace {

constexpr uint64_t comm = 7;
constexpr int self = 0, peer = 1;
constexpr size_t most_text_bytes = 60'000, most_granule = 16;

uint8_t payload_at(size_t position) { return uint8_t(position * 37 + position / 256); }

// What the peer sends.
struct Sent {
  std::string text;
  std::vector<uint32_t> digests;  // of the call of each byte of payload
  std::vector<size_t> changes;    // where the payload of another call begins
  bool right = true;              // nothing is wrong in it, though the last frame may be cut off
};

Sent sent_by(Input& input) {
  Sent sent;
  const size_t frames = input.byte();
  size_t last = 0;  // length of a payload
  uint32_t digest = 0;
  for (size_t i = 0; i < frames && sent.right && sent.text.size() < most_text_bytes; ++i) {
    wire::Header header;
    header.comm = comm;
    header.src = peer;
    header.stream = sent.digests.size();
    const uint8_t how = input.byte();
    header.digest = 1 + 2 * (how % 3);
    header.length = how < 200 ? 1 + input.byte() : 1 + 57 * input.byte();
    const uint8_t wrong = how >= 240 ? how - 240 : 0;
    if (wrong == 1) header.comm ^= 1 + input.byte();
    if (wrong == 2) header.src = uint16_t(2 + input.byte());
    if (wrong == 3) header.stream += 1 + input.byte();
    if (wrong == 4) header.length = 0;
    if (wrong == 5) header.type = wire::Type::mail;
    wire::HeaderBytes bytes = wire::encode(header);
    if (wrong == 6) bytes[input.byte() % bytes.size()] ^= uint8_t(1 << input.below(8));
    sent.right = wrong == 0 || wrong > 6;
    if (sent.right && digest != 0 && digest != header.digest)
      sent.changes.push_back(sent.digests.size());
    digest = header.digest;
    last = header.length;
    sent.text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (uint32_t at = 0; at < header.length; ++at) {
      sent.text += char(payload_at(header.stream + at));
      if (sent.right) sent.digests.push_back(header.digest);
    }
  }
  if (const uint8_t cut = input.byte(); sent.right && last > 0 && cut % 4 == 1) {
    const size_t less = std::min<size_t>(cut, last + wire::header_bytes - 1);
    sent.text.resize(sent.text.size() - less);
    sent.digests.resize(sent.digests.size() - std::min(less, last));
  }
  return sent;
}

// Nothing comes but what is given to the socket.
struct Path final : tcp::EarlyPath {
  bool is_out() override { return true; }
  void post(wire::Type, std::string_view) override {}
  void look() override {}
  void want() override {}
};

class Receiver {
 public:
  Receiver(const Sent& sent, const Tuning& tuning, size_t early)
      : sent_(sent), stream_(comm, self, peer, tuning), early_(std::min(early, sent.text.size())) {
    stream_.late()->begin(&path_);
  }

  // Gives the next of what the peer has sent.
  void come(size_t bytes) {
    const size_t end = moved_ ? sent_.text.size() : early_;
    bytes = std::min(bytes, end - given_);
    const std::string_view piece = std::string_view(sent_.text).substr(given_, bytes);
    if (moved_) {
      const ssize_t taken = ::send(far_.get(), piece.data(), bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
      given_ += size_t(std::max<ssize_t>(taken, 0));
    } else if (bytes > 0 && cost_ + bytes + wire::header_bytes <= wire::early_bytes) {
      if (!stream_.late()->come(piece)) abort();
      cost_ += bytes + wire::header_bytes;
      given_ += bytes;
    } else {
      move();
    }
    if (moved_ && given_ == sent_.text.size()) ::shutdown(far_.get(), SHUT_WR);
  }

  void receive(size_t most) {
    std::vector<std::byte> to(most);
    const uint64_t before = stream_.delivered();
    const size_t bytes = stream_.receive(mark_, to.data(), most);
    if (bytes > most) abort();
    check(before, to.data(), bytes);
    if (stream_.delivered() != before + bytes) abort();
  }
  void peek(size_t most, size_t granule, size_t used) {
    const uint64_t before = stream_.delivered();
    const std::span<const std::byte> found = stream_.peek(mark_, most * granule, granule);
    if (found.size() % granule != 0 || found.size() > most * granule) abort();
    if (reinterpret_cast<uintptr_t>(found.data()) % granule != 0) abort();
    check(before, found.data(), found.size());
    used = std::min(used * granule, found.size());
    stream_.consume(used);
    if (stream_.delivered() != before + used) abort();
  }
  void next() {
    const wire::Header* const header = stream_.next();
    if (header == nullptr) return;
    if (header->comm != comm || header->src != peer || header->length == 0) abort();
  }
  void take_call(uint32_t digest) { mark_.digest = digest; }
  void forget() { stream_.forget_stranger(); }

  // All that is right can be taken, and then it is over, as it should be.
  void finish() {
    for (;;) {
      const wire::Header* const header = stream_.next();
      if (header != nullptr) take_call(header->digest);
      const uint64_t before = stream_.delivered();
      receive(1 + before % 5000);
      if (stream_.delivered() > before) continue;
      if (stream_.ended() || !stream_.corrupt().ok()) break;
      if (given_ < sent_.text.size() || !moved_) come(4000);
    }
    if (stream_.corrupt().text().find("within an element") != std::string::npos) {
      const auto& ends = sent_.changes;
      if (std::find(ends.begin(), ends.end(), stream_.delivered()) == ends.end()) abort();
    } else {
      if (stream_.delivered() != sent_.digests.size()) abort();
      if (stream_.corrupt().ok() != sent_.right || (sent_.right && !stream_.ended())) abort();
      if (sent_.right) return;
    }
    if (stream_.corrupt().code() != TUTTI_CORRUPT || stream_.corrupt().rank() != peer) abort();
    if (stream_.corrupt().text().find("rank 1") == std::string::npos) abort();
  }

 private:
  void move() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) abort();
    far_ = Fd(ends[0]);
    stream_.late()->connect(Fd(ends[1]));
    if (!stream_.late()->peer_moves() || stream_.late()->peer_moves()) abort();
    moved_ = true;
  }

  void check(uint64_t begin, const std::byte* data, size_t bytes) const {
    if (begin + bytes > sent_.digests.size()) abort();
    for (size_t i = 0; i < bytes; ++i) {
      if (data[i] != std::byte(payload_at(begin + i))) abort();
      if (sent_.digests[begin + i] != mark_.digest) abort();
    }
  }

  const Sent& sent_;
  Path path_;
  Fd far_;
  tcp::Stream stream_;
  CallMark mark_{.digest = 1};
  size_t early_, given_ = 0, cost_ = 0;
  bool moved_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  Input input(data, bytes);
  Tuning tuning = default_tuning;
  if (const uint8_t sizes = input.byte(); sizes % 2 == 0) {
    tuning.tcp_small_bytes = size_t(sizes) * 8;
    tuning.tcp_small_stage_bytes = 8 << 10;
    tuning.tcp_header_stage_bytes = 128;
    tuning.tcp_stage_bytes = 16 << 10;
  }
  const size_t early = size_t(input.byte()) * 32;
  const Sent sent = sent_by(input);
  Receiver receiver(sent, tuning, early);
  for (int events = 0; events < 300 && !input.empty(); ++events) {
    const uint8_t what = input.below(10), how = input.byte();
    if (what < 4) {
      receiver.come(what == 0 ? 1 + how % 16 : 1 + size_t(how) * 16);
    } else if (what < 6) {
      receiver.receive(what == 4 ? how : size_t(how) * 64);
    } else if (what < 8) {
      receiver.peek(1 + input.byte(), most_granule >> (how % 5), input.byte());
    } else if (how % 4 == 0) {
      receiver.next();
    } else if (how % 4 == 1) {
      receiver.forget();
    } else {
      receiver.take_call(1 + 2 * (how / 4 % 3));
    }
  }
  receiver.finish();
  return 0;
}
