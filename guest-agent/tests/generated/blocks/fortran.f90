//// Fortran: @name@(round) with integer(8) numbers.
//// kind f_do free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: a(@N@) = 0
  integer :: i
!$omp parallel do @SCHEDULE@
  do i = 1, @N@
    a(i) = iand(a(i) + i * round, mask)
  end do
!$omp end parallel do
  @name@ = hash(a, @N@)
end function
//// kind f_reduction free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8) :: total, most
  integer :: i
  total = round
  most = 0
!$omp parallel do @SCHEDULE@ reduction(+:total) reduction(max:most)
  do i = 1, @N@
    total = total + i * round
    most = max(most, mod(i * 7919_8, round + 2))
  end do
!$omp end parallel do
  @name@ = mix(total, most)
end function
//// kind f_array_reduction free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8) :: bins(@K@)
  integer :: i
  bins = 0
!$omp parallel do reduction(+:bins)
  do i = 1, @N@
    bins(mod(i, @K@) + 1) = bins(mod(i, @K@) + 1) + round
  end do
!$omp end parallel do
  @name@ = hash(bins, @K@)
end function
//// kind f_collapse free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: a(@K@ * @N@) = 0
  integer :: i, k
!$omp parallel do collapse(2) @SCHEDULE@
  do k = 0, @K@ - 1
    do i = 1, @N@
      a(k * @N@ + i) = iand(a(k * @N@ + i) * 3 + i + round, mask)
    end do
  end do
  @name@ = hash(a, @K@ * @N@)
end function
//// kind f_phases free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: a(@N@), b(@N@)
  integer :: i
!$omp parallel default(shared) private(i)
!$omp do @SCHEDULE@
  do i = 1, @N@
    a(i) = i + round
  end do
!$omp end do
!$omp do @SCHEDULE@
  do i = 1, @N@
    b(i) = a(mod(i * 7, @N@) + 1) * 5
  end do
!$omp end do nowait
!$omp barrier
!$omp master
  b(1) = b(1) + 1
!$omp end master
!$omp end parallel
  @name@ = hash(b, @N@)
end function
//// kind f_workshare any
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: a(@N@) = 1, b(@N@)
!$omp parallel workshare
  b = a * 3 + round
  a = iand(b, mask)
!$omp end parallel workshare
  @name@ = hash(a, @N@)
end function
//// kind f_sections free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8) :: a, b
!$omp parallel sections
!$omp section
  a = round * 3
!$omp section
  b = round + 5
!$omp end parallel sections
  @name@ = mix(a, b)
end function
//// kind f_ordered free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8) :: h
  integer :: i
  h = round
!$omp parallel do ordered schedule(@(static, 1@@dynamic)@)
  do i = 1, 24
!$omp ordered
    h = mix(h, int(i, 8))
!$omp end ordered
  end do
!$omp end parallel do
  @name@ = h
end function
//// kind f_doacross free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: a(0:12) = 0
  integer :: i
  a(0) = round
  if (mod(round, 16_8) /= 1) then ! threads that wait here do not let others run
    @name@ = a(12)
    return
  end if
!$omp parallel do ordered(1) schedule(@(static, 1@@dynamic)@)
  do i = 1, 12
!$omp ordered depend(sink: i - 1)
    a(i) = mix(a(i - 1), int(i, 8))
!$omp ordered depend(source)
  end do
!$omp end parallel do
  @name@ = a(12)
end function
//// kind f_task any
recursive integer(8) function @name@_fib(n) result(f)
  integer, intent(in) :: n
  integer(8) :: a, b
  if (n < 2) then
    f = n
    return
  end if
!$omp task shared(a)
  a = @name@_fib(n - 1)
!$omp end task
  b = @name@_fib(n - 2)
!$omp taskwait
  f = a + b
end function
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  interface
    recursive integer(8) function @name@_fib(n) result(f)
      integer, intent(in) :: n
    end function
  end interface
  integer(8) :: h
!$omp parallel
!$omp single
  h = @name@_fib(6)
!$omp end single
!$omp end parallel
  @name@ = h + round
end function
//// kind f_taskloop free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: a(@N@) = 0
  integer :: i
!$omp parallel
!$omp single
!$omp taskloop @(@@grainsize(8)@@num_tasks(3))@
  do i = 1, @N@
    a(i) = iand(a(i) + i + round, mask)
  end do
!$omp end taskloop
!$omp end single
!$omp end parallel
  @name@ = hash(a, @N@)
end function
//// kind f_critical free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8) :: h, mine
  integer :: i
  h = 0
!$omp parallel private(mine, i) shared(h)
  mine = 0
!$omp do
  do i = 1, @N@
    mine = mine + ieor(int(i, 8), round)
  end do
!$omp end do nowait
!$omp critical
  h = h + mine
!$omp end critical
!$omp end parallel
  @name@ = h
end function
//// kind f_scratch_automatic free
subroutine @name@_one(i, n, round, h)
  integer, intent(in) :: i, n
  integer(8), intent(in) :: round
  integer(8), intent(inout) :: h
  integer(8) :: scratch(n)
  integer :: k
  do k = 1, n
    scratch(k) = ieor(int(i * k, 8), round)
  end do
  do k = 1, n
    h = h + scratch(mod(k * 5 + i, n) + 1)
  end do
end subroutine
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8) :: h
  integer :: i
  h = 0
!$omp parallel do reduction(+:h) @SCHEDULE@
  do i = 1, @N@ / 4
    call @name@_one(i, @K@ + 4, round, h)
  end do
  @name@ = h
end function
//// kind f_private_array free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8) :: h, scratch(16)
  integer :: i
  h = 0
!$omp parallel do private(scratch) reduction(+:h)
  do i = 1, @N@ / 4
    scratch = i * round
    h = h + sum(scratch) + maxval(scratch)
  end do
  @name@ = h
end function
//// kind f_allocate_inside any
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), allocatable :: scratch(:)
  integer(8) :: h
  integer :: i
  h = 0
!$omp parallel do private(scratch) reduction(+:h)
  do i = 1, @N@ / 8
    allocate(scratch(@K@))
    scratch = i + round
    h = h + sum(scratch)
    deallocate(scratch)
  end do
  @name@ = h
end function
//// kind f_lastprivate free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8) :: last
  integer :: i
!$omp parallel do lastprivate(last) @SCHEDULE@
  do i = 1, @N@
    last = i * 3 + round
  end do
  @name@ = last
end function
//// kind f_copyprivate free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8) :: h, value
  integer :: i
  h = 0
!$omp parallel private(value, i) reduction(+:h)
!$omp single
  value = round * 3
!$omp end single copyprivate(value)
!$omp do
  do i = 1, @N@
    h = h + value + i
  end do
!$omp end do
!$omp end parallel
  @name@ = h
end function
//// kind f_stencil free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  real(8), save :: a(0:@N@ + 1) = 0, b(0:@N@ + 1) = 0
  integer :: i
!$omp parallel private(i)
!$omp do schedule(static)
  do i = 1, @N@
    b(i) = mod(a(i - 1) + a(i + 1) + i + round, 4096d0)
  end do
!$omp do schedule(static)
  do i = 1, @N@
    a(i) = mod(b(i - 1) + b(i + 1), 4096d0)
  end do
!$omp end parallel
  @name@ = int(sum(a(1:@N@)), 8)
end function
//// kind f_orphaned free
subroutine @name@_loop(a, round)
  use shared
  integer(8), intent(inout) :: a(@N@)
  integer(8), intent(in) :: round
  integer :: i
!$omp do @SCHEDULE@
  do i = 1, @N@
    a(i) = iand(a(i) + i + round, mask)
  end do
!$omp end do
end subroutine
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: a(@N@) = 0
!$omp parallel
  call @name@_loop(a, round)
!$omp end parallel
  @name@ = hash(a, @N@)
end function
//// kind f_elsewhere any
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: a(@N@) = 0
!$omp parallel
  call @name@_there(a, round)
!$omp end parallel
  @name@ = hash(a, @N@)
end function
//// other
subroutine @name@_there(a, round)
  use shared
  integer(8), intent(inout) :: a(@N@)
  integer(8), intent(in) :: round
  integer :: i
!$omp do @SCHEDULE@
  do i = 1, @N@
    a(i) = iand(a(i) + i + round, mask)
  end do
!$omp end do
end subroutine
//// kind f_block any
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: a(@N@) = 0
  integer :: i
!$omp parallel do @SCHEDULE@
  do i = 1, @N@
    block
      integer(8) :: inner
      inner = i + round
      a(i) = iand(a(i) + inner, mask)
    end block
  end do
  @name@ = hash(a, @N@)
end function
