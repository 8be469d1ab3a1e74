! The team's size in what compilers call by themselves: PROGRAM THREADS [CASE]. case.h says how cases are marked.
module flow
  use omp_lib
  implicit none
  integer, parameter :: rounds = 300
  integer :: threads
  real(8) :: base = 1.5d0
contains
  ! WRONG_IF_FREE(power)
  integer function power()
    real(8) :: out
    integer :: round
    power = 0
    do round = 1, rounds
!$omp parallel ! own
!$omp single
      out = base ** omp_get_num_threads()
!$omp end single
!$omp end parallel
      if (abs(out - exp(threads * log(base))) > 1d-6) power = power + 1
    end do
  end function

  ! WRONG_IF_FREE(long_numbers)
  integer function long_numbers()
    real(10) :: out
    integer :: round
    long_numbers = 0
    do round = 1, rounds
!$omp parallel ! own
!$omp single
      out = 300.0_10 / omp_get_num_threads()
!$omp end single
!$omp end parallel
      if (out /= 300 / threads) long_numbers = long_numbers + 1
    end do
  end function
end module

program cases
  use flow
  integer :: failed = 0
  character(len=64) :: word, wanted
  call get_command_argument(1, word)
  read (word, *) threads
  call get_command_argument(2, wanted)
  call try('power', power)
  call try('long_numbers', long_numbers)
  if (failed /= 0) stop 1
contains
  subroutine try(name, one)
    character(len=*), intent(in) :: name
    integer, external :: one
    integer :: wrong
    if (wanted /= '' .and. wanted /= name) return
    wrong = one()
    print '(a, a, i0, a)', name, ': ', wrong, ' wrong rounds'
    if (wrong /= 0) failed = 1
  end subroutine
end program
