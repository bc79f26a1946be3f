// Fortran's bindings of Open MPI, which call PMPI_X: what their functions here share.
#pragma once

#include "lib/adapters/mpi/host.h"

#define EXPORT __attribute__((visibility("default")))

#ifdef OPEN_MPI

// The names that compilers and the modules give to a subroutine.
#define NAMES(lower, upper)                                          \
  EXPORT void lower##__(void) __attribute__((alias(#lower "_")));    \
  EXPORT void lower(void) __attribute__((alias(#lower "_")));        \
  EXPORT void lower##_f08_(void) __attribute__((alias(#lower "_"))); \
  EXPORT void upper(void) __attribute__((alias(#lower "_")));

// The alias has the type of none: calls come from Fortran.
#pragma GCC diagnostic ignored "-Wattribute-alias"

namespace tutti::mpi::fortran {

using Int = MPI_Fint;
static_assert(sizeof(Int) == sizeof(int), "arrays of counts are passed on");

// A buffer as C has it: the MPI_IN_PLACE and MPI_BOTTOM of Fortran are variables of the program.
void* buffer(void* given);

inline MPI_Comm comm_of(const Int* comm) { return PMPI_Comm_f2c(*comm); }
inline MPI_Datatype type_of(const Int* type) { return PMPI_Type_f2c(*type); }
inline MPI_Op op_of(const Int* op) { return PMPI_Op_f2c(*op); }

inline void tell(Int* ierror, int code) {
  if (ierror != nullptr) *ierror = code;
}

}  // namespace tutti::mpi::fortran

#endif
