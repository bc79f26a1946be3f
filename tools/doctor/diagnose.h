// What is wrong with a job, from the flight records of its processes: a pure function.
//
// Where ranks have met a failure the first one counts: what the library has said of it is repeated
// with what the records say of the rank that it names. Otherwise the doctor follows who waits for
// whom, from the rank that has waited longest to one that waits for nobody.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/record/read.h"

namespace tutti::doctor {

enum class Life { unknown, running, stopped, ended };

struct Subject {
  record::ReadProcess record;
  Life life = Life::unknown;
  std::string ending;  // in the launcher's words, "was ended by signal 9 (Killed)"; empty: unknown
};

enum class Finding {
  healthy,   // nobody waits for long
  died,      // a process has ended in the middle of the job
  left,      // a process has ended in order, or freed the communicator, and others still need it
  stopped,   // a process is stopped by a signal or a debugger
  late,      // a rank has not entered the call that others wait in
  stuck,     // a rank is in the call and sends nothing more
  mismatch,  // ranks have made different calls
  deadlock,  // ranks wait for each other on several communicators
  failed     // anything else that the library has said
};
const char* name_of(Finding finding);

struct Person {
  int rank = -1;  // on the communicator; -1: nobody
  int64_t process = 0;
  std::string host;
};

struct Diagnosis {
  Finding finding = Finding::healthy;
  std::string sentence;
  Person who;      // keeps the others waiting
  Person waiting;  // who has found out, or waits
  uint64_t comm = 0;
  int nranks = 0;         // of the communicator
  uint64_t call = 0;      // its number; 0: none
  std::string what;       // the call, in words
  std::string link;       // between the two
  std::string addresses;  // of its two ends, where it has any; the waiting rank's first
  std::string why;        // in the library's words, where it has said something
  size_t processes = 0, communicators = 0, other_jobs = 0;
  uint64_t calls = 0;
};

// Of records of several jobs those of the latest count. `now_ns`: of CLOCK_REALTIME; 0: when
// anything was written last.
Diagnosis diagnose(std::vector<Subject> subjects, int64_t now_ns);

}  // namespace tutti::doctor
