#include "lib/comm/survivor_exchange.h"

namespace tutti {

Status SurvivorExchange::put(int peer, std::string_view text, uint64_t) {
  survivors_.put(peer, text);
  return {};
}

Status SurvivorExchange::get(int peer, uint64_t deadline_ns, std::string* text) {
  Status got = survivors_.get(peer, deadline_ns, text);
  return got.ok() ? got : in_exchange(std::move(got));
}

void SurvivorExchange::alarm(const Status& why) {
  survivors_.alarm(members_, {why.code(), why.text(), in_communicator(why)});
}

Status SurvivorExchange::look() {
  Status found = survivors_.look(members_);
  return found.ok() ? found : in_exchange(std::move(found));
}

}  // namespace tutti
