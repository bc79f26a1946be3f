! Module mpi_f08, with and without ierror.
program words
  use mpi_f08
#ifdef EXTENSION
  use EXTENSION
#endif
  implicit none
  integer :: rank, ranks, ierror, i
  integer, asynchronous :: mine(4), both(4)
  type(MPI_Request) :: requests(3)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  mine = rank + 1
  call MPI_Allreduce(mine, both, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (any(both /= ranks * (ranks + 1) / 2)) stop 1
  call MPI_Allreduce(MPI_IN_PLACE, mine, 4, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierror)
  if (any(mine /= ranks)) stop 2
  mine = rank
  call MPI_Bcast(mine, 4, MPI_INTEGER, 0, MPI_COMM_WORLD)
  if (any(mine /= 0)) stop 3
  both = rank
  mine = rank
  call MPI_Iallreduce(MPI_IN_PLACE, mine, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1))
  call MPI_Ibcast(both, 4, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, requests(2), ierror)
  call MPI_Ibarrier(MPI_COMM_WORLD, requests(3))
  call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)
  if (any(mine /= ranks * (ranks - 1) / 2) .or. any(both /= ranks - 1)) stop 4
  call ALLREDUCE_INIT(mine, both, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1), ierror)
  call BARRIER_INIT(MPI_COMM_WORLD, MPI_INFO_NULL, requests(2), ierror)
  do i = 1, 10
    mine = rank + i
    call MPI_Startall(2, requests)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    if (any(both /= ranks * (ranks - 1) / 2 + ranks * i)) stop 5
  end do
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))
  call MPI_Barrier(MPI_COMM_WORLD)
  if (rank == 0) print *, 'all as it should be'
  call MPI_Finalize()
end program words
