// What the interposer knows of the host's types and operators, all of it asked of the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/adapters/mpi/host.h"
#include "lib/adapters/mpi/in_use.h"
#include "tutti/tutti.h"

namespace tutti::mpi {

// The groups of types for which the standard defines the same operators.
enum class Kind : uint8_t {
  other,    // derived, or none of these: only operators of the program's
  integer,  // also Fortran's
  floating,
  complex,
  logical,
  byte,
  pair,  // a value and an index
};

struct Type {
  size_t size = 0;          // bytes of data of an element
  ptrdiff_t extent = 0;     // from one element to the next
  bool contiguous = false;  // elements are their data, in its order, without gaps
  bool whole = false;       // without gaps, in whatever order: may be moved as `extent` bytes
  Kind kind = Kind::other;
  bool has_dtype = false;  // then tutti's reductions know it
  tutti_dtype dtype = TUTTI_UINT8;
};

// Builds the tables. To be called once, after MPI_Init and before everything below.
bool learn_types();

// Whether its handle means the same for ever, as the host's own types' do.
bool is_predefined(MPI_Datatype type);

// What reduces: tutti's operator on a built-in type; or, with elements of any `extent` bytes, the
// host's own or the program's, called through PMPI_Reduce_local().
struct Reduction {
  enum class By : uint8_t { nobody, tutti, host, program };
  By by = By::nobody;  // nobody: the standard does not define it, or the element is too large
  tutti_dtype dtype = TUTTI_UINT8;
  tutti_op op = TUTTI_SUM;
};

// What this thread asked for last of predefined types and operators. Their handles mean the same
// for ever, those of the program's are used again.
struct LastAnswers {
  MPI_Datatype type{};
  const Type* known = nullptr;
  const Type* reduced = nullptr;
  MPI_Op op{};
  Reduction reduction;
};
extern constinit thread_local LastAnswers last_answers [[gnu::tls_model("initial-exec")]];

// What is known of a derived type, and that a call uses it, for as long as this lives. It is asked
// anew by each call: an attribute that keeps it could not be read while MPICH deletes the type's
// attributes, which may be later than MPI_Type_free, in any call of MPI.
class DerivedType {
 public:
  // Null: the host knows no such type.
  const Type* find(MPI_Datatype type);

 private:
  Type known_;
  InUse<TypeHandle> in_use_;
};

const Type* find_type(MPI_Datatype type, DerivedType* derived);
Reduction find_reduction(const Type& type, MPI_Op op);

// Null: the host knows no such type, and will say so. Lives as long as `derived`. Any thread.
inline const Type* type_of(MPI_Datatype type, DerivedType* derived) {
  const LastAnswers& last = last_answers;
  if (last.type == type && last.known != nullptr) [[likely]]
    return last.known;
  return find_type(type, derived);
}

inline Reduction reduction_of(const Type& type, MPI_Op op) {
  const LastAnswers& last = last_answers;
  if (last.reduced == &type && last.op == op) [[likely]]
    return last.reduction;
  return find_reduction(type, op);
}

// While it lives, this thread's calls by the host's operator use these. One may live within
// another: in functions that delete attributes, which the host may call while a call waits.
class HostOperator {
 public:
  HostOperator(MPI_Op op, MPI_Datatype type, ptrdiff_t extent);
  ~HostOperator();
  HostOperator(const HostOperator&) = delete;
  HostOperator& operator=(const HostOperator&) = delete;

  struct Current {
    MPI_Op op;
    MPI_Datatype type;
    ptrdiff_t extent;
  };

 private:
  Current outer_;
  InUse<OpHandle> in_use_;
};

}  // namespace tutti::mpi
