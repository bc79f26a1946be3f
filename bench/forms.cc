#include "bench/forms.h"

#include <algorithm>
#include <utility>

namespace tutti::bench {
namespace {

class WorkSubject : public Subject {
 public:
  explicit WorkSubject(Work work) : work_(work) {}
  void run(size_t calls) override {
    for (size_t i = 0; i < calls; ++i) work_.run();
  }

 private:
  Work work_;
};

// The plain call, then the work.
class SequenceSubject : public Subject {
 public:
  SequenceSubject(Subject& plain, Work work) : plain_(plain), work_(work) {}
  void run(size_t calls) override {
    for (size_t i = 0; i < calls; ++i) {
      plain_.run(1);
      work_.run();
    }
  }

 private:
  Subject& plain_;
  Work work_;
};

class Nonblocking : public Companions {
 public:
  Nonblocking(const SubjectMaker& maker, Subject& plain, size_t tests, const QuickTime& quick_us)
      : call_(maker.make<NonblockingSubject>()), together_(maker.make<NonblockingSubject>()) {
    call_->run(1);
    const Work work = Work::lasting(quick_us(*call_));
    work_ = std::make_unique<WorkSubject>(work);
    sequence_ = std::make_unique<SequenceSubject>(plain, work);
    together_->compute(work, tests);
  }
  uint64_t check(const Oracle& oracle) override { return together_->check(oracle); }
  void warm_up() override {
    for (Subject* subject : subjects()) subject->run(1);
  }
  std::vector<Subject*> subjects() override {
    return {call_.get(), work_.get(), sequence_.get(), together_.get()};
  }

  void summarise(const Timing* timings, Result* result) const override {
    const Timing &call = timings[0], &work = timings[1], &together = timings[3];
    Beside& beside = result->beside;
    beside.form = Form::nonblocking;
    beside.us = bench::summarise(call.batch_us);
    beside.compute_us = bench::summarise(work.batch_us);
    beside.sequence_us = bench::summarise(timings[2].batch_us);
    beside.together_us = bench::summarise(together.batch_us);
    beside.overlap_percent =
        overlap_percent(beside.us.median, beside.compute_us.median, beside.together_us.median);
    // All subjects have a batch in every round that counts. The p95 of the shortfall is the p5 of
    // the overlap.
    std::vector<double> lacking;
    for (size_t i = 0; i < together.batch_us.size(); ++i) {
      lacking.push_back(100 -
                        overlap_percent(call.batch_us[i], work.batch_us[i], together.batch_us[i]));
    }
    beside.overlap_p5_percent = 100 - bench::summarise(lacking).p95;
  }

 private:
  std::unique_ptr<NonblockingSubject> call_, together_;
  std::unique_ptr<WorkSubject> work_;
  std::unique_ptr<SequenceSubject> sequence_;
};

class Persistent : public Companions {
 public:
  explicit Persistent(const SubjectMaker& maker) : subject_(maker.make<PersistentSubject>()) {}
  uint64_t check(const Oracle& oracle) override { return subject_->check(oracle); }
  void warm_up() override { subject_->run(1); }
  std::vector<Subject*> subjects() override { return {subject_.get()}; }
  void summarise(const Timing* timings, Result* result) const override {
    result->beside.form = Form::persistent;
    result->beside.us = bench::summarise(timings[0].batch_us);
  }

 private:
  std::unique_ptr<PersistentSubject> subject_;
};

std::vector<Span> counted_down(const Span& from, size_t counts) {
  std::vector<Span> spans;
  for (size_t i = 0; i < std::min(counts, from.count); ++i)
    spans.push_back({from.offset, from.count - i});
  return spans;
}

class Varied : public Companions {
 public:
  Varied(const SubjectMaker& maker, size_t counts)
      : counts_(std::min(counts, maker.spans.front().count)),
        repeated_(maker, counted_down(maker.spans.front(), counts), repeats),
        varied_(maker, counted_down(maker.spans.front(), counts), 1) {}
  uint64_t check(const Oracle& oracle) override { return varied_.check(oracle); }
  void warm_up() override {
    repeated_.run(1);
    varied_.run(counts_);
  }
  std::vector<Subject*> subjects() override { return {&repeated_, &varied_}; }
  void summarise(const Timing* timings, Result* result) const override {
    Beside& beside = result->beside;
    beside.form = Form::varied;
    beside.counts = counts_;
    beside.repeated_us = bench::summarise(timings[0].batch_us);
    beside.us = bench::summarise(timings[1].batch_us);
  }

 private:
  static constexpr size_t repeats = 64;
  size_t counts_;
  VariedSubject repeated_, varied_;
};

}  // namespace

// ---------------------------------------------------------------- subjects

VariedSubject::VariedSubject(const SubjectMaker& maker, std::vector<Span> spans, size_t repeats)
    : CollectiveSubject(maker.collective, maker.me, maker.comm, maker.algorithm, maker.shape,
                        std::move(spans), maker.buffers),
      repeats_(repeats) {}

void VariedSubject::run(size_t calls) {
  for (size_t i = 0; i < calls; ++i) call(calls_[next_++ / repeats_ % calls_.size()]);
}

void NonblockingSubject::begin(const Call& c, tutti_request* request) {
  const tutti_status status = functions_.begin(c, request);
  if (status != TUTTI_OK) [[unlikely]]
    require(status, comm_, algorithm_.c_str());
}

void NonblockingSubject::run(size_t calls) {
  const Call& c = calls_.front();
  for (size_t i = 0; i < calls; ++i) {
    tutti_request request = nullptr;
    begin(c, &request);
    if (computes_) {
      for (size_t part = 0; part < tests_; ++part) {
        work_.run(part, tests_ + 1);
        int ended = 0;
        require(tutti_test(&request, &ended), comm_, algorithm_.c_str());
      }
      work_.run(tests_, tests_ + 1);
    }
    const tutti_status status = tutti_wait(&request);
    if (status != TUTTI_OK) [[unlikely]]
      require(status, comm_, algorithm_.c_str());
  }
}

void NonblockingSubject::check_call(const Call&) { run(1); }

void PersistentSubject::init() {
  require(functions_.init(calls_.front(), &request_), comm_, algorithm_.c_str());
}

PersistentSubject::~PersistentSubject() { tutti_request_free(&request_); }

void PersistentSubject::run(size_t calls) {
  for (size_t i = 0; i < calls; ++i) {
    tutti_status status = tutti_start(request_);
    if (status == TUTTI_OK) status = tutti_wait(&request_);
    if (status != TUTTI_OK) [[unlikely]]
      require(status, comm_, algorithm_.c_str());
  }
}

void PersistentSubject::check_call(const Call&) { run(1); }

// ---------------------------------------------------------------- companions

std::unique_ptr<Companions> nonblocking_companions(const SubjectMaker& maker, Subject& plain,
                                                   size_t tests, const QuickTime& quick_us) {
  return std::make_unique<Nonblocking>(maker, plain, tests, quick_us);
}

std::unique_ptr<Companions> persistent_companions(const SubjectMaker& maker) {
  return std::make_unique<Persistent>(maker);
}

std::unique_ptr<Companions> varied_companions(const SubjectMaker& maker, size_t counts) {
  return std::make_unique<Varied>(maker, counts);
}

double overlap_percent(double call_us, double compute_us, double together_us) {
  if (call_us <= 0) return 0;
  return std::clamp(100 * (1 - (together_us - compute_us) / call_us), 0.0, 100.0);
}

}  // namespace tutti::bench
