// An exchange that does what another one does. Tests derive from it what does something besides.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/control/exchange.h"

namespace tutti::testing {

class WrappedExchange : public Exchange {
 public:
  // `inner` must outlive it.
  explicit WrappedExchange(Exchange& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int nranks() const override { return inner_.nranks(); }
  const JobKey& key() const override { return inner_.key(); }
  Status allgather(std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) override {
    return inner_.allgather(mine, deadline_ns, all);
  }
  void alarm(const Status& why) override { inner_.alarm(why); }
  Status look() override { return inner_.look(); }
  std::string local_address() const override { return inner_.local_address(); }

 private:
  Exchange& inner_;
};

}  // namespace tutti::testing
