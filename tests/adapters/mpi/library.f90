! A library with MPI_IN_PLACE and MPI_BOTTOM, by mpif.h or a module, for programs that know nothing of MPI.
subroutine work() bind(C, name='work')
#ifdef MODULE
  use MODULE
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  DATATYPE :: apart
  integer, target :: mine(4)
  integer :: ierror, rank, ranks
  integer(kind=MPI_ADDRESS_KIND) :: place(1)
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  mine = rank + 1
  call MPI_Allreduce(MPI_IN_PLACE, mine, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (any(mine /= ranks * (ranks + 1) / 2)) stop 1
  mine = rank
  call MPI_Get_address(mine, place(1), ierror)
  call MPI_Type_create_hindexed(1, (/ 3 /), place, MPI_INTEGER, apart, ierror)
  call MPI_Type_commit(apart, ierror)
  call MPI_Bcast(MPI_BOTTOM, 1, apart, ranks - 1, MPI_COMM_WORLD, ierror)
  if (any(mine /= (/ ranks - 1, ranks - 1, ranks - 1, rank /))) stop 2
  call MPI_Type_free(apart, ierror)
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  if (rank == 0) print *, 'all as it should be'
  call MPI_Finalize(ierror)
end subroutine work
