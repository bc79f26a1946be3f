! mpif.h and MPI_IN_PLACE, as old programs have them; module mpi passes the same.
program words
  implicit none
  include 'mpif.h'
  integer :: ierror, rank, ranks, i, mine(4), both(4), requests(3)
  double precision :: x(3), y(3)
  logical :: yes, every
  integer :: keyval, copy
  integer(kind=MPI_ADDRESS_KIND), parameter :: none = 0
  external :: sum_at_deletion
  common /being_freed/ copy
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  mine = rank + 1
  call MPI_Allreduce(mine, both, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (any(both /= ranks * (ranks + 1) / 2)) stop 1
  call MPI_Allreduce(MPI_IN_PLACE, mine, 4, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierror)
  if (any(mine /= ranks)) stop 2
  x = rank + 0.5d0
  call MPI_Reduce(x, y, 3, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, ierror)
  if (rank == 0 .and. any(y /= ranks * (ranks - 1) / 2 + 0.5d0 * ranks)) stop 3
  yes = rank == 0
  call MPI_Allreduce(yes, every, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierror)
  if (every .neqv. ranks == 1) stop 4
  call MPI_Bcast(x, 3, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierror)
  if (any(x /= 0.5d0)) stop 5
  mine = rank
  call MPI_Iallreduce(MPI_IN_PLACE, mine, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1), ierror)
  x = rank
  call MPI_Ibcast(x, 3, MPI_DOUBLE_PRECISION, ranks - 1, MPI_COMM_WORLD, requests(2), ierror)
  call MPI_Ibarrier(MPI_COMM_WORLD, requests(3), ierror)
  call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE, ierror)
  if (any(mine /= ranks * (ranks - 1) / 2) .or. any(x /= ranks - 1)) stop 6
  call ALLREDUCE_INIT(mine, both, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1), ierror)
  call BARRIER_INIT(MPI_COMM_WORLD, MPI_INFO_NULL, requests(2), ierror)
  do i = 1, 10
    mine = rank + i
    call MPI_Startall(2, requests, ierror)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
    if (any(both /= ranks * (ranks - 1) / 2 + ranks * i)) stop 7
  end do
  call MPI_Request_free(requests(1), ierror)
  call MPI_Request_free(requests(2), ierror)
  if (requests(1) /= MPI_REQUEST_NULL) stop 8
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, sum_at_deletion, keyval, none, ierror)
  do i = 1, 8
    call MPI_Comm_dup(merge(MPI_COMM_WORLD, MPI_COMM_SELF, mod(i, 2) == 1), copy, ierror)
    if (i <= 4) call MPI_Comm_set_attr(copy, keyval, none, ierror)
    call MPI_Allreduce(1, both, 1, MPI_INTEGER, MPI_SUM, copy, ierror)
    if (both(1) /= merge(ranks, 1, mod(i, 2) == 1)) stop 9
    if (i > 4) call MPI_Comm_set_attr(copy, keyval, none, ierror)
    if (mod(i, 4) < 2) then
      call MPI_Comm_free(copy, ierror)
    else
      call MPI_Comm_disconnect(copy, ierror)
    end if
    if (copy /= MPI_COMM_NULL) stop 10
  end do
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  if (rank == 0) print *, 'all as it should be'
  call MPI_Finalize(ierror)
end program words

! On the communicator that is being freed; Open MPI 4.1 gives another one to functions of Fortran.
subroutine sum_at_deletion(comm, keyval, attribute, extra, ierror)
  implicit none
  include 'mpif.h'
  integer :: comm, keyval, ierror, ranks, ones, copy
  integer(kind=MPI_ADDRESS_KIND) :: attribute, extra
  common /being_freed/ copy
  call MPI_Comm_size(copy, ranks, ierror)
  call MPI_Allreduce(1, ones, 1, MPI_INTEGER, MPI_SUM, copy, ierror)
  if (ones /= ranks) stop 11
end subroutine sum_at_deletion
