// An exchange among some ranks of a communicator that there is: a star around the first of them.
// How a text goes from rank to rank is for those who derive from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/control/exchange.h"

namespace tutti {

class StarExchange : public Exchange {
 public:
  // `members`: ranks of the communicator, in the order of the exchange, `self` among them.
  StarExchange(std::vector<int> members, int self);

  int rank() const override { return rank_; }
  int nranks() const override { return int(members_.size()); }
  Status allgather(std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) override;

 protected:
  const std::vector<int>& members() const { return members_; }
  // Whether a rank has another number in the exchange than in the communicator.
  bool renumbers() const;
  // `peer`: a rank of the communicator.
  virtual Status put(int peer, std::string_view text, uint64_t deadline_ns) = 0;
  virtual Status get(int peer, uint64_t deadline_ns, std::string* text) = 0;

  // The communicator's number of the rank that an error of the exchange names; -1: none.
  int in_communicator(const Status& why) const;
  // An error of the communicator's, which names a rank of it, as one of the exchange.
  Status in_exchange(Status found) const;

 private:
  std::vector<int> members_;
  int rank_;
};

}  // namespace tutti
