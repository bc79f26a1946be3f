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
  type(MPI_Comm), save :: copy
  integer :: keyval
  integer(kind=MPI_ADDRESS_KIND), parameter :: none = 0
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
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, sum_at_deletion, keyval, none)
  do i = 1, 8
    call MPI_Comm_dup(merge(MPI_COMM_WORLD, MPI_COMM_SELF, mod(i, 2) == 1), copy)
    if (i <= 4) call MPI_Comm_set_attr(copy, keyval, none)
    call MPI_Allreduce(1, both, 1, MPI_INTEGER, MPI_SUM, copy)
    if (both(1) /= merge(ranks, 1, mod(i, 2) == 1)) stop 6
    if (i > 4) call MPI_Comm_set_attr(copy, keyval, none)
    if (mod(i, 4) < 2) then
      call MPI_Comm_free(copy)
    else
      call MPI_Comm_disconnect(copy, ierror)
    end if
    if (copy /= MPI_COMM_NULL) stop 7
  end do
  call test_window()
  call MPI_Barrier(MPI_COMM_WORLD)
  if (rank == 0) print *, 'all as it should be'
  call MPI_Finalize()
contains

  ! What was completed before a barrier is seen by the first MPI_Win_test after it.
  subroutine test_window()
    type(MPI_Win) :: window
    type(MPI_Group) :: all_ranks, group
    integer, asynchronous, save :: memory(1)
    logical :: completed
    call MPI_Win_create(memory, 4_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window)
    call MPI_Win_get_group(window, all_ranks)
    if (rank == 0) then
      call MPI_Group_excl(all_ranks, 1, [0], group)
      call MPI_Win_start(group, 0, window)
      call MPI_Barrier(MPI_COMM_WORLD)
      call MPI_Win_complete(window)
      call MPI_Barrier(MPI_COMM_WORLD)
    else
      call MPI_Group_incl(all_ranks, 1, [0], group)
      call MPI_Win_post(group, 0, window)
      call MPI_Barrier(MPI_COMM_WORLD)
      call MPI_Barrier(MPI_COMM_WORLD)
      call MPI_Win_test(window, completed)
      if (.not. completed) stop 9
    end if
    call MPI_Group_free(group)
    call MPI_Group_free(all_ranks)
    call MPI_Win_free(window, ierror)
  end subroutine test_window

  ! On the communicator that is being freed; Open MPI 4.1 gives another one to functions of Fortran.
  subroutine sum_at_deletion(comm, keyval, attribute, extra, ierror)
    type(MPI_Comm) :: comm
    integer :: keyval, ierror, ranks, ones
    integer(kind=MPI_ADDRESS_KIND) :: attribute, extra
    call MPI_Comm_size(copy, ranks)
    call MPI_Allreduce(1, ones, 1, MPI_INTEGER, MPI_SUM, copy)
    if (ones /= ranks) stop 8
    ierror = MPI_SUCCESS
  end subroutine sum_at_deletion
end program words
