#include "lib/api/from_id.h"

#include <map>
#include <mutex>
#include <string>

#include "lib/api/guard.h"
#include "lib/control/bootstrap.h"

namespace tutti::api {

namespace {

class Listeners {
 public:
  static Listeners& get() {
    static Listeners* const instance = new Listeners;  // outlives every thread
    return *instance;
  }
  void put(const tutti_unique_id& id, Fd listener) {
    const std::lock_guard lock(mutex_);
    listeners_[key(id)] = std::move(listener);
  }
  Fd take(const tutti_unique_id& id) {
    const std::lock_guard lock(mutex_);
    const auto found = listeners_.find(key(id));
    if (found == listeners_.end()) return {};
    Fd listener = std::move(found->second);
    listeners_.erase(found);
    return listener;
  }

 private:
  static std::string key(const tutti_unique_id& id) {
    return {reinterpret_cast<const char*>(id.bytes), sizeof(id.bytes)};
  }
  std::mutex mutex_;
  std::map<std::string, Fd> listeners_;
};

// The exchange of a communicator of one rank.
class Alone final : public Exchange {
 public:
  int rank() const override { return 0; }
  int nranks() const override { return 1; }
  const JobKey& key() const override { return key_; }
  Status allgather(std::string_view mine, uint64_t, std::vector<std::string>* all) override {
    all->assign(1, std::string(mine));
    return {};
  }

 private:
  JobKey key_{};
};

}  // namespace

void keep_listener(const tutti_unique_id& id, Fd listener) {
  Listeners::get().put(id, std::move(listener));
}

Status take_listener(const tutti_unique_id& id, Fd* out) {
  *out = Listeners::get().take(id);
  if (*out) return {};
  return {TUTTI_INVALID, "rank 0 must be in the process that made the id, and an id serves once"};
}

Status make(std::unique_ptr<Exchange> exchange, const CommSettings& settings, tutti_comm* out) {
  std::unique_ptr<Communicator> made;
  TUTTI_TRY(Communicator::create(std::move(exchange), settings, &made));
  *out = wrap(made.release());
  return {};
}

Status make_alone(const CommSettings& settings, tutti_comm* out) {
  return make(std::make_unique<Alone>(), settings, out);
}

Status from_id(const tutti_unique_id& id, Fd listener, int rank, int nranks,
               const CommSettings& settings, tutti_comm* out) {
  if (nranks == 1) return make_alone(settings, out);
  std::unique_ptr<Exchange> exchange;
  TUTTI_TRY(join_rendezvous(id, std::move(listener), rank, nranks,
                            deadline_after_ms(settings.setup_ms), ns_of_ms(settings.heartbeat_ms),
                            &exchange));
  return make(std::move(exchange), settings, out);
}

}  // namespace tutti::api
