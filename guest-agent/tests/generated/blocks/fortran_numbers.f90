//// Where a number of threads comes from, in Fortran.
//// number asked_once
integer function @number@()
  use shared
  integer, save :: n = 0
  if (n == 0) n = omp_get_max_threads()
  @number@ = n
end function
//// number asked_at_start
integer function @number@()
  use shared
  @number@ = told_at_start
end function
//// number argument
integer function @number@()
  use shared
  @number@ = told_argument
end function
//// number constant
integer function @number@()
  @number@ = @T@
end function
//// number single
integer function @number@()
  use shared
  integer, save :: n = 0
  if (n == 0) then
!$omp parallel
!$omp single
    n = omp_get_num_threads()
!$omp end single
!$omp end parallel
  end if
  @number@ = n
end function
//// number common
integer function @number@()
  use shared
  integer :: n
  common /@number@_common/ n
  if (n == 0) then
!$omp parallel
    if (omp_get_thread_num() == 0) n = omp_get_num_threads()
!$omp end parallel
  end if
  @number@ = n
end function
//// number atomic
integer function @number@()
  use shared
  integer :: n
  n = 0
!$omp parallel shared(n)
!$omp atomic
  n = n + 1
!$omp end parallel
  @number@ = n
end function
//// number reduction
integer function @number@()
  use shared
  integer :: n
  n = 0
!$omp parallel reduction(+:n)
  n = n + 1
!$omp end parallel
  @number@ = n
end function
//// number critical
integer function @number@()
  use shared
  integer :: n
  n = 0
!$omp parallel shared(n)
!$omp critical
  n = n + 1
!$omp end critical
!$omp end parallel
  @number@ = n
end function
//// number largest
integer function @number@()
  use shared
  integer :: n
  n = 0
!$omp parallel reduction(max:n)
  n = omp_get_thread_num() + 1
!$omp end parallel
  @number@ = n
end function
