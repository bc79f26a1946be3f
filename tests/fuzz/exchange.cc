// What a peer sends while a communicator is made, be it right or not: an all-gather ends well only
// with what each rank passed, otherwise with the error of the first that was wrong, which stays.
// The same over an all-gather of the program's own. And what ranks say to agree: all is well only
// if all say so.
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "lib/base/clock.h"
#include "lib/control/agree.h"
#include "lib/control/bytes.h"
#include "lib/control/callback_exchange.h"
#include "lib/control/rooted_exchange.h"
#include "tests/fuzz/input.h"

using namespace tutti;
using fuzz::Input;

namespace {

constexpr uint64_t job = 7;

void check_error(const Status& error) {
  if (error.code() <= TUTTI_IN_PROGRESS || error.code() > TUTTI_INTERNAL) abort();
  if (error.text().empty()) abort();
}

// ---------------------------------------------------------------- over connections

std::string pack(const std::vector<std::string>& all) {
  std::string packed;
  for (const std::string& text : all) {
    uint8_t length[4];
    put_le<uint32_t>(length, uint32_t(text.size()));
    packed.append(reinterpret_cast<const char*>(length), 4).append(text);
  }
  return packed;
}

// One rank, in whose place the library is. Of the others there are the far ends of their
// connections to it. What they have sent is read at once or never: the deadline is over.
class Star {
 public:
  Star(int rank, int nranks) : rank_(rank), nranks_(nranks) {
    std::vector<FrameChannel> channels(rank == 0 ? 1 : 0);
    for (const int number : others()) {
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
      channels.emplace_back(Fd(ends[0]), wire::most_exchange_bytes);
      peers_[number].end = FrameChannel(Fd(ends[1]), wire::most_exchange_bytes);
      peers_[number].round = rank == 0 ? 1 : 0;  // rank 0's begins with the welcome
    }
    exchange_.emplace(rank, nranks, job, std::move(channels), ns_of_ms(1500));
  }

  // False: then there is no exchange.
  bool welcome(Input& input) {
    if (rank_ != 0) peer_sends(input);
    std::string text = "nonce", said;
    const Status ended = exchange_->welcome(&text, 0);
    const bool heard = rank_ == 0 || hear(0, 0, &said);
    expect(ended);
    if (rank_ != 0 && heard && text != said) std::abort();
    for (const int number : others())
      if (rank_ == 0) expect_frame(number, wire::Type::exchange, 0, "nonce");
    return ended.ok();
  }

  void event(Input& input) {
    switch (input.below(8)) {
      case 0:
        return gather(input);
      case 1:
        return look();
      case 2:
        return alarm();
      default:
        return peer_sends(input);
    }
  }

 private:
  // What the library finds when it reads it.
  struct Sent {
    uint64_t round;  // of which it is a frame
    std::string payload;
    Status error;
  };
  struct Peer {
    FrameChannel end;
    uint64_t round = 0;
    std::deque<Sent> sent;
    std::optional<std::string> early;
  };

  std::vector<int> others() const {
    std::vector<int> numbers;
    for (int number = 1; rank_ == 0 && number < nranks_; ++number) numbers.push_back(number);
    if (rank_ != 0) numbers.push_back(0);
    return numbers;
  }

  void peer_sends(Input& input) {
    const int number = rank_ == 0 ? 1 + input.below(nranks_ - 1) : 0;
    Peer& peer = peers_[number];
    wire::Header header;
    header.type = wire::Type::exchange;
    header.comm = job;
    header.src = uint16_t(number);
    header.epoch = peer.round++;
    std::string payload = input.text();
    if (rank_ != 0 && input.below(4) != 0) {
      std::vector<std::string> all(static_cast<size_t>(nranks_));
      for (std::string& text : all) text = input.text();
      if (input.below(4) != 0) all[size_t(rank_)] = own;
      payload = pack(all);
    }
    Status error;
    const Status unexpected{TUTTI_CORRUPT, "", number};
    switch (input.below(16)) {
      case 0:
        header.comm += 1 + input.byte();
        error = unexpected;
        break;
      case 1:
        header.src = uint16_t(header.src + 1 + input.byte());
        error = unexpected;
        break;
      case 2:
        header.epoch += 1 + input.byte();
        break;
      case 3:
        header.type = input.below(2) == 0 ? wire::Type::data : wire::Type::bye;
        error = unexpected;
        break;
      case 4: {
        header.type = wire::Type::abort;
        const auto code = tutti_status(TUTTI_INVALID + input.below(TUTTI_INTERNAL - 1));
        error = {code, "it broke", input.below(4) - 1};
        payload = wire::encode_status(error);
        if (input.below(4) == 0) {
          payload.resize(input.byte() % payload.size());
          error = unexpected;
        }
        break;
      }
      case 5: {
        const std::string raw(wire::header_bytes, char(input.byte()));
        static_cast<void>(::send(peer.end.fd(), raw.data(), raw.size(), MSG_NOSIGNAL));
        return peer.sent.push_back({0, {}, unexpected});
      }
      case 6:
        ::shutdown(peer.end.fd(), SHUT_WR);
        return peer.sent.push_back({0, {}, {TUTTI_PEER_FAILED, "", number}});
      case 7: {  // its host is asked; nothing that anybody reads
        --peer.round;
        wire::Header beat;
        beat.type = wire::Type::beat;
        beat.comm = job;
        peer.end.queue(beat);
        peer.end.flush();
        return;
      }
      default:
        break;
    }
    peer.end.queue(header, payload);
    peer.end.flush();
    peer.sent.push_back({header.epoch, payload, error});
  }

  // How the library reads of this peer. False: there is nothing, or what ends the exchange.
  bool read(int number, uint64_t round, std::string* text) {
    Peer& peer = peers_[number];
    if (peer.early && round == round_) {
      *text = *std::exchange(peer.early, std::nullopt);
      return true;
    }
    if (peer.sent.empty()) return false;
    const Sent found = peer.sent.front();
    peer.sent.pop_front();
    why_ = found.error;
    if (why_.ok() && found.round != round) why_ = {TUTTI_CORRUPT, "", number};
    *text = found.payload;
    return why_.ok();
  }
  bool hear(int number, uint64_t round, std::string* text) {
    const bool whole = read(number, round, text);
    if (!whole && why_.ok()) why_ = {TUTTI_TIMEOUT, "", number};
    return whole;
  }

  // That this call ended as the model did; an error stays.
  void expect(const Status& ended) {
    if (ended.code() != why_.code() || ended.rank() != why_.rank()) std::abort();
    if (ended.ok()) return;
    check_error(ended);
    if (!said_.ok() && said_.text() != ended.text()) std::abort();
    const bool first = said_.ok();
    said_ = ended;
    for (const int number : others()) {
      if (first && rank_ == 0) expect_frame(number, wire::Type::abort, 0, {});
    }
  }
  // That this peer is sent that, before anything else of that type.
  void expect_frame(int number, wire::Type type, uint64_t round, const std::string& text) {
    wire::Header header;
    std::string_view payload;
    Status error;
    do {
      if (peers_[number].end.read(&header, &payload, &error) != FrameChannel::Got::frame)
        std::abort();
    } while (header.type != type);
    if (header.comm != job) std::abort();
    if (type == wire::Type::exchange) {
      if (header.epoch != round || header.src != rank_ || payload != text) std::abort();
    } else {
      const auto* const bytes = reinterpret_cast<const uint8_t*>(payload.data());
      if (!wire::parse_status({bytes, payload.size()}, &error).ok()) std::abort();
      if (error.code() != why_.code()) std::abort();
    }
  }

  void gather(Input& input) {
    const std::string mine = input.below(4) == 0 ? input.text() : own;
    std::vector<std::string> all, right(static_cast<size_t>(nranks_));
    const bool was_over = !why_.ok();
    const Status ended = exchange_->allgather(mine, 0, &all);
    if (was_over) return expect(ended);
    ++round_;
    std::string packed;
    if (rank_ != 0) {
      expect_frame(0, wire::Type::exchange, round_, mine);
      if (hear(0, round_, &packed)) {
        // Whether it is right: there is one packing of what was read.
        if (ended.ok() && (all.size() != right.size() || pack(all) != packed)) std::abort();
        if (ended.ok() && all[size_t(rank_)] != mine) std::abort();
        if (!ended.ok()) why_ = {TUTTI_CORRUPT, "", 0};
        if (!ended.ok() && is_right(packed, mine)) std::abort();
      }
      return expect(ended);
    }
    right[0] = mine;
    int missing = -1;
    for (int number = 1; number < nranks_ && why_.ok(); ++number) {
      const bool whole = read(number, round_, &right[size_t(number)]);
      if (!whole && missing < 0) missing = number;
    }
    if (why_.ok() && missing >= 0) why_ = {TUTTI_TIMEOUT, "", missing};
    expect(ended);
    if (!ended.ok()) return;
    if (all != right) std::abort();
    for (const int number : others()) expect_frame(number, wire::Type::exchange, round_, pack(all));
  }

  // Whether the bytes are texts of all ranks, with this rank's own among them.
  bool is_right(std::string_view packed, const std::string& mine) const {
    for (int number = 0; number < nranks_; ++number) {
      if (packed.size() < 4) return false;
      const auto length = get_le<uint32_t>(reinterpret_cast<const uint8_t*>(packed.data()));
      if (length > packed.size() - 4) return false;
      if (number == rank_ && packed.substr(4, length) != mine) return false;
      packed.remove_prefix(4 + length);
    }
    return packed.empty();
  }

  void look() {
    for (const int number : others()) {
      Peer& peer = peers_[number];
      std::string text;
      if (!why_.ok()) break;
      if (!peer.early) {
        if (read(number, round_ + 1, &text)) peer.early = text;
      } else if (read(number, round_ + 2, &text)) {  // which it cannot know yet
        why_ = {TUTTI_CORRUPT, "", number};
      }
    }
    expect(exchange_->look());
  }

  void alarm() {
    if (why_.ok()) why_ = {TUTTI_SYSTEM, "", rank_};
    const bool first = said_.ok();
    exchange_->alarm({TUTTI_SYSTEM, "cannot do it", rank_});
    if (first && rank_ != 0) expect_frame(0, wire::Type::abort, 0, {});
    expect(exchange_->look());
  }

  static inline const std::string own = "own";
  int rank_, nranks_;
  uint64_t round_ = 0;
  Status why_;   // the error that it must end with: code and rank
  Status said_;  // that it did
  std::map<int, Peer> peers_;
  std::optional<RootedExchange> exchange_;
};

void meet_peers(Input& input) {
  const int nranks = 2 + input.below(3), rank = input.below(nranks);
  Star star(rank, nranks);
  if (!star.welcome(input)) return;
  for (int events = 0; events < 100 && !input.empty(); ++events) star.event(input);
}

// ---------------------------------------------------------------- over the program's own

struct Program {
  Input& input;
  int rank, nranks;
  bool right = true;  // so far

  int gather(const uint8_t* mine, uint8_t* all, size_t bytes) {
    const uint8_t how = input.below(16);
    right &= how > 4;
    if (how == 0) return 1 + input.byte();
    if (how == 1) throw 1;
    for (int other = 0; other < nranks; ++other, all += bytes) {
      for (size_t i = 0; i < bytes; ++i) all[i] = how == 2 ? input.byte() : 0;
      // With lengths, and of texts alone.
      const size_t head = bytes == callback_block_bytes ? 4 : 0;
      if (how > 2 && head > 0 && other != rank) put_le<uint32_t>(all, input.byte());
      if (how == 3 && head > 0) put_le<uint32_t>(all, uint32_t(input.byte()) << 12);
      if (how > 4) std::memset(all + head, 'a' + other, bytes - head);
      if (how > 3 && other == rank) std::memcpy(all, mine, bytes);
    }
    return 0;
  }
};

void meet_program(Input& input) {
  Program program{input, 0, 1 + input.below(4)};
  program.rank = input.below(program.nranks);
  const auto callback = [](const void* mine, void* all, size_t bytes, void* context) {
    return static_cast<Program*>(context)->gather(static_cast<const uint8_t*>(mine),
                                                  static_cast<uint8_t*>(all), bytes);
  };
  const auto call = [](auto&& function) {
    try {
      return function();
    } catch (...) {
      return status_of_exception();
    }
  };
  std::unique_ptr<Exchange> exchange;
  const Status made = call([&] {
    return make_callback_exchange(callback, &program, program.rank, program.nranks, &exchange);
  });
  if (!made.ok()) {
    check_error(made);
    if (exchange) abort();
    return;
  }
  for (int round = 0; round < 8; ++round) {
    const std::string mine(input.byte() == 255 ? Exchange::most_text_bytes + 1 : input.byte(), 'm');
    std::vector<std::string> all;
    program.right = true;
    const Status ended = call([&] { return exchange->allgather(mine, 0, &all); });
    const bool possible = mine.size() <= Exchange::most_text_bytes;
    if (ended.ok() && (!possible || all.size() != size_t(program.nranks))) abort();
    if (ended.ok() && all[size_t(program.rank)] != mine) abort();
    if (program.right && possible != ended.ok()) abort();
    if (!ended.ok()) check_error(ended);
  }
}

// ---------------------------------------------------------------- to agree

class Said final : public Exchange {
 public:
  Said(Input& input, int rank, int nranks) : rank_(rank), all_(size_t(nranks)) {
    key_.fill(7);
    for (std::string& text : all_) {
      text = input.text();
      if (const uint8_t how = input.below(4); how > 0) text.insert(0, 1, how == 1 ? '-' : '+');
    }
    if (input.below(16) == 0) failed_ = {TUTTI_PEER_FAILED, "gone", input.below(nranks)};
  }
  int rank() const override { return rank_; }
  int nranks() const override { return int(all_.size()); }
  const JobKey& key() const override { return key_; }
  Status allgather(std::string_view mine, uint64_t, std::vector<std::string>* all) override {
    all_[size_t(rank_)] = mine;
    *all = all_;
    return failed_;
  }
  const Status& failed() const { return failed_; }
  const std::vector<std::string>& all() const { return all_; }

 private:
  int rank_;
  std::vector<std::string> all_;
  JobKey key_;
  Status failed_;
};

void agree_with(Input& input) {
  const int nranks = 1 + input.below(5), rank = input.below(nranks);
  Said said(input, rank, nranks);
  Status mine;
  if (input.below(4) == 0) mine = {TUTTI_SYSTEM, "cannot do it", input.below(nranks + 1) - 1};
  std::vector<std::string> all;
  const Status agreed = agree_on(said, mine, "own", 0, &all);
  const bool fine = std::all_of(said.all().begin(), said.all().end(),
                                [](const std::string& text) { return text.starts_with('+'); });
  if (agreed.ok() != (fine && said.failed().ok())) abort();
  if (!agreed.ok()) {
    check_error(agreed);
    if (agreed.rank() < -1 || agreed.rank() >= nranks) abort();
    if (mine.ok() && said.failed().ok() && agreed.rank() == rank) abort();
    return;
  }
  for (size_t i = 0; i < all.size(); ++i)
    if ('+' + all[i] != said.all()[i]) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  Input input(data, bytes);
  switch (input.below(4)) {
    case 0:
      agree_with(input);
      break;
    case 1:
      meet_program(input);
      break;
    default:
      meet_peers(input);
      break;
  }
  return 0;
}
