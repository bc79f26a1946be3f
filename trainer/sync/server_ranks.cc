#include "trainer/sync/server_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "trainer/common/faults.h"
#include "trainer/common/files.h"
#include "trainer/common/gather_text.h"
#include "trainer/device/vectors.h"
#include "trainer/sync/channels.h"
#include "trainer/sync/replay.h"
#include "trainer/sync/server_core.h"
#include "trainer/sync/shard_pass.h"

namespace tutti::train {
namespace {

using nlohmann::json;

// Sent by workers in place of a clock: the worker leaves, or a checkpoint is due, after which
// `next` is the iteration to do.
constexpr int64_t leaves = -1;
constexpr int64_t saves(int64_t next) { return -2 - next; }
constexpr int64_t saved(int64_t word) { return -2 - word; }
// A bit of a clock, to a server: the gradient has overflowed; and back: the last update was left
// out.
constexpr int64_t overflow_bit = int64_t(1) << 62;
constexpr int64_t marked(int64_t clock, bool overflow) {
  return overflow ? clock | overflow_bit : clock;
}

std::vector<Channel> channels_of(const Options& o, const communicator& world) {
  return make_channels(world, [&](int rank) { return rank >= o.dp; });
}

// Collective over workers and servers: every server broadcasts its part.
void share_parameters(const Options& o, const communicator& world, const std::vector<Range>& parts,
                      std::span<float> all) {
  for (size_t s = 0; s < parts.size(); ++s) world.broadcast(slice(all, parts[s]), o.dp + int(s));
}

// ---------------------------------------------------------------- worker

class ServerWorker : public Strategy {
 public:
  ServerWorker(const Worker& worker, const communicator& world)
      : Strategy(worker),
        world_(world),
        rule_(sync_way(worker.options).server(worker.options)),
        servers_(channels_of(worker.options, world)),
        parts_(server_parts(worker.options, worker.replica.layout())) {
    for (const Channel& server : servers_) meters_.emplace_back(server.comm);
  }

  StepFigures step(int64_t step) override {
    const Options& o = worker_.options;
    const int64_t samples = shard_samples(o, worker_.comm.rank());
    StepFigures figures = own_pass(
        worker_, step, server_scale(rule_, o, samples, double(worker_.data.terms())), loss_scale_);
    const double computed = now();
    fault_point("allreduce");
    // With --elastic a server decides the step: then every worker knows of its figures what it
    // must.
    if (o.elastic) {
      made_.loss = figures.loss = mean(figures.loss, double(samples));
      made_.loss_scale = figures.loss_scale;
    }
    fault_point("decide");
    exchange(step, figures);
    fault_point("decided");
    if (loss_scale_) loss_scale_->update(figures.overflow);
    for (Meter& meter : meters_) figures.sent.counted += meter.sent();
    // To each server its part, and a message before it with the number of the iteration.
    const auto servers = double(servers_.size());
    figures.sent.formula = {4 * double(worker_.replica.parameters().size()) + 8 * servers,
                            2 * servers};
    figures.exposed = figures.communication = now() - computed;
    if (together() && !o.elastic) figures.loss = mean(figures.loss, double(samples));
    worker_.timeline.add("communication", "push and pull", computed, now(),
                         figures.sent.counted.bytes);
    return figures;
  }

  // The parameters come from the servers afterwards.
  StepFigures catch_up(const StepFigures& others) override {
    made_.overflow = others.overflow;
    if (loss_scale_) loss_scale_->update(made_.overflow);
    return made_;
  }
  // With every step all workers go on with the same parameters.
  bool together() const override { return sync_way(worker_.options).equal_steps; }
  // The servers' parameters are the result, so the order in which workers leave does not matter.
  Traffic finish() override {
    tell(leaves);
    take_parameters();
    world_.barrier();  // the servers have written their log
    return {};
  }

  // All gradients have been pushed and answered, and all state is on the servers.
  void pause(int64_t next) override { tell(saves(next)); }
  void resumed() override { take_parameters(); }

  std::string about() const override {
    return fmt::format("{} server{}: gradients there, parameters back", worker_.options.servers,
                       worker_.options.servers == 1 ? "" : "s");
  }

 private:
  void take_parameters() {
    const OnHost<float> here(worker_.replica.device(), worker_.replica.parameters());
    share_parameters(worker_.options, world_, parts_, here.values());
    here.store();
  }
  // Over the samples of all workers' shards.
  double mean(double own, double samples) const {
    double sum = own * samples;
    worker_.comm.allreduce<double>(std::span(&sum, 1));
    return sum / double(worker_.options.batch);
  }
  // In place of a clock.
  void tell(int64_t word) {
    for (const Channel& server : servers_)
      between(server, [&] { server.comm.send<int64_t>(std::span(&word, 1), 1); });
  }
  // Sends to all servers before it waits for any.
  void exchange(int64_t step, StepFigures& figures) {
    const int64_t clock = marked(step, figures.overflow);
    const Device& device = worker_.replica.device();
    const OnHost<float> gradients(device, worker_.replica.gradients());
    const OnHost<float> parameters(device, worker_.replica.parameters());
    for (size_t s = 0; s < servers_.size(); ++s) {
      between(servers_[s], [&] {
        servers_[s].comm.send<int64_t>(std::span(&clock, 1), 1);
        servers_[s].comm.send<float>(slice(gradients.values(), parts_[s]), 1);
      });
    }
    int64_t next = 0;
    for (size_t s = 0; s < servers_.size(); ++s) {
      between(servers_[s], [&] {
        servers_[s].comm.recv<int64_t>(std::span(&next, 1), 1);
        servers_[s].comm.recv<float>(slice(parameters.values(), parts_[s]), 1);
      });
    }
    parameters.store();
    figures.next = next & ~overflow_bit;
    if (rule_.takes_all(worker_.options.dp)) figures.overflow = next & overflow_bit;
  }

  const communicator& world_;
  ServerRule rule_;
  std::vector<Channel> servers_;
  std::vector<Range> parts_;  // of each
  std::vector<Meter> meters_;
  StepFigures made_;  // of the last step, what all workers know
};

// ---------------------------------------------------------------- server

// One entry of the order that server 0 decides.
struct Turn {
  int64_t worker = -1;  // none: there will be no more
  int64_t clock = 0;
};

// The threads of a server: one for each worker, which share one core; and, where server 0 decides
// the order of gradients, one that receives that order.
class Server {
 public:
  // `agreed`: server 0 decides which gradients of a step were first, and tells the other servers.
  Server(ServerCore& core, std::vector<Channel> workers, const communicator& servers, bool agreed)
      : core_(core),
        workers_(std::move(workers)),
        servers_(servers),
        leads_(agreed && servers.rank() == 0),
        follows_(agreed && servers.rank() > 0),
        seats_(workers_.size()) {
    for (Seat& seat : seats_) seat.gradient.resize(core_.range().size());
  }

  // Runs until all workers have left (returns -1) or a checkpoint is due (returns the iteration to
  // do next).
  int64_t run() {
    saved_ = -1;
    std::vector<std::thread> threads;
    threads.reserve(workers_.size() + 1);
    for (size_t w = 0; w < workers_.size(); ++w)
      threads.push_back(begin([this, w] {
        between(workers_[w], [&] {
          while (serve_once(int(w))) {
          }
        });
      }));
    if (follows_)
      threads.push_back(begin([this] {
        while (follow_once()) {
        }
      }));
    for (std::thread& thread : threads) thread.join();
    if (failed_) std::rethrow_exception(failed_);
    tell({});
    return saved_;
  }
  std::vector<StateVector> state() {
    return state_of(core_.parameters(), core_.optimizer(), StateVector::Placement::sharded);
  }
  const std::vector<json>& log() const { return log_; }
  // Bytes, by the counters; not to be called while run() runs.
  struct Exchanged {
    double received = 0, sent = 0;
  };
  Exchanged exchanged() const {
    Exchanged sum;
    for (const Channel& worker : workers_) {
      sum.received += double(worker.comm.counters().bytes_received);
      sum.sent += double(worker.comm.counters().bytes_sent);
    }
    return sum;
  }

 private:
  struct Reply {
    int64_t next = 0;  // perhaps marked
    std::shared_ptr<const std::vector<float>> parameters;
  };
  // The state of one worker's exchange: its gradient, and the reply to it.
  struct Seat {
    std::vector<float> gradient;
    int64_t clock = -1;  // of the gradient, once it has arrived
    bool overflow = false;
    bool waits = false;  // pushed and not yet answered
    std::optional<Reply> reply;
  };

  // A thread that fails ends the others.
  std::thread begin(std::function<void()> body) {
    return std::thread([this, body = std::move(body)] {
      try {
        body();
      } catch (const std::exception& failed) {
        {
          const std::lock_guard lock(mutex_);
          if (!failed_) failed_ = std::current_exception();
        }
        for (const Channel& other : workers_) other.comm.abort(failed.what());
        if (leads_ || follows_) servers_.abort(failed.what());
        changed_.notify_all();
      }
    });
  }

  // One iteration of a worker, however long that computes before it sends; false when it has left,
  // or waits for a checkpoint.
  bool serve_once(int worker) {
    const communicator& comm = workers_[size_t(worker)].comm;
    Seat& seat = seats_[size_t(worker)];
    int64_t clock = 0;
    comm.recv<int64_t>(std::span(&clock, 1), 0);
    if (clock < 0) {
      const std::lock_guard lock(mutex_);
      if (clock == leaves)
        core_.leave(worker);
      else
        saved_ = saved(clock);
      answer();
      return false;
    }
    comm.recv<float>(seat.gradient, 0);
    fault_point("server");
    std::unique_lock lock(mutex_);
    seat.overflow = clock & overflow_bit;
    seat.clock = clock &= ~overflow_bit;
    changed_.notify_all();
    if (!follows_) push({worker, clock});
    changed_.wait(lock, [&] { return failed_ || seat.reply; });
    if (failed_) return false;
    const Reply reply = *std::exchange(seat.reply, std::nullopt);
    lock.unlock();
    comm.send<int64_t>(std::span(&reply.next, 1), 0);
    comm.send<float>(*reply.parameters, 0);
    return true;
  }

  // Waits for the next gradient in the order of server 0 and pushes it; false when there are no
  // more.
  bool follow_once() {
    Turn turn;
    servers_.recv<int64_t>(std::span(&turn.worker, 2), 0);
    if (turn.worker < 0) return false;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return failed_ || core_.is_late(turn.clock) ||
             seats_[size_t(turn.worker)].clock == turn.clock;
    });
    if (failed_) return false;
    push(turn);
    return true;
  }

  void tell(const Turn& turn) {
    if (!leads_) return;
    for (int s = 1; s < servers_.size(); ++s) servers_.send<int64_t>(std::span(&turn.worker, 2), s);
  }

  // The three that follow are called with the mutex locked.
  void push(const Turn& turn) {
    tell(turn);
    Seat& seat = seats_[size_t(turn.worker)];
    const bool used = core_.push(int(turn.worker), turn.clock, seat.gradient, seat.overflow);
    log_.push_back({{"push", turn.worker},
                    {"clock", turn.clock},
                    {"used", used},
                    {"staleness", core_.staleness()},
                    {"updates", core_.updates()}});
    seat.waits = true;
    answer();
  }
  // Answers every worker that may go on.
  void answer() {
    for (size_t w = 0; w < seats_.size(); ++w) {
      if (!seats_[w].waits || !core_.may_read(int(w))) continue;
      const int64_t next = core_.read(int(w));
      log_.push_back({{"read", w}, {"next", next}, {"updates", core_.updates()}});
      seats_[w].reply = {marked(next, core_.left_out()), snapshot()};
      seats_[w].waits = false;
    }
    changed_.notify_all();
  }
  // A copy of the parameters as they are now, shared by all that read them before the next update.
  std::shared_ptr<const std::vector<float>> snapshot() {
    if (!snapshot_ || snapshot_updates_ != core_.updates()) {
      const std::span<const float> now = std::as_const(core_).parameters();
      snapshot_ = std::make_shared<const std::vector<float>>(now.begin(), now.end());
      snapshot_updates_ = core_.updates();
    }
    return snapshot_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  ServerCore& core_;
  std::vector<Channel> workers_;
  const communicator& servers_;
  const bool leads_, follows_;
  std::vector<Seat> seats_;  // by worker
  std::shared_ptr<const std::vector<float>> snapshot_;
  int64_t snapshot_updates_ = 0;
  std::vector<json> log_;
  int64_t saved_ = -1;
  std::exception_ptr failed_;
};

// Server 0 collects the events of all servers.
void write_log(const Options& o, const communicator& servers, const Server& server,
               std::span<const float> parameters, const std::vector<std::string>& arguments) {
  std::string mine;
  for (const json& event : server.log()) mine += event.dump() + "\n";
  const std::vector<std::string> all = gather_text(servers, mine);
  double total[] = {server.exchanged().received + server.exchanged().sent};
  servers.allreduce<double>(total);
  if (servers.rank() != 0 || o.log.empty()) return;
  std::string text = json({{"arguments", arguments}, {"server_bytes", total[0]}}).dump() + "\n";
  for (size_t s = 0; s < all.size(); ++s) text += json({{"server", s}}).dump() + "\n" + all[s];
  text += json({{"parameters", digest_of(parameters)}}).dump() + "\n";
  write_file(o.log, text);
}

std::string plan(const PlannedStep& step) {
  const Options& o = step.options;
  const auto bytes = double(o.element_bytes() * elements_of(step.layout));
  std::string text = fmt::format(
      "a step     when backward has finished a worker sends its gradient, {}, to the server{}, "
      "waits for new parameters, and gets {}\n",
      megabytes(bytes), o.servers == 1 ? "" : "s, each its part", megabytes(bytes));
  text += fmt::format("a server   receives and sends {} in all when each worker has made a step\n",
                      megabytes(2 * o.dp * largest_part(o, step.layout)));
  if (sync_way(o).server(o).agreed_order && o.servers > 1)
    text +=
        "server 0   decides which gradients were first, and tells the others: 16 bytes a "
        "gradient\n";
  return text;
}

}  // namespace

SyncWay server_way(const char* name, ServerRule (*rule)(const Options& options)) {
  return {.name = name,
          .messages = true,
          .server = rule,
          .plan = plan,
          .make = made_strategy<ServerWorker>};
}

void ServerRank::serve(const CheckpointGroup& group, const communicator& servers) {
  const Options& o = group.options;
  const communicator& world = group.comm;
  const std::span<float> all = replica_.parameters();
  const std::vector<Range> parts = server_parts(o, replica_.layout());
  const Range& part = parts[size_t(servers.rank())];
  const ServerRule rule = sync_way(o).server(o);
  std::optional<LossScale> scale = LossScale::of(o);  // a server keeps its count alone
  const bool again = core_.has_value();
  if (again)
    core_->restart(rule, o.dp);
  else
    core_.emplace(make_core(rule, o, replica_.layout(), all, part));
  Server server(*core_, channels_of(o, world), servers, rule.agreed_order && o.servers > 1);
  const auto share = [&] {
    const std::span<const float> own = std::as_const(*core_).parameters();
    std::copy(own.begin(), own.end(), slice(all, part).begin());
    share_parameters(o, world, parts, all);
  };
  if (again) {
    share();
  } else if (o.resume) {
    const Checkpoint found = common_checkpoint(group);
    load_checkpoint(found, group, server.state());
    if (scale) *scale = found.scale_of(world.rank()).value_or(*scale);
    core_->resume(found.step, scale ? scale->skipped : 0);
    share();
  }
  int64_t checkpoints = 0;
  for (int64_t next = 0; (next = server.run()) >= 0; ++checkpoints) {
    faults().now = next - 1;
    if (scale) scale->skipped = core_->skipped();
    save_checkpoint(group, server.state(), next, scale ? &*scale : nullptr);
  }
  share();
  write_log(o, servers, server, all, arguments_);
  world.barrier();
  int64_t pushes = 0, used = 0;
  for (const json& event : server.log()) {
    pushes += event.contains("push");
    used += event.value("used", false);
  }
  // Each gradient comes, and its part of the parameters goes, with a number of 8 bytes before it;
  // at a checkpoint and at the end each worker sends such a number alone.
  const double each = 4 * double(core_->range().size()) + 8;
  const double received = double(pushes) * each + 8 * double(o.dp) * double(checkpoints + 1);
  const double sent = double(pushes) * each;
  const Server::Exchanged counted = server.exchanged();
  const std::string text = fmt::format(
      "held {} parameters, took {} gradients of {} workers, dropped {}, made {} updates; received "
      "{:.0f} bytes, {:.0f} by the formula, sent {:.0f}, {:.0f} by the formula",
      core_->range().size(), pushes, o.dp, pushes - used, core_->updates() - core_->skipped(),
      counted.received, received, counted.sent, sent);
  gather_text(world, json{{"text", text},
                          {"bytes_received", counted.received},
                          {"received_by_formula", received},
                          {"bytes_sent", counted.sent},
                          {"sent_by_formula", sent}}
                         .dump());
}

}  // namespace tutti::train
