// The MPI that the program uses. Its PMPI_ functions are bound when they are first called, out of
// whatever MPI library the process has by then: so the interposer can be loaded into every process
// of a job, also into shells and launchers that have none, and fits every library of its ABI.
// With LD_BIND_NOW, too: weak.h.
#pragma once

#include <mpi.h>

#include <string>

#include "lib/adapters/mpi/weak.h"

#ifdef OMPI_PREDEFINED_GLOBAL
// Open MPI's handles are addresses of its variables, which are not there yet when the interposer is
// loaded into a program that loads its MPI later (Python does).
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, name) (static_cast<type>(tutti::mpi::variable_of_host(#name)))
#endif

namespace tutti::mpi {

// Makes the functions of the process's MPI visible to the interposer. To be called before the first
// call of one. Any thread.
void bind_host();

// The address of a variable of the process's MPI, or of a function that not all of them have.
void* variable_of_host(const char* name);

// The function of that name, which the interposer has in front of another library's; also of one
// that the program has loaded for itself. Null: no other has it.
void* next_function(const char* name);

// Why the interposer cannot serve this process; "": it can. Callable before MPI_Init.
struct Fit {
  std::string why_not;
  bool foreign = false;  // its MPI has another ABI: calls through the interposer would be garbled
};
Fit fit_of_host();

}  // namespace tutti::mpi
