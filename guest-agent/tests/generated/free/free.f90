! Sections in Fortran of which any team gives the same result. Each must be found free.
program free
  use omp_lib
  implicit none
  integer, parameter :: n = 240
  real(8) :: a(n), b(n), matrix(24, 24), total, scratch(16)
  integer :: i, k, failed = 0, bins(8)
  character(len=64) :: word
  call get_command_argument(1, word)

!$omp parallel do ! free
  do i = 1, n
    a(i) = i
  end do
!$omp parallel do schedule(dynamic, 4) ! free
  do i = 1, n
    b(i) = 2 * a(i)
  end do
  if (b(7) /= 14) failed = 1

  total = 0
!$omp parallel do reduction(+:total) ! free
  do i = 1, n
    total = total + a(i)
  end do
  if (total /= n * (n + 1) / 2) failed = 2

!$omp parallel do collapse(2) ! free
  do k = 1, 24
    do i = 1, 24
      matrix(i, k) = i * k
    end do
  end do
  if (matrix(3, 4) /= 12) failed = 3

!$omp parallel private(i) ! free
!$omp do
  do i = 1, n
    a(i) = i
  end do
!$omp do
  do i = 1, n
    b(i) = a(n + 1 - i)
  end do
!$omp single
  b(1) = 7
!$omp end single
!$omp end parallel
  if (b(1) /= 7 .or. b(n) /= 1) failed = 4

!$omp parallel do private(scratch) ! free
  do i = 1, n
    scratch = i
    a(i) = sum(scratch)
  end do
  if (a(2) /= 32) failed = 5

!$omp parallel do ! free
  do i = 1, n
    a(i) = sin(real(i, 8)) + exp(-real(i, 8)) + sqrt(real(i, 8))
  end do

!$omp parallel do ! free
  do i = 2, n - 1
    b(i) = 0.5d0 * (a(i - 1) + a(i + 1))
  end do

  bins = 0
!$omp parallel do ! free
  do i = 1, n
!$omp atomic
    bins(mod(i, 8) + 1) = bins(mod(i, 8) + 1) + 1
  end do
  if (bins(2) /= n / 8) failed = 6

!$omp parallel private(i) ! free
  do i = omp_get_thread_num() + 1, n, omp_get_num_threads()
    a(i) = i
  end do
!$omp end parallel
  if (a(n) /= n) failed = 7

!$omp parallel workshare ! free
  b = a + 1
!$omp end parallel workshare
  if (b(3) /= 4) failed = 8

!$omp parallel ! free
!$omp single
!$omp taskloop
  do i = 1, n
    a(i) = i * 2
  end do
!$omp end single
!$omp end parallel
  if (a(3) /= 6) failed = 9
  if (failed /= 0) then
    print *, failed
    stop 1
  end if
end program
