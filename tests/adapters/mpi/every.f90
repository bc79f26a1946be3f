! Every function that the interposer takes from Fortran, in the form NAME(x) ... LAST that is defined for it below, by
! mpif.h or a module, with the results that the standard asks for. Prints how many calls were made.
#ifdef NONBLOCKING
#define NAME(x) MPI_I/**/x
#define LAST , request, ierror); call end_in_turn()
#elif defined(PERSISTENT)
#ifdef MPIX
#define NAME(x) MPIX_/**/x/**/_init
#else
#define NAME(x) MPI_/**/x/**/_init
#endif
#define LAST , MPI_INFO_NULL, request, ierror); call end_persistent()
#else
#define NAME(x) MPI_/**/x
#define LAST , ierror); calls = calls + 1
#endif
#ifdef F08
#define HANDLE(x) type(x)
#else
#define HANDLE(x) integer
#endif
module every
#ifdef MODULE
  use MODULE
#ifdef EXTENSION
  use EXTENSION
#endif
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  integer, parameter :: most = 64
  integer, asynchronous, target, save :: a(most), b(most), apart(2 * most)
  integer, asynchronous, save :: counts(8), places(8), counts2(8), places2(8)
  integer, save :: rank, n, ierror, calls = 0
  HANDLE(MPI_Request), save :: request
  HANDLE(MPI_Comm), save :: comm
contains

  subroutine demand(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (holds) return
    print *, 'rank', rank, ': not so: ', what
    call MPI_Abort(MPI_COMM_WORLD, 3, ierror)
  end subroutine demand

  ! One way to end a request after another, other ranks in others.
  subroutine end_in_turn()
    HANDLE(MPI_Request) :: all(1)
    integer :: ended, indices(1)
    logical :: done
    all(1) = request
    done = .false.
    select case (modulo(calls + rank, 6))
    case (0)
      call MPI_Wait(all(1), MPI_STATUS_IGNORE, ierror)
    case (1)
      call MPI_Waitall(1, all, MPI_STATUSES_IGNORE, ierror)
    case (2)
      call MPI_Waitany(1, all, ended, MPI_STATUS_IGNORE, ierror)
    case (3)
      call MPI_Waitsome(1, all, ended, indices, MPI_STATUSES_IGNORE, ierror)
    case (4)
      do while (.not. done)
        call MPI_Test(all(1), done, MPI_STATUS_IGNORE, ierror)
      end do
    case default
      do while (.not. done)
        call MPI_Testall(1, all, done, MPI_STATUSES_IGNORE, ierror)
      end do
    end select
    call demand(all(1) == MPI_REQUEST_NULL, 'a request that has ended')
    calls = calls + 1
  end subroutine end_in_turn

  subroutine end_persistent()
    call MPI_Start(request, ierror)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    call MPI_Request_free(request, ierror)
    calls = calls + 1
  end subroutine end_persistent

  integer elemental function value_of(of, i)
    integer, intent(in) :: of, i
    value_of = 100 * of + i
  end function value_of

  ! The sum of all ranks' values, or of those up to one.
  integer elemental function sum_to(last, i)
    integer, intent(in) :: last, i
    sum_to = 100 * last * (last + 1) / 2 + (last + 1) * i
  end function sum_to

  subroutine fill(at_most)
    integer, intent(in) :: at_most
    integer :: i
    a = -1
    b = -1
    do i = 1, at_most
      a(i) = value_of(rank, i)
    end do
  end subroutine fill

  ! Affine functions modulo 97, one after the other: associative, not commutative. The lower ranks' come in `in`.
  subroutine compose(in, inout, pairs)
    integer, intent(in) :: pairs, in(2, pairs)
    integer, intent(inout) :: inout(2, pairs)
    integer :: i, second
    do i = 1, pairs
      second = modulo(in(1, i) * inout(2, i) + in(2, i), 97)
      inout(1, i) = modulo(in(1, i) * inout(1, i), 97)
      inout(2, i) = second
    end do
  end subroutine compose
#ifdef F08
  subroutine composition(in, inout, pairs, datatype)
    use, intrinsic :: iso_c_binding
    type(c_ptr), value :: in, inout
    integer :: pairs
    type(MPI_Datatype) :: datatype
    integer, pointer :: x(:, :), y(:, :)
    call c_f_pointer(in, x, [2, pairs])
    call c_f_pointer(inout, y, [2, pairs])
    call compose(x, y, pairs)
  end subroutine composition
#else
  subroutine composition(in, inout, pairs, datatype)
    integer :: pairs, datatype, in(2, pairs), inout(2, pairs)
    call compose(in, inout, pairs)
  end subroutine composition
#endif
  subroutine composed_to(last, pairs, out)
    integer, intent(in) :: last, pairs
    integer, intent(out) :: out(2 * pairs)
    integer :: r, i, in(2 * pairs)
    do r = 0, last
      in = out
      out = [(modulo(3 * r + 5 * i + 1, 97), i = 1, 2 * pairs)]
      if (r > 0) call compose(in, out, pairs)
    end do
  end subroutine composed_to

  subroutine reductions(root)
    integer, intent(in) :: root
    integer :: i, r, first
    call fill(4)
    call NAME(Allreduce)(a, b, 4, MPI_INTEGER, MPI_SUM, comm LAST
    call demand(all(b(:4) == sum_to(n - 1, [1, 2, 3, 4])) .and. b(5) == -1, 'an allreduce')
    call NAME(Allreduce)(MPI_IN_PLACE, a, 4, MPI_INTEGER, MPI_MAX, comm LAST
    call demand(all(a(:4) == value_of(n - 1, [1, 2, 3, 4])), 'an allreduce in place')
    call fill(4)
    call NAME(Reduce)(a, b, 4, MPI_INTEGER, MPI_SUM, root, comm LAST
    call demand(rank /= root .or. all(b(:4) == sum_to(n - 1, [1, 2, 3, 4])), 'a reduce')
    if (rank == root) then
      call NAME(Reduce)(MPI_IN_PLACE, a, 4, MPI_INTEGER, MPI_SUM, root, comm LAST
      call demand(all(a(:4) == sum_to(n - 1, [1, 2, 3, 4])), 'a reduce in place')
    else
      call NAME(Reduce)(a, b, 4, MPI_INTEGER, MPI_SUM, root, comm LAST
    end if
    call fill(4)
    call NAME(Scan)(a, b, 4, MPI_INTEGER, MPI_SUM, comm LAST
    call demand(all(b(:4) == sum_to(rank, [1, 2, 3, 4])), 'a scan')
    call NAME(Scan)(MPI_IN_PLACE, a, 4, MPI_INTEGER, MPI_SUM, comm LAST
    call demand(all(a(:4) == sum_to(rank, [1, 2, 3, 4])), 'a scan in place')
    call fill(4)
    call NAME(Exscan)(a, b, 4, MPI_INTEGER, MPI_SUM, comm LAST
    call demand(rank == 0 .or. all(b(:4) == sum_to(rank - 1, [1, 2, 3, 4])), 'an exscan')
#if !(defined(NONBLOCKING) && defined(WITHOUT_IEXSCAN_IN_PLACE))
    call NAME(Exscan)(MPI_IN_PLACE, a, 4, MPI_INTEGER, MPI_SUM, comm LAST
    call demand(rank == 0 .or. all(a(:4) == sum_to(rank - 1, [1, 2, 3, 4])), 'an exscan in place')
#endif
    call fill(2 * n)
    call NAME(Reduce_scatter_block)(a, b, 2, MPI_INTEGER, MPI_SUM, comm LAST
    call demand(all(b(:2) == sum_to(n - 1, [1, 2] + 2 * rank)), 'a reduce_scatter_block')
    call NAME(Reduce_scatter_block)(MPI_IN_PLACE, a, 2, MPI_INTEGER, MPI_SUM, comm LAST
    call demand(all(a(:2) == sum_to(n - 1, [1, 2] + 2 * rank)), 'a reduce_scatter_block in place')
    counts(:n) = [(r + 1, r = 0, n - 1)]
    first = rank * (rank + 1) / 2
    call fill(sum(counts(:n)))
    call NAME(Reduce_scatter)(a, b, counts, MPI_INTEGER, MPI_SUM, comm LAST
    call demand(all(b(:rank + 1) == sum_to(n - 1, [(first + i, i = 1, rank + 1)])), 'a reduce_scatter')
    call NAME(Reduce_scatter)(MPI_IN_PLACE, a, counts, MPI_INTEGER, MPI_SUM, comm LAST
    call demand(all(a(:rank + 1) == sum_to(n - 1, [(first + i, i = 1, rank + 1)])), 'a reduce_scatter in place')
  end subroutine reductions

  subroutine own_operator(root)
    integer, intent(in) :: root
    integer :: i, expected(6)
    HANDLE(MPI_Op) :: op
    HANDLE(MPI_Datatype) :: pair
    call MPI_Op_create(composition, .false., op, ierror)
    call MPI_Type_contiguous(2, MPI_INTEGER, pair, ierror)
    call MPI_Type_commit(pair, ierror)
    a(:6) = [(modulo(3 * rank + 5 * i + 1, 97), i = 1, 6)]
    b = -1
    call composed_to(n - 1, 3, expected)
    call NAME(Allreduce)(a, b, 3, pair, op, comm LAST
    call demand(all(b(:6) == expected) .and. b(7) == -1, 'an allreduce by an operator of its own')
    call NAME(Reduce)(a, b, 3, pair, op, root, comm LAST
    call demand(rank /= root .or. all(b(:6) == expected), 'a reduce by an operator of its own')
    call composed_to(rank, 3, expected)
    call NAME(Scan)(MPI_IN_PLACE, a, 3, pair, op, comm LAST
    call demand(all(a(:6) == expected), 'a scan by an operator of its own')
    call MPI_Type_free(pair, ierror)
    call MPI_Op_free(op, ierror)
  end subroutine own_operator

  subroutine movements(root)
    integer, intent(in) :: root
    integer :: i, r
    call fill(3)
    call NAME(Bcast)(a, 3, MPI_INTEGER, root, comm LAST
    call demand(all(a(:3) == value_of(root, [1, 2, 3])), 'a bcast')
    call fill(3)
    call NAME(Allgather)(a, 3, MPI_INTEGER, b, 3, MPI_INTEGER, comm LAST
    call demand(all(b(:3 * n) == [((value_of(r, i), i = 1, 3), r = 0, n - 1)]), 'an allgather')
    b(:3 * n) = -1
    b(3 * rank + 1:3 * rank + 3) = a(:3)
    call NAME(Allgather)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, 3, MPI_INTEGER, comm LAST
    call demand(all(b(:3 * n) == [((value_of(r, i), i = 1, 3), r = 0, n - 1)]), 'an allgather in place')
    b = -1
    call NAME(Gather)(a, 3, MPI_INTEGER, b, 3, MPI_INTEGER, root, comm LAST
    call demand(rank /= root .or. all(b(:3 * n) == [((value_of(r, i), i = 1, 3), r = 0, n - 1)]), 'a gather')
    if (rank == root) then
      b(:3 * n) = -1
      b(3 * rank + 1:3 * rank + 3) = a(:3)
      call NAME(Gather)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, 3, MPI_INTEGER, root, comm LAST
      call demand(all(b(:3 * n) == [((value_of(r, i), i = 1, 3), r = 0, n - 1)]), 'a gather in place')
    else
      call NAME(Gather)(a, 3, MPI_INTEGER, b, 3, MPI_INTEGER, root, comm LAST
    end if
    call fill(3 * n)
    call NAME(Scatter)(a, 3, MPI_INTEGER, b, 3, MPI_INTEGER, root, comm LAST
    call demand(all(b(:3) == value_of(root, 3 * rank + [1, 2, 3])) .and. b(4) == -1, 'a scatter')
    if (rank == root) then
      call NAME(Scatter)(a, 3, MPI_INTEGER, MPI_IN_PLACE, 3, MPI_INTEGER, root, comm LAST
    else
      call NAME(Scatter)(a, 3, MPI_INTEGER, b, 3, MPI_INTEGER, root, comm LAST
      call demand(all(b(:3) == value_of(root, 3 * rank + [1, 2, 3])), 'a scatter in place')
    end if
    call demand(all(a(:3 * n) == value_of(rank, [(i, i = 1, 3 * n)])), 'the input of a scatter')
    call NAME(Alltoall)(a, 3, MPI_INTEGER, b, 3, MPI_INTEGER, comm LAST
    call demand(all(b(:3 * n) == [((value_of(r, 3 * rank + i), i = 1, 3), r = 0, n - 1)]), 'an alltoall')
    call NAME(Alltoall)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, 3, MPI_INTEGER, comm LAST
    call demand(all(a(:3 * n) == b(:3 * n)), 'an alltoall in place')
  end subroutine movements

  ! Rank r's block has r + 1 values and lies at 4 r.
  subroutine blocks(root)
    integer, intent(in) :: root
    integer :: i, r, own
    own = 4 * rank
    counts(:n) = [(r + 1, r = 0, n - 1)]
    places(:n) = [(4 * r, r = 0, n - 1)]
    call fill(rank + 1)
    call NAME(Allgatherv)(a, rank + 1, MPI_INTEGER, b, counts, places, MPI_INTEGER, comm LAST
    call demand_blocks('an allgatherv')
    b = -1
    b(own + 1:own + rank + 1) = a(:rank + 1)
    call NAME(Allgatherv)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, counts, places, MPI_INTEGER, comm LAST
    call demand_blocks('an allgatherv in place')
    b = -1
    call NAME(Gatherv)(a, rank + 1, MPI_INTEGER, b, counts, places, MPI_INTEGER, root, comm LAST
    if (rank == root) call demand_blocks('a gatherv')
    if (rank == root) then
      b = -1
      b(own + 1:own + rank + 1) = a(:rank + 1)
      call NAME(Gatherv)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, counts, places, MPI_INTEGER, root, comm LAST
      call demand_blocks('a gatherv in place')
    else
      call NAME(Gatherv)(a, rank + 1, MPI_INTEGER, b, counts, places, MPI_INTEGER, root, comm LAST
    end if
    call fill(4 * n)
    call NAME(Scatterv)(a, counts, places, MPI_INTEGER, b, rank + 1, MPI_INTEGER, root, comm LAST
    call demand(all(b(:rank + 1) == value_of(root, [(own + i, i = 1, rank + 1)])) .and. b(rank + 2) == -1, 'a scatterv')
    b = -1
    if (rank == root) then
      call NAME(Scatterv)(a, counts, places, MPI_INTEGER, MPI_IN_PLACE, rank + 1, MPI_INTEGER, root, comm LAST
    else
      call NAME(Scatterv)(a, counts, places, MPI_INTEGER, b, rank + 1, MPI_INTEGER, root, comm LAST
      call demand(all(b(:rank + 1) == value_of(root, [(own + i, i = 1, rank + 1)])), 'a scatterv in place')
    end if
    ! From rank r to rank s s + 1 values of r's block s.
    counts2(:n) = rank + 1
    places2(:n) = places(:n)
    b = -1
    call NAME(Alltoallv)(a, counts, places, MPI_INTEGER, b, counts2, places2, MPI_INTEGER, comm LAST
    do r = 0, n - 1
      call demand(all(b(4 * r + 1:4 * r + rank + 1) == value_of(r, [(own + i, i = 1, rank + 1)])), 'an alltoallv')
      call demand(b(4 * r + rank + 2) == -1, 'what lies between the blocks of an alltoallv')
    end do
  end subroutine blocks

  subroutine demand_blocks(what)
    character(len=*), intent(in) :: what
    integer :: i, r
    do r = 0, n - 1
      call demand(all(b(4 * r + 1:4 * r + r + 1) == value_of(r, [(i, i = 1, r + 1)])), what)
      call demand(b(4 * r + r + 2) == -1, what)
    end do
  end subroutine demand_blocks

  ! A type of addresses: every other one of the first values of `apart`.
  subroutine from_bottom(root)
    integer, intent(in) :: root
    integer :: i, r
    integer(kind=MPI_ADDRESS_KIND) :: addresses(3)
    HANDLE(MPI_Datatype) :: type
    do i = 1, 3
      call MPI_Get_address(apart(2 * i), addresses(i), ierror)
    end do
    call MPI_Type_create_hindexed(3, [1, 1, 1], addresses, MPI_INTEGER, type, ierror)
    call MPI_Type_commit(type, ierror)
    apart = [(value_of(rank, i), i = 1, 2 * most)]
    call NAME(Bcast)(MPI_BOTTOM, 1, type, root, comm LAST
    call demand(all(apart(2:6:2) == value_of(root, [2, 4, 6])), 'a bcast at MPI_BOTTOM')
    call demand(all(apart(1:7:2) == value_of(rank, [1, 3, 5, 7])), 'what lies between')
    b = -1
    apart(2:6:2) = value_of(rank, [1, 2, 3])
    call NAME(Gather)(MPI_BOTTOM, 1, type, b, 3, MPI_INTEGER, root, comm LAST
    call demand(rank /= root .or. all(b(:3 * n) == [((value_of(r, i), i = 1, 3), r = 0, n - 1)]), 'a gather from MPI_BOTTOM')
    call fill(3 * n)
    call NAME(Scatter)(a, 3, MPI_INTEGER, MPI_BOTTOM, 1, type, root, comm LAST
    call demand(all(apart(2:6:2) == value_of(root, 3 * rank + [1, 2, 3])), 'a scatter to MPI_BOTTOM')
    call MPI_Type_free(type, ierror)
  end subroutine from_bottom
end module every

program main
  use every
  implicit none
  integer :: level, turn
#ifdef THREADS
  call MPI_Init_thread(MPI_THREAD_MULTIPLE, level, ierror)
#else
  call MPI_Init_thread(MPI_THREAD_FUNNELED, level, ierror)
#endif
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, n, ierror)
  do turn = 0, 3
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
#ifdef THREADS
    call MPI_Barrier(comm, ierror) ! nonblocking calls make no communicator
#endif
    call NAME(Barrier)(comm LAST
    call reductions(modulo(turn, n))
    call own_operator(modulo(turn, n))
    call movements(modulo(turn, n))
    call blocks(modulo(turn, n))
    call from_bottom(modulo(turn, n))
    if (turn < 2) then
      call MPI_Comm_free(comm, ierror)
    else
      call MPI_Comm_disconnect(comm, ierror)
    end if
    call demand(comm == MPI_COMM_NULL, 'a handle of none')
  end do
  if (rank == 0) print '(i0, a)', calls, ' calls, all as it should be'
  call MPI_Finalize(ierror)
end program main
