! Sections with thread-private data as Fortran programs have them: module variables, COMMON blocks, work arrays passed
! to subroutines by reference. The expected findings stand before each section. The sections are compiled with several
! options and inspected. They never run.
module expectations
  use, intrinsic :: iso_c_binding
  implicit none
  ! As in expect.h.
  integer(c_int), parameter :: nothing = 0, keeps = 1, touches = 4, alone = 8, scratch = 6
  interface
    subroutine expect_c(name, verdict) bind(c, name='expect')
      import
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: verdict
    end subroutine
  end interface
contains
  ! Keeps the name in a variable of its own, because verdicts.c uses it until the next call.
  subroutine expect(name, verdict)
    character(len=*), intent(in) :: name
    integer(c_int), intent(in) :: verdict
    character(kind=c_char, len=64), save, target :: kept
    kept = trim(name)//c_null_char
    call expect_c(kept, verdict)
  end subroutine
end module

module work
  implicit none
  integer, parameter :: points = 64
  double precision :: u(5, 0:points, points, points), rhs(5, 0:points, points, points), total(points)
  integer :: told, keys(4096), ranked(4096)
  logical :: flags(0:points)
  ! As in BT and SP: filled and used for each line.
  double precision :: lhs(5, 0:points), lhsp(5, 0:points), cv(0:points), rhon(0:points), q(0:points)
  double precision :: fjac(5, 5, 0:points), njac(5, 5, 0:points), blocks(5, 5, 3, 0:points), ue(0:points, 5)
  !$omp threadprivate(lhs, lhsp, cv, rhon, q, fjac, njac, blocks, ue)
  ! As in LU and MG.
  integer :: mine, others, first, last
  !$omp threadprivate(mine, others, first, last)
  ! Data that one region leaves for the next.
  double precision :: kept(0:points), sums(10)
  integer :: events
  integer(8) :: seed
  !$omp threadprivate(kept, sums, events, seed)
end module

module lines
  implicit none
  double precision :: line(5, 0:64), squares(0:64), inverse(0:64)
  !$omp threadprivate(line, squares, inverse)
  double precision :: field(0:64, 64, 64), right(0:64, 64, 64)
end module

! Changes few registers, so compilers that know its code keep values in registers over a call.
subroutine ends_start(n)
  use lines
  implicit none
  integer :: n, m
  do m = 1, 5
    line(m, 0) = 0.d0
    line(m, n) = 0.d0
  end do
  line(3, 0) = 1.d0
  line(3, n) = 1.d0
end subroutine

subroutine live_over_call
  use expectations
  use lines
  implicit none
  integer :: i, j, k
  double precision :: t, fac
  call expect('sp: registers live over a call', scratch)
  !$omp parallel do default(shared) private(i, j, k, t, fac) collapse(2)
  do k = 1, 64
    do j = 1, 64
      call ends_start(64)
      do i = 0, 64
        t = 0.4d0*field(i, j, k)
        squares(i) = field(i, j, k)*2
        inverse(i) = dmax1(t, 0.3d0 + squares(i))
      end do
      do i = 1, 63
        line(1, i) = 0.d0
        line(2, i) = -squares(i - 1) - inverse(i - 1)
        line(3, i) = 1.d0 + inverse(i)
        line(4, i) = squares(i + 1)
        line(5, i) = 0.d0
      end do
      do i = 1, 63
        fac = 1.d0/line(3, i)
        line(4, i) = fac*line(4, i)
        line(3, i + 1) = line(3, i + 1) - line(2, i + 1)*line(4, i)
        right(i, j, k) = fac*right(i, j, k)
      end do
    end do
  end do
end subroutine

! Helpers in their own right, as in those programs: external, and called by reference.
subroutine line_start(lines, n)
  implicit none
  integer, intent(in) :: n
  double precision, intent(inout) :: lines(5, 0:n)
  integer :: m
  do m = 1, 5
    lines(m, 0) = 0.d0
    lines(m, n) = 0.d0
  end do
  lines(3, 0) = 1.d0
  lines(3, n) = 1.d0
end subroutine

subroutine module_start(n)
  use work
  implicit none
  integer :: n, m
  do m = 1, 5
    lhs(m, 0) = 0.d0
    lhsp(m, 0) = 0.d0
    lhs(m, n) = 0.d0
    lhsp(m, n) = 0.d0
  end do
  lhs(3, 0) = 1.d0
  lhsp(3, 0) = 1.d0
  lhs(3, n) = 1.d0
  lhsp(3, n) = 1.d0
end subroutine

subroutine block_start(lines, n)
  implicit none
  integer :: n, i, m, k
  double precision :: lines(5, 5, 3, 0:n)
  do i = 0, n, n
    do m = 1, 5
      do k = 1, 5
        lines(k, m, 1, i) = 0.d0
        lines(k, m, 2, i) = 0.d0
        lines(k, m, 3, i) = 0.d0
      end do
    end do
    do m = 1, 5
      lines(m, m, 2, i) = 1.d0
    end do
  end do
end subroutine

subroutine block_solve(matrix, right, r)
  implicit none
  double precision :: matrix(5, 5), right(5, 5), r(5), pivot
  integer :: m, n
  do m = 1, 5
    pivot = 1.d0/matrix(m, m)
    do n = m + 1, 5
      matrix(m, n) = matrix(m, n)*pivot
    end do
    do n = 1, 5
      right(m, n) = right(m, n)*pivot
    end do
    r(m) = r(m)*pivot
  end do
end subroutine

subroutine block_multiply(a, b, c)
  implicit none
  double precision :: a(5, 5), b(5, 5), c(5, 5)
  integer :: j
  do j = 1, 5
    c(:, j) = c(:, j) - a(:, 1)*b(1, j) - a(:, 2)*b(2, j) - a(:, 3)*b(3, j) - a(:, 4)*b(4, j) - a(:, 5)*b(5, j)
  end do
end subroutine

subroutine sp_like(n)
  use expectations
  use work
  implicit none
  integer :: n, i, j, k, m
  double precision :: t, fac
  call expect('sp: solve', scratch)
  !$omp parallel do private(i, j, k, m, t, fac) collapse(2)
  do k = 1, points
    do j = 1, points
      call module_start(n)
      do i = 0, n
        t = 0.4d0*u(1, i, j, k)
        cv(i) = u(2, i, j, k)*2
        rhon(i) = dmax1(t, 0.3d0 + cv(i), 0.7d0 + t)
      end do
      do i = 1, n - 1
        lhs(1, i) = 0.d0
        lhs(2, i) = -cv(i - 1) - rhon(i - 1)
        lhs(3, i) = 1.d0 + rhon(i)
        lhs(4, i) = cv(i + 1) - rhon(i + 1)
        lhs(5, i) = 0.d0
      end do
      do i = 1, n - 1
        lhsp(1, i) = lhs(1, i)
        lhsp(2, i) = lhs(2, i) - u(3, i - 1, j, k)
        lhsp(3, i) = lhs(3, i)
        lhsp(4, i) = lhs(4, i) + u(3, i + 1, j, k)
        lhsp(5, i) = lhs(5, i)
      end do
      do i = 0, n - 2
        fac = 1.d0/lhs(3, i)
        lhs(4, i) = fac*lhs(4, i)
        lhs(5, i) = fac*lhs(5, i)
        do m = 1, 3
          rhs(m, i, j, k) = fac*rhs(m, i, j, k)
        end do
        lhs(3, i + 1) = lhs(3, i + 1) - lhs(2, i + 1)*lhs(4, i)
        lhs(4, i + 1) = lhs(4, i + 1) - lhs(2, i + 1)*lhs(5, i)
        rhs(4, i + 1, j, k) = rhs(4, i + 1, j, k) - lhsp(2, i + 1)*rhs(4, i, j, k)
      end do
    end do
  end do
  call expect('sp: array handed to a helper', scratch)
  !$omp parallel do private(i, j, k) schedule(dynamic)
  do k = 1, points
    do j = 1, points
      call line_start(lhs, n)
      do i = 1, n - 1
        lhs(1, i) = u(1, i - 1, j, k)
        lhs(2, i) = 0.d0
        lhs(3, i) = 1.d0
        lhs(4, i) = u(1, i + 1, j, k)
        lhs(5, i) = 0.d0
      end do
      do i = 0, n - 1
        rhs(1, i, j, k) = rhs(1, i, j, k)*lhs(3, i) - lhs(2, i + 1)*lhs(4, i)
      end do
    end do
  end do
  call expect('one work array is filled, another only read', ior(keeps, scratch))
  !$omp parallel do private(i, j, k)
  do k = 1, points
    do j = 1, points
      call line_start(lhs, n)
      do i = 1, n - 1
        rhs(1, i, j, k) = lhs(3, 0)*rhs(1, i, j, k) + kept(i)
      end do
    end do
  end do
end subroutine

subroutine bt_like(n)
  use expectations
  use work
  implicit none
  integer :: n, i, j, k, m, l
  double precision :: t
  call expect('bt: solve', scratch)
  !$omp parallel do private(i, j, k, m, l, t) schedule(static) collapse(2)
  do k = 1, points
    do j = 1, points
      do i = 0, n
        t = 1.d0/u(1, i, j, k)
        do m = 1, 5
          do l = 1, 5
            fjac(l, m, i) = t*u(l, i, j, k)*u(m, i, j, k)
            njac(l, m, i) = t*l
          end do
        end do
      end do
      call block_start(blocks, n)
      do i = 1, n - 1
        do m = 1, 5
          do l = 1, 5
            blocks(l, m, 1, i) = -fjac(l, m, i - 1) - njac(l, m, i - 1)
            blocks(l, m, 2, i) = 2.d0*njac(l, m, i)
            blocks(l, m, 3, i) = fjac(l, m, i + 1) - njac(l, m, i + 1)
          end do
        end do
      end do
      call block_solve(blocks(1, 1, 2, 0), blocks(1, 1, 3, 0), rhs(1, 0, j, k))
      do i = 1, n - 1
        call block_multiply(blocks(1, 1, 1, i), blocks(1, 1, 3, i - 1), blocks(1, 1, 2, i))
        call block_solve(blocks(1, 1, 2, i), blocks(1, 1, 3, i), rhs(1, i, j, k))
      end do
    end do
  end do
  call expect('bt: exact right side', scratch)
  !$omp parallel do private(i, j, k, m, t)
  do k = 1, points
    do j = 1, points
      do i = 0, n
        do m = 1, 5
          ue(i, m) = u(m, i, j, k)
        end do
        cv(i) = ue(i, 2)*ue(i, 2)
        q(i) = 0.5d0*(ue(i, 1)*ue(i, 2) + ue(i, 3)*ue(i, 4))
      end do
      do i = 1, n - 1
        rhs(1, i, j, k) = ue(i + 1, 2) - ue(i - 1, 2) + cv(i + 1) - 2.d0*cv(i) + cv(i - 1) + q(i + 1)
        rhs(5, i, j, k) = ue(i + 1, 5)*q(i + 1) - ue(i - 1, 5)*q(i - 1)
      end do
    end do
  end do
end subroutine

subroutine find_bounds(n)
  use work
  use omp_lib
  implicit none
  integer :: n, piece
  others = omp_get_num_threads()
  mine = omp_get_thread_num()
  piece = (n + others - 1)/others
  first = piece*mine
  last = min(n, first + piece)
end subroutine

subroutine use_bounds(a, n)
  use work
  implicit none
  integer :: n, i
  double precision :: a(n)
  do i = first + 1, last
    a(i) = a(i) + mine
  end do
end subroutine

subroutine cg_like(a, n)
  use expectations
  implicit none
  integer :: n
  double precision :: a(n)
  call expect('cg: bounds and use', scratch)
  !$omp parallel
  call find_bounds(n)
  !$omp barrier
  call use_bounds(a, n)
  !$omp end parallel
  call expect('cg: use without bounds', ior(keeps, touches))
  !$omp parallel
  call use_bounds(a, n)
  !$omp end parallel
end subroutine

subroutine draw(n, x, a, values)
  implicit none
  integer :: n, i
  double precision :: x, a, values(n)
  do i = 1, n
    x = x*a - aint(x*a)
    values(i) = x
  end do
end subroutine

! As in EP: a COMMON block of work, and one of counts.
subroutine ep_like(n)
  use expectations
  use work, only: total
  implicit none
  integer :: n, i, k
  double precision :: x(128), counts(0:9), start, a, b, t
  common /storage/ x, counts
  !$omp threadprivate(/storage/)
  call expect('ep: start', scratch)
  !$omp parallel private(i)
  do i = 1, 128
    x(i) = -1.d99
  end do
  !$omp end parallel
  call expect('ep: pairs', scratch)
  !$omp parallel private(i, k, start, a, b, t)
  do i = 0, 9
    counts(i) = 0.d0
  end do
  !$omp do
  do k = 1, n
    start = k + 0.5d0
    call draw(128, start, 1.7d0, x)
    do i = 1, 64
      a = 2.d0*x(2*i - 1) - 1.d0
      b = 2.d0*x(2*i) - 1.d0
      t = a*a + b*b
      if (t <= 1.d0) then
        block
          integer :: bin
          bin = mod(int(max(abs(a*sqrt(-2.d0*log(t)/t)), abs(b))), 10)
          counts(bin) = counts(bin) + 1.d0
        end block
      end if
    end do
  end do
  !$omp end do
  do i = 0, 9
    !$omp atomic
    total(i + 1) = total(i + 1) + counts(i)
  end do
  !$omp end parallel
  call expect('counts in a COMMON block grow over regions', ior(keeps, scratch))
  !$omp parallel do
  do k = 1, n
    counts(mod(k, 10)) = counts(mod(k, 10)) + 1.d0
  end do
  call expect('counts in a COMMON block are read', ior(keeps, touches))
  !$omp parallel private(i)
  do i = 0, 9
    !$omp atomic
    total(i + 1) = total(i + 1) + counts(i)
  end do
  !$omp end parallel
end subroutine

subroutine wait_left
  use work
  implicit none
  if (mine > 0 .and. mine <= others) then
    do while (.not. flags(mine - 1))
      !$omp flush(flags)
    end do
    flags(mine - 1) = .false.
    !$omp flush(flags)
  end if
end subroutine

subroutine tell_right
  use work
  implicit none
  if (mine < others) then
    flags(mine) = .true.
    !$omp flush(flags)
  end if
end subroutine

subroutine lu_like(n)
  use expectations
  use work
  use omp_lib
  implicit none
  integer :: n, i, j, k
  call expect('lu: flags', scratch)
  !$omp parallel private(i, j, k)
  mine = 0
  others = omp_get_num_threads() - 1
  mine = omp_get_thread_num()
  flags(mine) = .false.
  !$omp barrier
  do k = 2, n
    call wait_left
    !$omp do schedule(static)
    do j = 2, points - 1
      do i = 1, n
        rhs(1, i, j, k) = rhs(1, i, j, k) - 0.3d0*rhs(1, i, j - 1, k) - 0.2d0*rhs(1, i - 1, j, k)
      end do
    end do
    !$omp end do nowait
    call tell_right
  end do
  !$omp end parallel
  call expect('lu: flags of an earlier region', ior(keeps, touches))
  !$omp parallel private(k)
  do k = 2, n
    call wait_left
    call tell_right
  end do
  !$omp end parallel
end subroutine

subroutine left_over(n, s)
  use expectations
  use work
  implicit none
  integer :: n, i
  double precision :: s
  call expect('kept: filled', scratch)
  !$omp parallel private(i)
  do i = 0, points
    kept(i) = i
  end do
  !$omp end parallel
  call expect('kept: read', ior(keeps, touches))
  !$omp parallel private(i) reduction(+:s)
  do i = 0, points
    s = s + kept(i)
  end do
  !$omp end parallel
  call expect('events counted', ior(keeps, scratch))
  !$omp parallel do schedule(dynamic)
  do i = 1, n
    events = events + 1
  end do
  call expect('events copied in', scratch)
  !$omp parallel copyin(events)
  events = events + 1
  !$omp end parallel
  call expect('random numbers go on', ior(keeps, scratch))
  !$omp parallel do private(i)
  do i = 1, n
    seed = iand(seed*1103515245_8 + 12345_8, 2147483647_8)
    total(mod(i, points) + 1) = dble(seed)
  end do
  call expect('random numbers from a seed of their own', scratch)
  !$omp parallel do private(i)
  do i = 1, n
    seed = i
    seed = iand(seed*1103515245_8 + 12345_8, 2147483647_8)
    total(mod(i, points) + 1) = dble(seed)
  end do
end subroutine

subroutine harmless(n)
  use expectations
  use work
  use omp_lib
  implicit none
  integer :: n, i, piece, start
  call expect('shared data only', nothing)
  !$omp parallel do private(i) schedule(guided)
  do i = 1, n
    total(mod(i, points) + 1) = i
  end do
  call expect('an array on the stack', nothing)
  !$omp parallel private(i)
  block
    double precision :: line(5, 0:points)
    call line_start(line, points)
    total(1) = line(3, n)
  end block
  !$omp end parallel
  call expect('divided by a number told before', alone)
  !$omp parallel private(i, piece, start)
  piece = n/told
  start = piece*omp_get_thread_num()
  do i = start + 1, start + piece
    total(mod(i, points) + 1) = i
  end do
  !$omp end parallel
  call expect('divided by the size of the team', nothing)
  !$omp parallel private(i, piece, start)
  piece = n/omp_get_num_threads()
  start = piece*omp_get_thread_num()
  do i = start + 1, start + piece
    total(mod(i, points) + 1) = i
  end do
  !$omp end parallel
end subroutine

subroutine sections() bind(c, name='sections')
  use expectations
  use work
  use omp_lib
  implicit none
  integer, volatile :: given = 60 ! so that compilers do not know its value
  integer :: n
  double precision :: a(points), s
  n = given
  a = 0
  s = 0
  told = omp_get_max_threads()
  call sp_like(n)
  call live_over_call
  call bt_like(n)
  call cg_like(a, n)
  call ep_like(n)
  call lu_like(n)
  call left_over(n, s)
  call harmless(n)
end subroutine
