#include "bench/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "bench/limit.h"
#include "bench/measure.h"
#include "bench/sizes.h"
#include "bench/subjects.h"
#include "bench/workload.h"

namespace tutti::bench {
namespace {

// A model's gradients would need gigabytes a rank; buckets take turns in a window that is several
// times any cache, so that each one meets memory as cold as in training.
constexpr size_t window_bytes = size_t(256) << 20;

struct Link {
  std::string transport;
  Comm comm;
  Buffers buffers;
  std::vector<LimitWay> limits;
};

struct Candidate {
  const Link* link;
  std::unique_ptr<CollectiveSubject> subject;
  Result result;
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
    map_ = SharedMap::create(me_, has_limit() ? largest_ : 0);
    for (const std::string& transport : options_.transports) open(transport);
    for (size_t i = 0; i < tasks_.size(); ++i) run_task(i);
    if (report_) report_->finish();
    return wrong_;
  }

 private:
  // Of which the least work is known.
  bool has_limit() const {
    return me_.nranks() > 1 && std::string(collective_.name) == "allreduce";
  }

  void make_tasks(const TypeAndOp& of) {
    if (!options_.workload.empty()) return make_workload_task(of);
    const size_t element = tutti_dtype_size(of.dtype);
    std::optional<size_t> last;
    for (size_t wanted : options_.sizes) {
      const size_t count = collective_.count_within(me_.nranks(), wanted / element);
      const size_t bytes = bytes_of(of, count);
      if (count == last) continue;  // sizes that mean the same whole blocks
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
    Comm comm = me_.open(transport);
    Buffers buffers(options_.memory, comm.get(), extent_);
    Link link{transport, std::move(comm), std::move(buffers), {}};
    if (map_ && has_limit())
      link.limits = transport == "tcp" ? tcp_limits(me_) : mapped_limits(me_, *map_);
    links_.push_back(std::make_unique<Link>(std::move(link)));
  }

  // Its inputs, where those of the task before were others.
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
        limits.push_back(std::make_unique<LimitSubject>(way, task.spans, task.element()));
        limit_links.push_back(link.get());
        limits.back()->run(1);
      }
    }
    std::vector<Subject*> subjects;
    for (Candidate& c : candidates)
      if (c.result.ran) subjects.push_back(c.subject.get());
    for (auto& limit : limits) subjects.push_back(limit.get());
    const Measurement m = measure(me_, map_.get(), subjects, options_.method, say);
    check(candidates);
    add_results(task, candidates, limits, limit_links, m);
  }

  bool fits(const LimitWay& way, const Task& task) const {
    return std::all_of(task.spans.begin(), task.spans.end(), [&](const Span& span) {
      const size_t bytes = span.count * task.element();
      return bytes >= way.least_bytes && bytes <= way.most_bytes;
    });
  }

  std::vector<Candidate> make_candidates(const Task& task) {
    const CallShape shape{task.of.dtype, task.of.op, options_.root, options_.in_place,
                          options_.unfused};
    std::vector<Candidate> candidates;
    for (const auto& link : links_) {
      for (const std::string& algorithm : options_.algorithms) {
        Candidate c{
            link.get(),
            std::make_unique<CollectiveSubject>(collective_, me_, link->comm.get(), algorithm,
                                                shape, task.spans, link->buffers),
            {}};
        describe(task, c);
        candidates.push_back(std::move(c));
      }
    }
    return candidates;
  }

  void describe(const Task& task, Candidate& c) {
    tutti_explanation explanation{};
    Result& r = c.result;
    r.collective = collective_.name;
    r.root = collective_.rooted ? options_.root : -1;
    r.ran = c.subject->explain(&explanation);
    r.algorithm = c.subject->algorithm();
    r.transport = c.link->transport;
    r.ranks = me_.nranks();
    r.count = task.count();
    r.bytes = bytes_of(task.of, r.count);
    r.dtype = collective_.sized ? tutti_dtype_name(task.of.dtype) : "none";
    r.op = collective_.reduces ? tutti_op_name(task.of.op) : "none";
    r.in_place = options_.in_place;
    r.memory = options_.memory_text;
    r.workload = options_.workload;
    r.reason = explanation.reason;
    if (!r.ran) return;
    r.chosen = explanation.algorithm;
    r.path = explanation.path;
  }

  // Every algorithm runs at least once here, checked or not.
  void check(std::vector<Candidate>& candidates) {
    for (Candidate& c : candidates) {
      if (!c.result.ran) continue;
      if (!options_.check || !collective_.sized) {
        c.subject->run(1);
        continue;
      }
      c.result.checked = true;
      const uint64_t wrong = me_.sum(c.subject->check(*oracle_));
      c.result.wrong += wrong;
      wrong_ += wrong;
    }
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
      ++timing;
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
    for (Candidate& c : candidates) {
      if (task.spans.size() > 1 && c.result.ran) add_buckets(task, c);
      if (report_) report_->add(c.result);
    }
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
      r.limit_us = 0;
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
  std::unique_ptr<SharedMap> map_;
  std::vector<std::unique_ptr<Link>> links_;
  uint64_t wrong_ = 0;
};

}  // namespace

uint64_t run_session(const Options& options, const Rank& me, Report* report) {
  return Session(options, me, report).run();
}

}  // namespace tutti::bench
