#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <utility>

#include "trainer/common/call.h"
#include "trainer/common/error.h"
#include "trainer/common/faults.h"
#include "trainer/common/interrupt.h"
#include "trainer/report/summary.h"
#include "trainer/sync/wire.h"
#include "trainer/workers.h"

namespace tutti::train {
namespace {

// Mean over a fixed part of the validation samples, each copy of the model taking its share.
double validate(const Worker& worker) {
  const uint64_t all = std::min<uint64_t>(worker.data.validation_samples(), 256);
  const int copies = worker.grid.mesh.size(Axis::data);
  const auto begin = uint64_t(cut(int64_t(all), copies, worker.grid.copy));
  const auto end = uint64_t(cut(int64_t(all), copies, worker.grid.copy + 1));
  double sums[] = {0, double(end - begin) * double(worker.data.terms())};
  for (uint64_t i = begin; i < end; i += 16) {
    const Batch batch = validation_of(worker.data, i, std::min(end, i + 16));
    sums[0] += worker.pipeline ? worker.pipeline->loss(batch) : worker.replica.loss(batch);
  }
  // Only the last stage has a loss.
  if (worker.pipeline) worker.grid.pipeline.allreduce<double>(std::span(sums, 1));
  worker.comm.allreduce<double>(sums);
  return sums[0] / sums[1];
}

// An overflow of scaled losses is no divergence as long as the scale can fall.
bool is_finite(const StepFigures& f) {
  return std::isfinite(f.loss) && std::isfinite(f.step_norm) && (!f.overflow || f.loss_scale >= 1);
}

// A step, and what ranks that share a copy of the model sent each other in it.
StepFigures step_of(Team& team, int64_t step) {
  const Grid& grid = *team.grid;
  GroupCalls& made = *team.group.made;
  // What came before, a validation for one, is not the step's.
  made = {};
  Meter divided(grid.tensor), staged(grid.pipeline);
  StepFigures figures = team.strategy->step(step);
  if (team.worker.replica.device().is_gpu() && team.options.tp > 1)
    check(tutti_comm_device_status(grid.tensor.get()), grid.tensor);
  figures.divided = {divided.sent(), {}, made.seconds};
  for (const GroupCall& call : made.calls)
    figures.divided.formula += formula_of(call, team.group.sums, grid.tensor);
  // The norms of divided layers.
  if (team.options.optimizer == "lamb")
    figures.divided.formula +=
        formula_of({GroupCall::Kind::allreduce, 2 * team.worker.replica.layout().size(),
                    TUTTI_BINNED_FLOAT64, TUTTI_SUM},
                   TUTTI_CALL_CONFIG_INIT, grid.tensor);
  figures.exposed += made.seconds;
  figures.communication += made.seconds;
  if (const Pipeline* pipeline = team.worker.pipeline)
    figures.staged = {staged.sent(), pipeline->planned(), pipeline->exposed()};
  return figures;
}

class StepLoop {
 public:
  // `progress`: where the run begins, or has come to when this process joined it.
  StepLoop(Workers& workers, Screen& screen, const Progress& progress)
      : workers_(workers), screen_(screen), progress_(progress) {}
  // Makes the steps that are left. Returns the exit status.
  int run() {
    try {
      for (;; go_on()) {
        try {
          while (!last_) {
            if (progress_.settled == progress_.done) make_step();
            settle();
          }
          return end();
        } catch (const error& failed) {
          if (!team().options.elastic || !is_loss(failed)) throw Failure(failed.what());
        } catch (const Lost&) {
          if (!team().options.elastic) throw;
        }
      }
    } catch (const Failure& failed) {
      throw Failure(failed.what() + way_on());
    }
  }

 private:
  // Why a run ends before its last step.
  enum class Early { no, interrupted, diverged };

  Team& team() { return workers_.team(); }
  void make_step() {
    Team& team = this->team();
    const int64_t step = progress_.done;
    faults().now = step;
    team.worker.timeline.step(step);
    StepRecord record;
    const double from = now();
    record.figures = step_of(team, step);
    record.step = step + 1;
    record.seconds = now() - from;
    record.samples_per_s = double(team.options.batch) / record.seconds;
    progress_.from = step;
    progress_.done = record.figures.next >= 0 ? record.figures.next : step + 1;
    progress_.last = record;
  }
  // What comes after a step; with --elastic perhaps again, where a worker was lost meanwhile.
  void settle() {
    const Worker& worker = team().worker;
    const Options& o = worker.options;
    const SyncWay& way = sync_way(o);
    // Whether workers meet only where a checkpoint is written.
    const bool alone = way.messages && !way.equal_steps;
    const bool kept = !o.checkpoint.empty();
    Strategy& strategy = *team().strategy;
    StepRecord& record = progress_.last;
    const int64_t next = progress_.done;
    const bool ends = next >= o.steps;
    // Steps may be skipped: a checkpoint is due when a multiple is passed.
    const bool due =
        kept && (ends || next / o.checkpoint_every > progress_.from / o.checkpoint_every);
    finite_ = o.keep_going || (finite_ && is_finite(record.figures));
    double newcomers = workers_.newcomers();
    early_ = early_end(alone ? due : strategy.together(), alone && !kept, newcomers);
    if (early_ == Early::interrupted && ends) early_ = Early::no;
    const bool last = early_ != Early::no || ends;
    if (early_ != Early::diverged && kept && (due || last) && progress_.saved != next) {
      strategy.pause(next);
      save_checkpoint(team().keepers, strategy.state(), next, strategy.loss_scale());
      progress_.saved = next;
    }
    if (last) record.figures.sent += strategy.finish();
    nlohmann::json more = nlohmann::json::object();
    if (o.hash && (last || way.equal_steps)) more["parameters"] = checked_digest(worker);
    if (last || (o.evaluate_every > 0 && record.step % o.evaluate_every == 0))
      record.validation = validate(worker);
    if (!history_.empty() && history_.back().step == record.step) history_.pop_back();
    history_.push_back(record);
    if (screen_.shows() && shown_ < record.step) {
      screen_.step(record, more);
      shown_ = record.step;
    }
    last_ = last;
    progress_.settled = next;
    if (newcomers == 0 || last) return;
    const double from = now();
    Change change;
    change.came = workers_.let_in(int(newcomers), progress_);
    if (!change.came.empty()) note(std::move(change), from);
  }
  // `meets`: all workers are here, end if one must, and learn how many newcomers rank 0 sees.
  // `leaves`: a worker may end by itself.
  Early early_end(bool meets, bool leaves, double& newcomers) {
    double found[] = {interrupted ? 1.0 : 0.0, finite_ ? 0.0 : 1.0, newcomers};
    if (meets)
      team().grid->all.allreduce<double>(found, TUTTI_MAX);
    else if (!leaves)
      return Early::no;
    newcomers = found[2];
    return found[1] > 0 ? Early::diverged : found[0] > 0 ? Early::interrupted : Early::no;
  }
  int end() {
    Team& team = this->team();
    write_records(
        team.worker, history_,
        show_summary(screen_, team.worker, workers_.world(), *team.strategy, history_, changes_));
    return exit_status();
  }
  // Of all ranks.
  int exit_status() {
    const Worker& worker = team().worker;
    const Options& o = worker.options;
    auto most = int64_t(early_);
    worker.grid.all.allreduce<int64_t>(std::span(&most, 1), TUTTI_MAX);
    const auto early = Early(most);
    if (early == Early::no) return 0;
    if (worker.grid.all.rank() == 0) {
      const StepRecord& last = progress_.last;
      const StepFigures& f = last.figures;
      if (early == Early::diverged)
        fmt::print(
            stderr,
            "tutti-train: the run has diverged: at step {} of {} the loss is {} and the squared "
            "length of the gradient {} (--keep-going does not end there){}\n",
            last.step, o.steps, f.loss, f.overflow ? INFINITY : f.step_norm, way_on());
      else
        fmt::print(stderr, "tutti-train: interrupted after step {} of {}{}\n", last.step, o.steps,
                   way_on());
    }
    return early == Early::diverged ? 1 : 128 + SIGINT;
  }
  // What there is to go on from when a run ends early.
  std::string way_on() {
    return progress_.saved > 0 ? fmt::format("; --resume goes on from step {} in {}",
                                             progress_.saved, team().options.checkpoint)
                               : "";
  }
  void go_on() {
    const double from = now();
    Change change;
    change.lost = workers_.lose(progress_);
    if (progress_.settled != progress_.done) last_ = false;
    if (workers_.world().rank() == 0) screen_.take_over();
    note(std::move(change), from);
  }
  // `from`: when the change began.
  void note(Change change, double from) {
    change.step = progress_.done;
    change.workers = team().options.dp;
    change.end = now();
    change.seconds = change.end - from;
    changes_.push_back(change);
    screen_.line(sentence_of(change));
    screen_.record(object_of(change));
  }

  Workers& workers_;
  Screen& screen_;
  Progress progress_;
  std::vector<StepRecord> history_;
  std::vector<Change> changes_;
  int64_t shown_ = 0;  // the last step whose figures this rank has shown
  Early early_ = Early::no;
  bool finite_ = true, last_ = false;
};

}  // namespace

int run_steps(Workers& workers, Screen& screen, const Progress& progress) {
  return StepLoop(workers, screen, progress).run();
}

}  // namespace tutti::train
