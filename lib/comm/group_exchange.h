// An exchange among some ranks of a communicator, by messages over it.
#pragma once

#include <numeric>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/comm/star_exchange.h"

namespace tutti {

class GroupExchange final : public StarExchange {
 public:
  // `members`: ranks of `parent`, the own one among them.
  GroupExchange(Communicator& parent, std::vector<int> members, const JobKey& key);

  // Among all ranks of `parent`.
  GroupExchange(Communicator& parent, const JobKey& key)
      : GroupExchange(parent, all_of(parent.nranks()), key) {}

  const JobKey& key() const override { return key_; }
  // Over with `parent`: this is the only way to its ranks that do not listen to messages.
  void alarm(const Status& why) override;
  Status look() override;

 private:
  static std::vector<int> all_of(int nranks) {
    std::vector<int> ranks(static_cast<size_t>(nranks));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  Status put(int peer, std::string_view text, uint64_t deadline_ns) override;
  Status get(int peer, uint64_t deadline_ns, std::string* text) override;
  // What a call on the parent has ended with, as an error of the exchange.
  Status checked(tutti_status ended) const;
  Status of_parent(const Status& found) const;

  Communicator& parent_;
  const JobKey& key_;
};

}  // namespace tutti
