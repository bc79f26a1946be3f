#include "lib/comm/group_exchange.h"

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
    : StarExchange(std::move(members), parent.rank()), parent_(parent), key_(key) {}

void GroupExchange::alarm(const Status& why) {
  parent_.abort(Status{why.code(), "while a communicator was made of this one: " + why.text(),
                       in_communicator(why)});
}

Status GroupExchange::put(int peer, std::string_view text, uint64_t deadline_ns) {
  const uint64_t bytes = text.size();
  const CallSettings settings = until(deadline_ns);
  TUTTI_TRY(checked(parent_.send(&bytes, 8, TUTTI_UINT8, peer, tag, settings), parent_));
  return checked(parent_.send(text.data(), bytes, TUTTI_UINT8, peer, tag, settings), parent_);
}

Status GroupExchange::get(int peer, uint64_t deadline_ns, std::string* text) {
  uint64_t bytes = 0;
  const CallSettings settings = until(deadline_ns);
  TUTTI_TRY(checked(parent_.recv(&bytes, 8, TUTTI_UINT8, peer, tag, settings), parent_));
  if (bytes > most_bytes) {
    return {TUTTI_CORRUPT, rank_name(peer) + " sent a text that is too long", peer};
  }
  text->resize(bytes);
  return checked(parent_.recv(text->data(), bytes, TUTTI_UINT8, peer, tag, settings), parent_);
}

}  // namespace tutti
