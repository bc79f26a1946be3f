// Every function of the host's that the interposer calls, as a weak one: the loader binds it when
// it is first called, as any other, but refuses no process that has no MPI where it binds all at
// once (LD_BIND_NOW). None is compared with null: a function whose address is used is always bound
// when the interposer is loaded.
#pragma once

#include <mpi.h>

#include "lib/adapters/mpi/stats.h"

// NOLINTNEXTLINE(bugprone-macro-parentheses): of a declaration the compiler warns of them
#define WEAK(name) extern "C" __attribute__((weak)) decltype(name) name;

#define BLOCKING_AND_NOT(lower, Name) WEAK(PMPI_##Name) WEAK(PMPI_I##lower)
TUTTI_MPI_FUNCTIONS(BLOCKING_AND_NOT)
#undef BLOCKING_AND_NOT
#if MPI_VERSION >= 4
#define PREPARED(lower, Name) WEAK(PMPI_##Name##_init)
TUTTI_MPI_FUNCTIONS(PREPARED)
#undef PREPARED
#define LARGE(lower, Name) WEAK(PMPI_##Name##_c) WEAK(PMPI_I##lower##_c) WEAK(PMPI_##Name##_init_c)
TUTTI_MPI_FUNCTIONS_WITH_COUNTS(LARGE)
#undef LARGE
#endif

WEAK(PMPI_Init)
WEAK(PMPI_Init_thread)
WEAK(PMPI_Initialized)
WEAK(PMPI_Query_thread)
WEAK(PMPI_Finalize)
WEAK(PMPI_Add_error_class)
WEAK(PMPI_Add_error_code)
WEAK(PMPI_Add_error_string)
WEAK(PMPI_Comm_call_errhandler)
WEAK(PMPI_Comm_create_keyval)
WEAK(PMPI_Comm_delete_attr)
WEAK(PMPI_Comm_disconnect)
WEAK(PMPI_Comm_dup)
WEAK(PMPI_Comm_free)
WEAK(PMPI_Comm_get_attr)
WEAK(PMPI_Comm_get_errhandler)
WEAK(PMPI_Comm_group)
WEAK(PMPI_Comm_rank)
WEAK(PMPI_Comm_set_attr)
WEAK(PMPI_Comm_set_errhandler)
WEAK(PMPI_Comm_size)
WEAK(PMPI_Comm_test_inter)
WEAK(PMPI_Errhandler_free)
WEAK(PMPI_Group_free)
WEAK(PMPI_Group_translate_ranks)
WEAK(PMPI_Iprobe)
WEAK(PMPI_Irecv)
WEAK(PMPI_Isend)
WEAK(PMPI_Op_commutative)
WEAK(PMPI_Op_free)
WEAK(PMPI_Pack)
WEAK(PMPI_Recv)
WEAK(PMPI_Reduce_local)
WEAK(PMPI_Request_free)
WEAK(PMPI_Request_get_status)
WEAK(PMPI_Send)
WEAK(PMPI_Test)
WEAK(PMPI_Testall)
WEAK(PMPI_Testany)
WEAK(PMPI_Testsome)
WEAK(PMPI_Type_commit)
WEAK(PMPI_Type_create_hindexed)
WEAK(PMPI_Type_free)
WEAK(PMPI_Type_get_contents)
WEAK(PMPI_Type_get_envelope)
WEAK(PMPI_Type_get_extent)
WEAK(PMPI_Type_get_true_extent)
WEAK(PMPI_Type_size_x)
WEAK(PMPI_Unpack)
WEAK(PMPI_Wait)
WEAK(PMPI_Waitall)
WEAK(PMPI_Waitany)
WEAK(PMPI_Waitsome)
#ifndef OPEN_MPI
WEAK(PMPI_Win_test)
#endif
#ifdef OPEN_MPI  // the others' are macros
WEAK(PMPI_Comm_c2f)
WEAK(PMPI_Comm_f2c)
WEAK(PMPI_Info_f2c)
WEAK(PMPI_Op_c2f)
WEAK(PMPI_Op_f2c)
WEAK(PMPI_Request_c2f)
WEAK(PMPI_Request_f2c)
WEAK(PMPI_Type_c2f)
WEAK(PMPI_Type_f2c)
#endif

#undef WEAK
