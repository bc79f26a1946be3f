// The subjects that are measured beside the plain call with `--nonblocking`, `--persistent` and
// `--vary-counts`.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/result.h"
#include "bench/subjects.h"
#include "bench/work.h"

namespace tutti::bench {

// Begins a call, computes, tests the call a few times meanwhile, and waits for it. Without work it
// only begins and waits.
class NonblockingSubject : public CollectiveSubject {
 public:
  using CollectiveSubject::CollectiveSubject;
  void compute(Work work, size_t tests) {
    work_ = work;
    tests_ = tests;
    computes_ = true;
  }
  void run(size_t calls) override;

 protected:
  void check_call(const Call& c) override;

 private:
  void begin(const Call& c, tutti_request* request);
  Work work_;
  size_t tests_ = 0;
  bool computes_ = false;
};

// Starts a request that was made once, and waits for it.
class PersistentSubject : public CollectiveSubject {
 public:
  template <class... Arguments>
  explicit PersistentSubject(const Arguments&... arguments) : CollectiveSubject(arguments...) {
    init();
  }
  ~PersistentSubject() override;
  void run(size_t calls) override;

 protected:
  void check_call(const Call& c) override;

 private:
  void init();
  tutti_request request_ = nullptr;
};

// Makes another subject with the plain call's arguments.
struct SubjectMaker {
  const Collective& collective;
  const Rank& me;
  tutti_comm comm;
  std::string algorithm;
  CallShape shape;
  std::vector<Span> spans;
  const Buffers& buffers;

  template <class Made>
  std::unique_ptr<Made> make() const {
    return std::make_unique<Made>(collective, me, comm, algorithm, shape, spans, buffers);
  }
};

// Calls of the counts from the plain call's down, one element fewer each, then from there again.
class VariedSubject : public CollectiveSubject {
 public:
  // `spans`: one per count. Each count `repeats` times before the next.
  VariedSubject(const SubjectMaker& maker, std::vector<Span> spans, size_t repeats);
  void run(size_t calls) override;

 private:
  const size_t repeats_;
  size_t next_ = 0;  // of the calls
};

// The subjects beside one plain call.
class Companions {
 public:
  virtual ~Companions() = default;
  // Wrong elements on this rank. Collective.
  virtual uint64_t check(const Oracle& oracle) = 0;
  // Collective: every subject runs at least once.
  virtual void warm_up() = 0;
  virtual std::vector<Subject*> subjects() = 0;
  // `timings`: those of the subjects, in their order; `result` has the plain call's.
  virtual void summarise(const Timing* timings, Result* result) const = 0;
};

// The time of a call of a subject, the same on all ranks; a few batches. Collective.
using QuickTime = std::function<double(Subject&)>;

// `plain` must outlive it. Collective. Computes as long as the call takes by itself, by
// `quick_us`.
std::unique_ptr<Companions> nonblocking_companions(const SubjectMaker& maker, Subject& plain,
                                                   size_t tests, const QuickTime& quick_us);
std::unique_ptr<Companions> persistent_companions(const SubjectMaker& maker);
// `counts`: the most different counts; a short vector has fewer.
std::unique_ptr<Companions> varied_companions(const SubjectMaker& maker, size_t counts);

// As OSU defines it: the share of the call that is hidden by the computation, in percent, 0 to 100.
double overlap_percent(double call_us, double compute_us, double together_us);

}  // namespace tutti::bench
