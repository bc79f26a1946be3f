#include "trainer/sync/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "trainer/common/error.h"
#include "trainer/common/files.h"
#include "trainer/data/data.h"
#include "trainer/device/vectors.h"
#include "trainer/sync/server_core.h"
#include "trainer/sync/shard_pass.h"
#include "trainer/sync/ways.h"

namespace tutti::train {
namespace {

using nlohmann::json;

// A worker as a log knows it.
struct Replayed {
  std::vector<float> parameters, gradient;
  int64_t clock = 0;            // the iteration to do next
  int64_t gradient_clock = -1;  // the gradient's iteration
  int reads = 0;                // servers that have answered since the gradient was made
  std::optional<LossScale> loss_scale;
  bool overflow = false;  // of the gradient
};

class Replay {
 public:
  Replay(const Options& options, const Data& data, Replica& replica,
         std::vector<std::vector<json>> logs)
      : options_(options),
        data_(data),
        replica_(replica),
        rule_(sync_way(options).server(options)),
        logs_(std::move(logs)),
        next_(logs_.size()) {
    const OnHost<float> here(replica.device(), replica.parameters());
    const std::span<float> initial = here.values();
    for (const Range& part : server_parts(options, replica.layout()))
      cores_.push_back(make_core(rule_, options, replica.layout(), initial, part));
    workers_.resize(size_t(options.dp));
    for (Replayed& worker : workers_) {
      worker.parameters.assign(initial.begin(), initial.end());
      worker.reads = options.servers;
      worker.loss_scale = LossScale::of(options);
    }
  }

  // Each server's events in their order. Events of different servers may interleave in any way that
  // keeps every worker's own order.
  std::string run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < logs_.size(); ++s)
        while (next_[s] < logs_[s].size() && play(s, logs_[s][next_[s]])) {
          ++next_[s];
          moved = true;
        }
    }
    for (size_t s = 0; s < logs_.size(); ++s)
      if (next_[s] < logs_[s].size())
        throw BadInput("--replay: the log's events cannot have happened in this order");
    std::vector<float> all;
    for (const ServerCore& core : cores_)
      all.insert(all.end(), core.parameters().begin(), core.parameters().end());
    return digest_of(all);
  }

 private:
  bool play(size_t s, const json& event) {
    ServerCore& core = cores_[s];
    const Range range = core.range();
    if (event.contains("read")) {
      Replayed& worker = workers_.at(event["read"].get<size_t>());
      worker.clock = core.read(int(event["read"]));
      std::copy(core.parameters().begin(), core.parameters().end(),
                slice(std::span(worker.parameters), range).begin());
      if (++worker.reads == options_.servers && worker.loss_scale)
        worker.loss_scale->update(rule_.takes_all(options_.dp) ? core.left_out() : worker.overflow);
      if (worker.clock != event["next"] || core.updates() != event["updates"])
        throw Failure("the replay differs from the log in the order of updates");
      return true;
    }
    const auto number = event.at("push").get<size_t>();
    const auto clock = event.at("clock").get<int64_t>();
    Replayed& worker = workers_.at(number);
    if (worker.gradient_clock != clock) {
      if (worker.reads < options_.servers || worker.clock != clock) return false;
      compute(number);
    }
    const bool used =
        core.push(int(number), clock, slice(std::span(worker.gradient), range), worker.overflow);
    if (event.at("used") != used || event.at("staleness") != core.staleness())
      throw Failure("the replay differs from the log in what was used, or how stale it was");
    return true;
  }

  void compute(size_t number) {
    Replayed& worker = workers_[number];
    const Device& device = replica_.device();
    const OnHost<float> parameters(device, replica_.parameters());
    std::copy(worker.parameters.begin(), worker.parameters.end(), parameters.values().begin());
    parameters.store();
    if (worker.loss_scale) replica_.scale_losses(worker.loss_scale->scale);
    const int64_t samples = shard_samples(options_, int64_t(number));
    shard_pass(options_, data_, replica_, worker.clock, int64_t(number),
               server_scale(rule_, options_, samples, double(data_.terms())), [](size_t) {});
    const OnHost<float> gradient(device, replica_.gradients());
    worker.gradient.assign(gradient.values().begin(), gradient.values().end());
    worker.overflow = worker.loss_scale && overflows(replica_);
    worker.gradient_clock = worker.clock;
    worker.reads = 0;
  }

  const Options& options_;
  const Data& data_;
  Replica& replica_;
  ServerRule rule_;
  std::vector<std::vector<json>> logs_;
  std::vector<size_t> next_;
  std::vector<ServerCore> cores_;
  std::vector<Replayed> workers_;
};

BadInput damaged(const std::string& path) {
  return BadInput(fmt::format("--replay: {} is damaged", path));
}
BadInput not_whole(const std::string& path) {
  return BadInput(fmt::format("--replay: {} is no whole log", path));
}

}  // namespace

ServerLog read_log(const std::string& path) {
  ServerLog log;
  log.path = path;
  try {
    std::istringstream lines(read_file(path));
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const json event = json::parse(line, nullptr, false);
      if (!event.is_object())
        throw BadInput(fmt::format("--replay: line {} of {} is no event", number, path));
      if (!log.parameters.empty() || (number == 1) != event.contains("arguments"))
        throw not_whole(path);
      if (number == 1)
        log.arguments = event["arguments"].get<std::vector<std::string>>();
      else if (event.contains("parameters"))
        log.parameters = event["parameters"].get<std::string>();
      else if (event.contains("server"))
        log.events.emplace_back();
      else if (!log.events.empty())
        log.events.back().push_back(event);
    }
  } catch (const std::system_error& failed) {
    throw BadInput(fmt::format("--replay: {}", failed.what()));
  } catch (const json::exception&) {
    throw damaged(path);
  }
  if (log.parameters.empty()) throw not_whole(path);
  return log;
}

std::string replay(const ServerLog& log, const Options& options, const Device& device) {
  if (!options.has_servers() || int(log.events.size()) != options.servers)
    throw not_whole(log.path);
  try {
    use_threads(1);
    const Shape shape = shape_of(options);
    const std::unique_ptr<Data> data =
        open_data(options.data, shape.context, options.seed, options.tokens);
    Replica replica(shape, *data, options.seed, {}, device);
    set_initial(options, *data, replica);
    const std::string digest = Replay(options, *data, replica, log.events).run();
    if (digest != log.parameters)
      throw Failure(fmt::format("the replay of {} ends with other parameters", log.path));
    return digest;
  } catch (const json::exception&) {
    throw damaged(log.path);
  } catch (const std::out_of_range&) {
    throw damaged(log.path);
  }
}

std::string digest_of(std::span<const float> values) {
  return fmt::format("{:016x}", digest_of(std::as_bytes(values)));
}

}  // namespace tutti::train
