//// Fortran: work that is divided by hand, thread-private data, waits, clauses.
//// kind f_divide_block own
@from_number@
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: a(@N@) = 0
  integer :: i, n, t
  integer, external :: @number@
  n = @number@()
!$omp parallel private(i, t)
  t = omp_get_thread_num()
  do i = t * @N@ / n + 1, (t + 1) * @N@ / n
    a(i) = iand(a(i) + i + round, mask)
  end do
!$omp end parallel
  @name@ = hash(a, @N@)
end function
//// kind f_divide_cyclic own
@from_number@
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: a(@N@) = 0
  integer :: i, n
  integer, external :: @number@
  n = @number@()
!$omp parallel private(i)
  do i = omp_get_thread_num() + 1, @N@, n
    a(i) = iand(a(i) + i + round, mask)
  end do
!$omp end parallel
  @name@ = hash(a, @N@)
end function
//// kind f_divide_in_region free
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: a(@N@) = 0
  integer :: i
!$omp parallel private(i)
  do i = omp_get_thread_num() + 1, @N@, omp_get_num_threads()
    a(i) = iand(a(i) + i + round, mask)
  end do
!$omp end parallel
  @name@ = hash(a, @N@)
end function
//// kind f_buffer_by_thread own
@from_number@
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), allocatable, save :: sums(:)
  integer :: i, n
  integer, external :: @number@
  n = @number@()
  if (.not. allocated(sums)) then
    allocate(sums(0:n - 1))
    sums = 0
  end if
!$omp parallel do schedule(@(static@@dynamic, 5)@)
  do i = 1, @N@
    sums(omp_get_thread_num()) = sums(omp_get_thread_num()) + round
  end do
  @name@ = sum(sums)
end function
//// kind f_automatic_by_number own
@from_number@
subroutine @name@_one(n, round, h)
  use shared
  integer, intent(in) :: n
  integer(8), intent(in) :: round
  integer(8), intent(out) :: h
  integer(8) :: sums(0:n - 1)
  sums = 0
!$omp parallel
  sums(omp_get_thread_num()) = round
!$omp end parallel
  h = sum(sums)
end subroutine
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer, external :: @number@
  call @name@_one(@number@(), round, @name@)
end function
//// kind f_counted own
@from_number@
integer(8) function @name@(round)
  integer(8), intent(in) :: round
  integer, external :: @number@
  @name@ = round * 1000 + @number@()
end function
//// kind f_common_scratch any
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8) :: s(@K@), h
  integer :: i, k
  common /@name@_data/ s
!$omp threadprivate(/@name@_data/)
  h = 0
!$omp parallel do private(k) reduction(+:h)
  do i = 1, @N@ / 4
    do k = 1, @K@
      s(k) = i * k + round
    end do
    do k = 1, @K@
      h = h + ieor(s(k), int(k, 8))
    end do
  end do
  @name@ = h
end function
//// kind f_common_kept own persists
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8) :: s(@K@), h
  integer :: i
  logical, save :: made = .false.
  common /@name@_data/ s
!$omp threadprivate(/@name@_data/)
  if (.not. made) then
!$omp parallel
    s = 3
!$omp end parallel
    made = .true.
  end if
!$omp parallel do
  do i = 1, @N@
    s(mod(i, @K@) + 1) = s(mod(i, @K@) + 1) + round
  end do
  h = 0
!$omp parallel reduction(+:h)
  h = h + sum(s)
!$omp end parallel
  @name@ = h
end function
//// kind f_save_kept own persists
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: s = 7
!$omp threadprivate(s)
  integer(8) :: h
  integer :: i
!$omp parallel do
  do i = 1, @N@
    s = s + i + round
  end do
  h = 0
!$omp parallel reduction(+:h)
  h = h + s
!$omp end parallel
  @name@ = h
end function
//// kind f_partly_written own persists
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: s(16) = 4
!$omp threadprivate(s)
  logical, save :: made = .false.
  integer(8) :: h
  integer :: i
  if (.not. made) then
!$omp parallel
    s = 9
!$omp end parallel
    made = .true.
  end if
  h = 0
!$omp parallel do reduction(+:h)
  do i = 1, @N@ / 4
    s(1:16 - @K@) = i + round
    h = h + sum(s)
  end do
  @name@ = h
end function
//// kind f_copyin any
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: s
!$omp threadprivate(s)
  integer(8) :: h
  integer :: i
  s = round * 3
  h = 0
!$omp parallel do copyin(s) reduction(+:h)
  do i = 1, @N@
    h = h + s + i
  end do
  @name@ = h
end function
//// kind f_pipeline any
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer(8), save :: a(0:@N@, 0:6) = 0
  integer, save :: done(-1:63) = 0
  integer :: i, k, n, t, seen
  done = 0
  done(-1) = 99
!$omp parallel private(i, k, n, t, seen)
  n = omp_get_num_threads()
  t = omp_get_thread_num()
  do k = 1, 6
    seen = 0
    do while (seen < k)
!$omp atomic read
      seen = done(t - 1)
      if (seen < k) call pause_briefly()
    end do
!$omp flush
    do i = t * @N@ / n + 1, (t + 1) * @N@ / n
      a(i, k) = iand(a(i, k - 1) + a(i - 1, k) + round, mask)
    end do
!$omp flush
!$omp atomic write
    done(t) = k
  end do
!$omp end parallel
  @name@ = hash(a(1:@N@, 6), @N@)
end function
//// kind f_clause own disturbs
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer :: n
  n = 0
!$omp parallel num_threads(@(2@@3@@told_argument@@1 + int(mod(round, 3_8)))@) reduction(+:n)
  n = n + 1
!$omp end parallel
  @name@ = mix(int(n, 8), round)
end function
//// kind f_if_clause own disturbs
integer(8) function @name@(round)
  use shared
  integer(8), intent(in) :: round
  integer :: n
  n = 0
!$omp parallel if (mod(round, 2_8) == 0) reduction(+:n)
  n = n + 1
!$omp end parallel
  @name@ = mix(int(n, 8), round)
end function
