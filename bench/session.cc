#include "bench/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "bench/compressed.h"
#include "bench/forms.h"
#include "bench/gpu_session.h"
#include "bench/limit.h"
#include "bench/measure.h"
#include "bench/sizes.h"
#include "bench/subjects.h"
#include "bench/transports.h"
#include "bench/workload.h"

namespace tutti::bench {
namespace {

// A model's gradients would need gigabytes per rank. Buckets take turns in a window several times
// the size of any cache, so that each one finds memory as cold as in training.
constexpr size_t window_bytes = size_t(256) << 20;

// Batches to measure the time for which to compute.
constexpr size_t quick_batches = 7;

struct Link {
  std::string transport;
  Comm comm;
  Buffers buffers;
  std::vector<LimitWay> limits;
  std::unique_ptr<GpuBuffers> gpu;  // null: calls are on `buffers`
};

struct Candidate {
  const Link* link;
  std::unique_ptr<CheckedSubject> subject;
  Result result;
  std::unique_ptr<Companions> companions;  // null: the plain call alone
};

// One row of the table: spans that are exchanged together.
struct Task {
  std::string name;
  TypeAndOp of;
  std::vector<Span> spans;

  size_t element() const { return tutti_dtype_size(of.dtype); }
  size_t count() const {
    return std::accumulate(spans.begin(), spans.end(), size_t(0),
                           [](size_t sum, const Span& span) { return sum + span.count; });
  }
};

class Session {
 public:
  Session(const Options& options, const Rank& me, Report* report)
      : options_(options), collective_(*options.collective), me_(me), report_(report) {}

  uint64_t run() {
    for (const TypeAndOp& of : options_.combinations) make_tasks(of);
    if (on_gpu(options_.memory))
      gpu_.emplace(options_, me_);
    else
      map_ = SharedMap::create(me_, has_limit() ? largest_ : 0);
    for (const std::string& transport : options_.transports) open(transport);
    for (size_t i = 0; i < tasks_.size(); ++i) run_task(i);
    if (report_) report_->finish();
    return wrong_;
  }

 private:
  bool has_limit() const {
    return me_.nranks() > 1 && collective_.sized && options_.form != Form::nonblocking;
  }

  void make_tasks(const TypeAndOp& of) {
    if (!options_.workload.empty()) return make_workload_task(of);
    const size_t element = tutti_dtype_size(of.dtype);
    std::optional<size_t> last;
    for (size_t wanted : options_.sizes) {
      const size_t count = collective_.count_within(me_.nranks(), wanted / element);
      const size_t bytes = bytes_of(of, count);
      if (count == last) continue;  // the same whole blocks as the size before
      last = count;
      std::string name = format_bytes(bytes);
      if (options_.combinations.size() > 1)
        name = fmt::format("{} {}, {}", tutti_dtype_name(of.dtype), tutti_op_name(of.op), name);
      tasks_.push_back({std::move(name), of, {{0, count}}});
      extent_ = largest_ = std::max(largest_, bytes);
    }
  }

  void make_workload_task(const TypeAndOp& of) {
    Task task{options_.workload, of, {}};
    const size_t element = task.element();
    const auto buckets = make_buckets(make_workload(options_.workload), element);
    largest_ = *std::max_element(buckets.begin(), buckets.end()) * element;
    extent_ = std::max(window_bytes, largest_);
    // The oracle's values repeat, so that every bucket begins where they begin.
    const size_t unit = Oracle::period * element * 64;
    size_t at = 0;
    for (size_t count : buckets) {
      if (at + count * element > extent_) at = 0;
      task.spans.push_back({at, count});
      at += (count * element + unit - 1) / unit * unit;
    }
    tasks_.push_back(std::move(task));
  }

  size_t bytes_of(const TypeAndOp& of, size_t count) const {
    return collective_.longest(me_.nranks(), count) * tutti_dtype_size(of.dtype);
  }

  void open(const std::string& transport) {
    Comm comm = gpu_ ? gpu_->open() : me_.open(transport, options_.progress_thread);
    Buffers buffers(options_.memory, comm.get(), extent_);
    Link link{transport, std::move(comm), std::move(buffers), {}, nullptr};
    const LimitOf what{collective_.name, options_.root, options_.in_place};
    if (map_ && has_limit())
      link.limits =
          over_raw_sockets(transport) ? socket_limits(me_, what) : mapped_limits(me_, *map_, what);
    links_.push_back(std::make_unique<Link>(std::move(link)));
    Link& kept = *links_.back();
    if (gpu_) kept.gpu = gpu_->buffers(kept.comm.get(), kept.buffers);
  }

  // Fills the task's inputs, if they differ from the previous task's.
  void fill(const Task& task) {
    if (oracle_ && filled_.dtype == task.of.dtype && filled_.op == task.of.op) return;
    filled_ = task.of;
    oracle_.emplace(task.of.dtype, task.of.op, me_.nranks(), me_.rank());
    for (const auto& link : links_) oracle_->fill(link->buffers.send(), extent_ / task.element());
  }

  void run_task(size_t index) {
    const Task& task = tasks_[index];
    fill(task);
    auto say = [&](double fraction) {
      if (report_)
        report_->progress(std::min(0.999, (double(index) + fraction) / double(tasks_.size())),
                          task.name);
    };
    say(0);
    std::vector<Candidate> candidates = make_candidates(task);
    check(candidates);
    std::vector<std::unique_ptr<LimitSubject>> limits;
    std::vector<const Link*> limit_links;
    for (const auto& link : links_) {
      for (const LimitWay& way : link->limits) {
        if (!fits(way, task)) continue;
        limits.push_back(std::make_unique<LimitSubject>(me_, way, lengths(task), options_.data));
        limit_links.push_back(link.get());
        limits.back()->run(1);
      }
    }
    std::vector<Subject*> subjects;
    for (Candidate& c : candidates) {
      if (!c.result.ran) continue;
      subjects.push_back(c.subject.get());
      if (!c.companions) continue;
      const std::vector<Subject*> others = c.companions->subjects();
      subjects.insert(subjects.end(), others.begin(), others.end());
    }
    for (auto& limit : limits) subjects.push_back(limit.get());
    if (gpu_) {
      gpu_->empty().run(1);
      subjects.push_back(&gpu_->empty());
    }
    const Measurement m = measure(me_, map_.get(), subjects, options_.method, say);
    check(candidates);
    add_results(task, candidates, limits, limit_links, m);
  }

  // Bytes of the longer buffer of each call.
  std::vector<size_t> lengths(const Task& task) const {
    std::vector<size_t> lengths;
    for (const Span& span : task.spans) lengths.push_back(bytes_of(task.of, span.count));
    return lengths;
  }

  bool fits(const LimitWay& way, const Task& task) const {
    const std::vector<size_t> all = lengths(task);
    return std::all_of(all.begin(), all.end(), [&](size_t bytes) {
      return bytes >= way.least_bytes && bytes <= way.most_bytes;
    });
  }

  std::unique_ptr<Companions> make_companions(const SubjectMaker& maker, Subject& plain) {
    if (options_.form == Form::plain) return nullptr;
    if (options_.form == Form::persistent) return persistent_companions(maker);
    if (options_.form == Form::varied) return varied_companions(maker, options_.varied);
    const auto quick_us = [this](Subject& subject) {
      const Method quick{options_.method.iterations, quick_batches, 0};
      const Measurement m = measure(me_, map_.get(), {&subject}, quick, [](double) {});
      return summarise(m.timings.front().batch_us).median;
    };
    return nonblocking_companions(maker, plain, options_.tests, quick_us);
  }

  std::vector<Candidate> make_candidates(const Task& task) {
    std::vector<Candidate> candidates;
    for (const auto& link : links_) {
      for (const tutti_level level : options_.levels) {
        for (const std::string& algorithm : options_.algorithms) {
          candidates.push_back(make_candidate(task, *link, level, algorithm));
        }
      }
      add_compressed(task, *link, candidates);
    }
    return candidates;
  }

  Candidate make_candidate(const Task& task, const Link& link, tutti_level level,
                           const std::string& algorithm) {
    const CallShape shape{.dtype = task.of.dtype,
                          .op = task.of.op,
                          .level = level,
                          .root = options_.root,
                          .in_place = options_.in_place,
                          .unfused = options_.unfused,
                          .data = options_.data};
    std::unique_ptr<CollectiveSubject> subject =
        gpu_ ? gpu_->subject(link.comm.get(), algorithm, shape, task.spans, link.buffers, *link.gpu)
             : std::make_unique<CollectiveSubject>(collective_, me_, link.comm.get(), algorithm,
                                                   shape, task.spans, link.buffers);
    tutti_explanation explanation{};
    const bool runs = subject->explain(&explanation);
    Candidate c{&link, std::move(subject), {}, nullptr};
    c.result.level = collective_.reduces ? tutti_level_name(level) : "none";
    c.result.beside.progress_thread = options_.progress_thread;
    c.result.beside.tests = options_.tests;
    describe(task, explanation, runs, c);
    const SubjectMaker maker{collective_, me_,        link.comm.get(), algorithm,
                             shape,       task.spans, link.buffers};
    if (runs) c.companions = make_companions(maker, *c.subject);
    return c;
  }

  void add_compressed(const Task& task, const Link& link, std::vector<Candidate>& candidates) {
    const size_t count = task.spans.front().count;
    std::vector<std::unique_ptr<CheckedSubject>> subjects;
    for (const double density : options_.densities)
      subjects.push_back(std::make_unique<SparseSubject>(me_, link.comm.get(), density, count));
    for (const std::string& codec : options_.codecs)
      subjects.push_back(
          std::make_unique<CodedSubject>(me_, link.comm.get(), codec, count, link.buffers));
    for (auto& subject : subjects) {
      Candidate c{&link, std::move(subject), {}, nullptr};
      c.result.level = tutti_level_name(options_.levels.front());
      describe(task, {}, true, c);
      candidates.push_back(std::move(c));
    }
  }

  void describe(const Task& task, const tutti_explanation& explanation, bool runs, Candidate& c) {
    Result& r = c.result;
    r.collective = collective_.name;
    r.root = collective_.rooted ? options_.root : -1;
    r.ran = runs;
    r.transport = c.link->transport;
    r.ranks = me_.nranks();
    r.count = task.count();
    r.bytes = bytes_of(task.of, r.count);
    r.dtype = collective_.sized ? tutti_dtype_name(task.of.dtype) : "none";
    r.op = collective_.reduces ? tutti_op_name(task.of.op) : "none";
    r.in_place = options_.in_place;
    r.memory = options_.memory_text;
    r.data = options_.data;
    r.workload = options_.workload;
    r.reason = explanation.reason;
    c.subject->describe(&r);
    if (!r.ran) return;
    set_choice(explanation, &r);
  }

  static void set_choice(const tutti_explanation& explanation, Result* r) {
    r->chosen = explanation.algorithm;
    r->path = explanation.path;
    r->reason = explanation.reason;
    r->choice = {explanation.algorithm, explanation.way, explanation.predicted_us,
                 explanation.measured_us};
    r->runner_up = {explanation.runner_up, explanation.runner_up_way, explanation.runner_up_us,
                    explanation.runner_up_measured_us};
  }

  // Every algorithm runs at least once here, checked or not.
  void check(std::vector<Candidate>& candidates) {
    for (Candidate& c : candidates) {
      if (!c.result.ran) continue;
      if (!options_.check || !collective_.sized) {
        c.subject->run_us(calls_to_settle(c));
        if (c.companions) c.companions->warm_up();
        continue;
      }
      c.result.checked = true;
      uint64_t wrong = c.subject->check(*oracle_);
      if (c.companions) {
        wrong += c.companions->check(*oracle_);
        c.companions->warm_up();
      }
      wrong = me_.sum(wrong);
      c.result.wrong += wrong;
      wrong_ += wrong;
      c.subject->run_us(calls_to_settle(c));
    }
  }

  // The library tries the ways with the same bits in the first calls of `auto`: on data as they are
  // measured.
  static size_t calls_to_settle(const Candidate& c) {
    return c.result.algorithm == "auto" ? settling_calls : 1;
  }

  void add_results(const Task& task, std::vector<Candidate>& candidates,
                   const std::vector<std::unique_ptr<LimitSubject>>& limits,
                   const std::vector<const Link*>& limit_links, const Measurement& m) {
    auto timing = m.timings.begin();
    for (Candidate& c : candidates) {
      if (!c.result.ran) continue;
      c.result.iterations = timing->iterations;
      c.result.batches = timing->batch_us.size();
      c.result.dropped = timing->dropped;
      c.result.us = summarise(timing->batch_us);
      c.result.hop_ns = m.hop_ns;
      tutti_explanation explanation{};
      if (c.subject->explain_again(&explanation)) set_choice(explanation, &c.result);
      c.subject->describe(&c.result);
      c.result.sent_bytes = me_.max(c.result.sent_bytes);
      c.result.relative_error = me_.max(c.result.relative_error);
      ++timing;
      if (!c.companions) continue;
      c.companions->summarise(&*timing, &c.result);
      timing += std::ptrdiff_t(c.companions->subjects().size());
    }
    for (size_t i = 0; i < limits.size(); ++i, ++timing) {
      const double median = summarise(timing->batch_us).median;
      for (Candidate& c : candidates) {
        Result& r = c.result;
        if (c.link != limit_links[i] || (r.limit_us > 0 && r.limit_us <= median)) continue;
        r.limit_us = median;
        r.limit_way = limits[i]->name();
      }
    }
    if (gpu_) {
      const double empty_us = summarise(timing->batch_us).median;
      for (Candidate& c : candidates)
        gpu_->describe(task.count(), task.element(), empty_us, &c.result);
    }
    for (Candidate& c : candidates) {
      c.result.fast_us = at_fast(candidates, c);
      if (c.result.algorithm == "auto") c.result.named_us = best_named(candidates, c);
    }
    for (Candidate& c : candidates) {
      if (task.spans.size() > 1 && c.result.ran) add_buckets(task, c);
      if (report_) report_->add(c.result);
    }
  }

  // The time of the same subject at level fast; 0 if not measured.
  static double at_fast(const std::vector<Candidate>& candidates, const Candidate& same) {
    for (const Candidate& c : candidates) {
      if (c.result.level == "fast" && c.link == same.link && c.result.ran &&
          c.result.algorithm == same.result.algorithm)
        return c.result.us.median;
    }
    return 0;
  }

  // The least time of the algorithms that were asked for by name; 0 if there is none.
  static double best_named(const std::vector<Candidate>& candidates, const Candidate& same) {
    double best = 0;
    for (const Candidate& c : candidates) {
      const Result& r = c.result;
      if (!r.ran || !r.dense() || r.algorithm == "auto" || c.link != same.link ||
          r.level != same.result.level)
        continue;
      if (best == 0 || r.us.median < best) best = r.us.median;
    }
    return best;
  }

  void add_buckets(const Task& task, Candidate& c) {
    std::vector<double>& all = c.subject->span_us();
    me_.max_in_place(all);
    if (!report_) return;
    const size_t buckets = task.spans.size();
    for (size_t bucket = 0; bucket < buckets; ++bucket) {
      std::vector<double> us;
      for (size_t i = bucket; i < all.size(); i += buckets) us.push_back(all[i]);
      Result r = c.result;
      r.bucket = int(bucket);
      r.count = task.spans[bucket].count;
      r.bytes = r.count * task.element();
      r.iterations = 1;
      r.batches = us.size();
      r.dropped = 0;
      r.us = summarise(us);
      r.limit_us = r.fast_us = r.named_us = 0;
      report_->add(r);
    }
  }

  const Options& options_;
  const Collective& collective_;
  const Rank& me_;
  Report* report_;
  std::vector<Task> tasks_;
  size_t extent_ = 0;   // bytes of each buffer
  size_t largest_ = 0;  // bytes of one call
  std::optional<Oracle> oracle_;
  TypeAndOp filled_{};
  std::unique_ptr<SharedMap> map_;  // null on GPUs
  std::optional<GpuSession> gpu_;   // only on GPUs
  std::vector<std::unique_ptr<Link>> links_;
  uint64_t wrong_ = 0;
};

}  // namespace

uint64_t run_session(const Options& options, const Rank& me, Report* report) {
  return Session(options, me, report).run();
}

}  // namespace tutti::bench
