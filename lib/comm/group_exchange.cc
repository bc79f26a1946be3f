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

}  // namespace

GroupExchange::GroupExchange(Communicator& parent, std::vector<int> members, const JobKey& key)
    : StarExchange(std::move(members), parent.rank()), parent_(parent), key_(key) {}

void GroupExchange::alarm(const Status& why) {
  // The parent's own failure may be of a rank that is not in the exchange.
  if (const Status found = parent_.look(members()); !found.ok()) return parent_.abort(found);
  const std::string numbers = renumbers() ? ", in its numbers: " : ": ";
  parent_.abort(Status{why.code(),
                       "while a communicator was made of this one" + numbers + why.text(),
                       in_communicator(why)});
}

Status GroupExchange::look() {
  const Status found = parent_.look(members());
  return found.ok() ? found : of_parent(found);
}

Status GroupExchange::of_parent(const Status& found) const {
  Status in_numbers = in_exchange(found);
  if (!renumbers()) return in_numbers;
  return {found.code(), "of the communicator that it is made of: " + found.text(),
          in_numbers.rank()};
}

Status GroupExchange::checked(tutti_status ended) const {
  return ended == TUTTI_OK ? Status() : of_parent(parent_.last_error());
}

Status GroupExchange::put(int peer, std::string_view text, uint64_t deadline_ns) {
  const uint64_t bytes = text.size();
  const CallSettings settings = until(deadline_ns);
  TUTTI_TRY(checked(parent_.send(&bytes, 8, TUTTI_UINT8, peer, tag, settings)));
  return checked(parent_.send(text.data(), bytes, TUTTI_UINT8, peer, tag, settings));
}

Status GroupExchange::get(int peer, uint64_t deadline_ns, std::string* text) {
  uint64_t bytes = 0;
  const CallSettings settings = until(deadline_ns);
  TUTTI_TRY(checked(parent_.recv(&bytes, 8, TUTTI_UINT8, peer, tag, settings)));
  if (bytes > most_bytes) {
    return in_exchange({TUTTI_CORRUPT, rank_name(peer) + " sent a text that is too long", peer});
  }
  text->resize(bytes);
  return checked(parent_.recv(text->data(), bytes, TUTTI_UINT8, peer, tag, settings));
}

}  // namespace tutti
