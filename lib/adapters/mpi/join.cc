#include "lib/adapters/mpi/join.h"

#include <time.h>

#include <cstring>
#include <vector>

#include "lib/base/clock.h"
#include "tutti/tutti.h"

namespace tutti::mpi {
namespace {

// The protocol, a commit in two phases: every rank tells rank 0 that it is there; if all are, rank
// 0 asks them to be prepared; a rank that says it is must then await the decision, one that has
// given up meanwhile does not answer. So nobody takes part unless all do, however late one is.
enum class Word : int32_t { here, unfit, prepare, prepared, take_part, leave };

struct Note {
  char magic[12];
  Word word;
  char terms[23];     // version and setting
  uint8_t in_common;  // of the sender; of all, where rank 0 says take_part
};
static_assert(sizeof(Note) == 40);  // that of another version is received, too

class Notes {
 public:
  Notes(bool eager, uint8_t in_common)
      : in_common(in_common), terms_(std::string(tutti_version()) + (eager ? " eager" : "")) {
    int* most = nullptr;
    int found = 0;
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    tag_ = found != 0 ? *most : 32767;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    PMPI_Comm_size(MPI_COMM_WORLD, &nranks_);
  }
  int rank() const { return rank_; }
  int nranks() const { return nranks_; }

  uint8_t in_common;  // of this rank; from the decision on, of all

  // Short enough to be sent at once, also to a rank that never looks for it. The memory must stay
  // until the host has sent it: one of a few words, for ever.
  void send(int to, Word word) {
    static Note notes[6];
    Note& note = notes[int(word)];
    std::memcpy(note.magic, magic, sizeof(magic));
    note.word = word;
    note.in_common = in_common;
    std::strncpy(note.terms, terms_.c_str(), sizeof(note.terms) - 1);
    MPI_Request request = MPI_REQUEST_NULL;
    PMPI_Isend(&note, int(sizeof(note)), MPI_BYTE, to, tag_, MPI_COMM_WORLD, &request);
    PMPI_Request_free(&request);
  }

  // Until the deadline; false: nothing came.
  bool receive(int from, uint64_t deadline_ns, Word* word) {
    const uint64_t soon_ns = now_ns() + 1'000'000;
    for (;;) {
      int there = 0;
      MPI_Status status;
      PMPI_Iprobe(from, tag_, MPI_COMM_WORLD, &there, &status);
      if (there != 0) break;
      const uint64_t now = now_ns();
      if (now >= deadline_ns) return false;
      // Not by yielding: among busy processes who sleeps is woken sooner.
      const timespec rest{0, now < soon_ns ? 10'000 : 200'000};
      nanosleep(&rest, nullptr);
    }
    Note note{};
    PMPI_Recv(&note, int(sizeof(note)), MPI_BYTE, from, tag_, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    *word = std::memcmp(note.magic, magic, sizeof(magic)) == 0 && note.terms == terms_
                ? note.word
                : Word::unfit;
    in_common &= note.in_common;
    return true;
  }

 private:
  static constexpr char magic[12] = "tutti join\n";
  std::string terms_;
  int tag_ = 0, rank_ = 0, nranks_ = 1;
};

uint64_t deadline(int seconds) { return now_ns() + uint64_t(seconds) * 1'000'000'000; }

std::string without(int rank) {
  return "rank " + std::to_string(rank) + " runs without this interposer";
}

Together decide(Notes& notes, bool fit) {
  const int nranks = notes.nranks();
  std::vector<bool> here(size_t(nranks), false);
  std::string why = fit ? "" : "rank 0 cannot take part";
  uint64_t limit = deadline(most_wait_seconds);
  for (int rank = 1; rank < nranks; ++rank) {
    Word word{};
    if (!notes.receive(rank, limit, &word)) {
      if (why.empty()) why = without(rank);
      continue;  // look whether the others are there, who then need not wait
    }
    here[size_t(rank)] = true;
    if (word != Word::here && why.empty())
      why = "rank " + std::to_string(rank) +
            " cannot take part, or has another version or TUTTI_MPI_EAGER";
  }
  if (why.empty()) {
    for (int rank = 1; rank < nranks; ++rank) notes.send(rank, Word::prepare);
    limit = deadline(most_wait_seconds);
    for (int rank = 1; rank < nranks; ++rank) {
      Word word{};
      if (!notes.receive(rank, limit, &word) && why.empty()) why = without(rank);
    }
  }
  for (int rank = 1; rank < nranks; ++rank) {
    if (!here[size_t(rank)]) continue;
    notes.send(rank, why.empty() ? Word::take_part : fit ? Word::leave : Word::unfit);
  }
  return {why};
}

Together follow(Notes& notes, bool fit) {
  notes.send(0, fit ? Word::here : Word::unfit);
  // Longer than rank 0 waits for the others.
  uint64_t limit = deadline(2 * most_wait_seconds);
  for (;;) {
    Word word{};
    if (!notes.receive(0, limit, &word)) return {without(0)};
    if (word == Word::take_part) return {};
    if (word == Word::unfit) return {"rank 0 cannot take part", false};
    if (word != Word::prepare) return {"rank 0 knows of ranks without this interposer", !fit};
    notes.send(0, Word::prepared);
    limit = UINT64_MAX;
  }
}

}  // namespace

Together join(bool fit, bool eager, uint8_t* in_common) {
  Notes notes(eager, *in_common);
  if (notes.nranks() == 1) return {fit ? "" : "this process cannot take part"};
  Together together = notes.rank() == 0 ? decide(notes, fit) : follow(notes, fit);
  *in_common = notes.in_common;
  return together;
}

}  // namespace tutti::mpi
