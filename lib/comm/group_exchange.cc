#include "lib/comm/group_exchange.h"

#include <algorithm>

namespace tutti {

namespace {

constexpr int tag = -2;  // users' tags are not negative
constexpr uint64_t most_bytes = 64 << 10;

CallSettings until(uint64_t deadline_ns) {
  const uint64_t now = now_ns();
  const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
  return {.timeout_ms = int64_t(left / 1'000'000u) + 1, .algorithm = {}, .unfused = false};
}

Status checked(tutti_status status, const Communicator& parent) {
  return status == TUTTI_OK ? Status() : parent.last_error();
}

}  // namespace

GroupExchange::GroupExchange(Communicator& parent, std::vector<int> members, const JobKey& key)
    : parent_(parent), members_(std::move(members)), key_(key) {
  const auto own = std::find(members_.begin(), members_.end(), parent.rank());
  rank_ = int(own - members_.begin());
}

Status GroupExchange::allgather(std::string_view mine, uint64_t deadline_ns,
                                std::vector<std::string>* all) {
  all->assign(members_.size(), {});
  (*all)[size_t(rank_)] = mine;
  if (rank_ != 0) {
    TUTTI_TRY(put(0, mine, deadline_ns));
    for (std::string& text : *all) TUTTI_TRY(get(0, &text, deadline_ns));
    return {};
  }
  for (int r = 1; r < nranks(); ++r) TUTTI_TRY(get(r, &(*all)[size_t(r)], deadline_ns));
  for (int r = 1; r < nranks(); ++r) {
    for (const std::string& text : *all) TUTTI_TRY(put(r, text, deadline_ns));
  }
  return {};
}

void GroupExchange::alarm(const Status& why) {
  const bool named = why.rank() >= 0 && why.rank() < nranks();
  parent_.abort(Status{why.code(), "while a communicator was made of this one: " + why.text(),
                       named ? members_[size_t(why.rank())] : -1});
}

Status GroupExchange::put(int member, std::string_view text, uint64_t deadline_ns) {
  const uint64_t bytes = text.size();
  const int peer = members_[size_t(member)];
  const CallSettings settings = until(deadline_ns);
  TUTTI_TRY(checked(parent_.send(&bytes, 8, TUTTI_UINT8, peer, tag, settings), parent_));
  return checked(parent_.send(text.data(), bytes, TUTTI_UINT8, peer, tag, settings), parent_);
}

Status GroupExchange::get(int member, std::string* text, uint64_t deadline_ns) {
  uint64_t bytes = 0;
  const int peer = members_[size_t(member)];
  const CallSettings settings = until(deadline_ns);
  TUTTI_TRY(checked(parent_.recv(&bytes, 8, TUTTI_UINT8, peer, tag, settings), parent_));
  if (bytes > most_bytes) {
    return {TUTTI_CORRUPT, rank_name(peer) + " sent a text that is too long", peer};
  }
  text->resize(bytes);
  return checked(parent_.recv(text->data(), bytes, TUTTI_UINT8, peer, tag, settings), parent_);
}

}  // namespace tutti
