#include "lib/control/rooted_exchange.h"

#include <algorithm>
#include <utility>

#include "lib/base/clock.h"
#include "lib/control/bytes.h"
#include "lib/control/socket.h"

namespace tutti {

namespace {

std::string pack(const std::vector<std::string>& all) {
  std::string packed;
  for (const std::string& text : all) {
    uint8_t length[4];
    put_le<uint32_t>(length, uint32_t(text.size()));
    packed.append(reinterpret_cast<const char*>(length), sizeof(length));
    packed.append(text);
  }
  return packed;
}

bool unpack(std::string_view packed, size_t nranks, std::vector<std::string>* all) {
  all->clear();
  for (size_t rank = 0; rank < nranks; ++rank) {
    if (packed.size() < 4) return false;
    const auto length = get_le<uint32_t>(reinterpret_cast<const uint8_t*>(packed.data()));
    packed.remove_prefix(4);
    if (length > packed.size()) return false;
    all->emplace_back(packed.substr(0, length));
    packed.remove_prefix(length);
  }
  return packed.empty();
}

Status unexpected(int from) {
  return {TUTTI_CORRUPT,
          rank_name(from) + " sent something unexpected while the communicator was made", from};
}

}  // namespace

uint64_t ends_early_ns(uint64_t deadline_ns) {
  const uint64_t now = now_ns();
  const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
  return deadline_ns - std::min<uint64_t>(left / 10, 250'000'000u);
}

void tell(FrameChannel& channel, uint64_t job, const Status& error) {
  wire::Header header;
  header.type = wire::Type::abort;
  header.comm = job;
  channel.queue(header, wire::encode_status(error));
  channel.flush();
}

std::string RootedExchange::local_address() const {
  for (const FrameChannel& channel : channels_) {
    if (channel.fd() >= 0) return tutti::local_address(channel.fd()).host();
  }
  return {};
}

wire::Header RootedExchange::header() const {
  wire::Header header;
  header.type = wire::Type::exchange;
  header.comm = job_;
  header.epoch = round_;
  header.src = uint16_t(rank_);
  return header;
}

Status RootedExchange::end(Status error) {
  over_ = std::move(error);
  const Status told = over_.rank() >= 0
                          ? over_
                          : Status{over_.code(), rank_name(rank_) + ": " + over_.text(), rank_};
  for (FrameChannel& channel : channels_) {
    if (rank_ == 0 && channel.fd() >= 0) tell(channel, job_, told);
  }
  return over_;
}

void RootedExchange::alarm(const Status& why) {
  if (!over_.ok()) return;
  if (rank_ != 0) tell(channels_[0], job_, why);
  static_cast<void>(end(why));
}

Status RootedExchange::welcome(std::string* text, uint64_t deadline_ns) {
  Status ended;
  if (rank_ != 0) {
    ended = hear(deadline_ns, text);
  } else {
    for (int rank = 1; rank < nranks_; ++rank) channels_[size_t(rank)].queue(header(), *text);
    ended = flush_all(deadline_ns);
  }
  return ended.ok() ? ended : end(std::move(ended));
}

// It may already have come to the next all-gather.
Status RootedExchange::read_early(int from) {
  std::optional<std::string>& early = early_[rank_ == 0 ? size_t(from) : 0];
  std::string text;
  bool whole = false;
  TUTTI_TRY(read(from, round_ + (early ? 2 : 1), &text, &whole));
  if (!whole) return {};
  if (early) return unexpected(from);
  early = std::move(text);
  return {};
}

Status RootedExchange::look() {
  for (size_t i = 0; over_.ok() && i < channels_.size(); ++i) {
    if (channels_[i].fd() < 0) continue;
    Status found = read_early(rank_ == 0 ? int(i) : 0);
    if (!found.ok()) return end(std::move(found));
  }
  if (!over_.ok()) return over_;
  Status silent = watch_.look(channels_, now_ns());
  return silent.ok() ? silent : end(std::move(silent));
}

Status RootedExchange::allgather(std::string_view mine, uint64_t deadline_ns,
                                 std::vector<std::string>* all) {
  if (mine.size() > most_text_bytes) {
    return {TUTTI_INVALID,
            "a text of " + std::to_string(mine.size()) + " bytes is too long to be exchanged"};
  }
  if (!over_.ok()) return over_;
  ++round_;
  Status ended = rank_ != 0 ? take_part(mine, deadline_ns, all) : gather(mine, deadline_ns, all);
  if (ended.ok() && rank_ == 0) ended = scatter(*all, deadline_ns);
  return ended.ok() ? ended : end(std::move(ended));
}

Status RootedExchange::read(int from, std::string* text, bool* whole) {
  std::optional<std::string>& early = early_[rank_ == 0 ? size_t(from) : 0];
  if (!early) return read(from, round_, text, whole);
  *text = *std::exchange(early, std::nullopt);
  *whole = true;
  return {};
}

Status RootedExchange::read(int from, uint64_t round, std::string* text, bool* whole) {
  const size_t of = rank_ == 0 ? size_t(from) : 0;
  wire::Header header;
  std::string_view payload;
  Status why;
  FrameChannel::Got got;
  do {
    got = channels_[of].read(&header, &payload, &why);
    if (got == FrameChannel::Got::frame) watch_.hear(of);
  } while (got == FrameChannel::Got::frame && watch_.is_beat(header));
  switch (got) {
    case FrameChannel::Got::nothing:
      return {};
    case FrameChannel::Got::closed:
    case FrameChannel::Got::reset:
      return {TUTTI_PEER_FAILED, rank_name(from) + " has gone while the communicator was made",
              from};
    case FrameChannel::Got::broken:
      return {why.code(), "from " + rank_name(from) + ": " + why.text(), from};
    case FrameChannel::Got::frame:
      break;
  }
  if (header.type == wire::Type::abort && header.comm == job_) {
    Status error;
    const auto* bytes = reinterpret_cast<const uint8_t*>(payload.data());
    const Status parsed = wire::parse_status({bytes, payload.size()}, &error);
    if (parsed.ok()) return error;
    return {parsed.code(), "from " + rank_name(from) + ": " + parsed.text(), from};
  }
  if (header.type != wire::Type::exchange || header.comm != job_ || header.epoch != round ||
      header.src != uint16_t(from)) {
    return unexpected(from);
  }
  text->assign(payload);
  *whole = true;
  return {};
}

Status RootedExchange::wait(std::vector<pollfd>& set, uint64_t deadline_ns) {
  TUTTI_TRY(watch_.look(channels_, now_ns()));
  return wait_for_events(set, std::min(deadline_ns, watch_.due_ns()));
}

Status RootedExchange::flush(int to) {
  if (channels_[rank_ == 0 ? size_t(to) : 0].flush()) return {};
  return {TUTTI_PEER_FAILED, rank_name(to) + " has gone while the communicator was made", to};
}

Status RootedExchange::flush_all(uint64_t deadline_ns) {
  std::vector<pollfd> set;
  for (;;) {
    set.clear();
    for (size_t i = 0; i < channels_.size(); ++i) {
      if (channels_[i].fd() < 0) continue;
      TUTTI_TRY(flush(rank_ == 0 ? int(i) : 0));
      if (!channels_[i].flushed()) set.push_back({channels_[i].fd(), POLLOUT, 0});
    }
    if (set.empty()) return {};
    if (now_ns() >= deadline_ns) {
      return {TUTTI_TIMEOUT, "a rank does not read what it is sent while the communicator is made"};
    }
    TUTTI_TRY(watch_.look_on(channels_, now_ns()));
    TUTTI_TRY(wait_for_events(set, std::min(deadline_ns, watch_.due_ns())));
  }
}

Status RootedExchange::gather(std::string_view mine, uint64_t deadline_ns,
                              std::vector<std::string>* all) {
  all->assign(size_t(nranks_), {});
  (*all)[0] = mine;
  deadline_ns = ends_early_ns(deadline_ns);
  std::vector<char> is_here(size_t(nranks_), 0);
  std::vector<pollfd> set;
  for (int rank = 1; rank < nranks_; ++rank)
    set.push_back({channels_[size_t(rank)].fd(), POLLIN, POLLIN});
  for (int missing = nranks_ - 1;;) {
    for (int rank = 1; rank < nranks_; ++rank) {
      if (set[size_t(rank) - 1].revents == 0) continue;
      if (is_here[size_t(rank)]) {
        TUTTI_TRY(read_early(rank));
        continue;
      }
      bool whole = false;
      TUTTI_TRY(read(rank, &(*all)[size_t(rank)], &whole));
      is_here[size_t(rank)] = whole;
      missing -= whole;
    }
    if (missing == 0) return {};
    if (now_ns() >= deadline_ns) {
      const auto first = std::find(is_here.begin() + 1, is_here.end(), 0);
      const int rank = int(first - is_here.begin());
      return {TUTTI_TIMEOUT, rank_name(rank) + " did not answer while the communicator was made",
              rank};
    }
    TUTTI_TRY(wait(set, deadline_ns));
  }
}

Status RootedExchange::scatter(const std::vector<std::string>& all, uint64_t deadline_ns) {
  const std::string packed = pack(all);
  for (int rank = 1; rank < nranks_; ++rank) channels_[size_t(rank)].queue(header(), packed);
  return flush_all(deadline_ns);
}

Status RootedExchange::take_part(std::string_view mine, uint64_t deadline_ns,
                                 std::vector<std::string>* all) {
  channels_[0].queue(header(), mine);
  std::string packed;
  TUTTI_TRY(hear(deadline_ns, &packed));
  if (!unpack(packed, size_t(nranks_), all) || (*all)[size_t(rank_)] != mine) {
    return {TUTTI_CORRUPT, "what rank 0 sent while the communicator was made makes no sense", 0};
  }
  return {};
}

Status RootedExchange::hear(uint64_t deadline_ns, std::string* text) {
  std::vector<pollfd> set;
  for (bool whole = false;;) {
    const Status flushed = flush(0);
    // Read before a failed send is reported: rank 0 may have sent the error, and closed.
    TUTTI_TRY(read(0, text, &whole));
    if (whole) return {};
    TUTTI_TRY(flushed);
    if (now_ns() >= deadline_ns) {
      return {TUTTI_TIMEOUT, "rank 0 did not answer while the communicator was made", 0};
    }
    const short events = channels_[0].flushed() ? POLLIN : POLLIN | POLLOUT;
    set.assign(1, {channels_[0].fd(), events, 0});
    TUTTI_TRY(wait(set, deadline_ns));
  }
}

}  // namespace tutti
