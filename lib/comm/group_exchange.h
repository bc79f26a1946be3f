// An exchange among some ranks of a communicator, by messages over it: a star around the first.
#pragma once

#include <numeric>
#include <vector>

#include "lib/comm/comm.h"

namespace tutti {

class GroupExchange final : public Exchange {
 public:
  // `members`: ranks of `parent`, in the order of the exchange, the own one among them.
  GroupExchange(Communicator& parent, std::vector<int> members, const JobKey& key);

  // Among all ranks of `parent`.
  GroupExchange(Communicator& parent, const JobKey& key)
      : GroupExchange(parent, all_of(parent.nranks()), key) {}

  int rank() const override { return rank_; }
  int nranks() const override { return int(members_.size()); }
  const JobKey& key() const override { return key_; }
  Status allgather(std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) override;
  // Over with `parent`: this is the only way to its ranks that do not listen to messages.
  void alarm(const Status& why) override;
  Status look() override { return parent_.look(); }

 private:
  static std::vector<int> all_of(int nranks) {
    std::vector<int> ranks(static_cast<size_t>(nranks));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  Status put(int member, std::string_view text, uint64_t deadline_ns);
  Status get(int member, std::string* text, uint64_t deadline_ns);

  Communicator& parent_;
  std::vector<int> members_;
  const JobKey& key_;
  int rank_;
};

}  // namespace tutti
