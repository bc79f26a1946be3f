// What the interposer knows of the host's types and operators, all of it asked of the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/adapters/mpi/host.h"
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

// What reduces: tutti's operator on a built-in type; or, with elements of any `extent` bytes, the
// host's own, called through PMPI_Reduce_local().
struct Reduction {
  enum class By : uint8_t { nobody, tutti, host };
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

const Type* find_type(MPI_Datatype type);
Reduction find_reduction(const Type& type, MPI_Op op);

// Null: the host knows no such type, and will say so. Belongs to the host's type. Any thread.
inline const Type* type_of(MPI_Datatype type) {
  const LastAnswers& last = last_answers;
  if (last.type == type && last.known != nullptr) [[likely]]
    return last.known;
  return find_type(type);
}

inline Reduction reduction_of(const Type& type, MPI_Op op) {
  const LastAnswers& last = last_answers;
  if (last.reduced == &type && last.op == op) [[likely]]
    return last.reduction;
  return find_reduction(type, op);
}

// While one lives this thread frees that type (null: none). What functions that delete its
// attributes call with it is known here: of attributes MPICH cannot be asked any more then.
class TypeBeingFreed {
 public:
  explicit TypeBeingFreed(const MPI_Datatype* type);
  ~TypeBeingFreed() { last_ = outer_; }
  TypeBeingFreed(const TypeBeingFreed&) = delete;
  TypeBeingFreed& operator=(const TypeBeingFreed&) = delete;
  static TypeBeingFreed* find(MPI_Datatype type);
  const Type* known();  // null: the host knows no such type

 private:
  static constinit thread_local TypeBeingFreed* last_ [[gnu::tls_model("initial-exec")]];
  MPI_Datatype type_;
  TypeBeingFreed* outer_;
  bool asked_ = false;
  Type known_;
};

// While it lives, this thread's calls by the host's operator use these.
class HostOperator {
 public:
  HostOperator(MPI_Op op, MPI_Datatype type, ptrdiff_t extent);
  ~HostOperator();
  HostOperator(const HostOperator&) = delete;
  HostOperator& operator=(const HostOperator&) = delete;
};

}  // namespace tutti::mpi
