! The same kinds in Fortran: PROGRAM THREADS [CASE]. case.h says how cases are marked.
module shared
  use omp_lib
  implicit none
  integer, parameter :: rounds = 300, n = 240
  integer :: threads, done(n) = 0, module_number = 0
  integer :: kept(8)
!$omp threadprivate(kept)
contains
  integer function undone()
    undone = merge(0, 1, all(done == 1))
    done = 0
  end function

  integer function divided_by(number) result(wrong)
    integer, intent(in) :: number
    integer :: i, round, t
    wrong = 0
    do round = 1, rounds
!$omp parallel private(i, t) ! own
      t = omp_get_thread_num()
      do i = t * n / number + 1, (t + 1) * n / number
        done(i) = done(i) + 1
      end do
!$omp end parallel
      wrong = wrong + undone()
    end do
  end function

  ! WRONG_IF_FREE(asked)
  integer function asked()
    asked = divided_by(omp_get_max_threads())
  end function

  ! WRONG_IF_FREE(argument)
  integer function argument()
    argument = divided_by(threads)
  end function

  ! WRONG_IF_FREE(module_variable)
  integer function module_variable()
!$omp parallel ! own
!$omp single
    module_number = omp_get_num_threads()
!$omp end single
!$omp end parallel
    module_variable = divided_by(module_number)
  end function

  ! WRONG_IF_FREE(common_block)
  integer function common_block()
    integer :: number
    common /told/ number
!$omp parallel ! own
!$omp master
    number = omp_get_num_threads()
!$omp end master
!$omp end parallel
    common_block = divided_by(number)
  end function

  ! WRONG_IF_FREE(counted)
  integer function counted()
    integer :: number
    number = 0
!$omp parallel shared(number) ! own
!$omp atomic
    number = number + 1
!$omp end parallel
    counted = divided_by(number)
  end function

  ! WRONG_IF_FREE(counted_each_round)
  integer function counted_each_round() result(wrong)
    integer :: number, round
    wrong = 0
    do round = 1, rounds
      number = 0
!$omp parallel reduction(+:number) ! own
      number = number + 1
!$omp end parallel
      if (number /= threads) wrong = wrong + 1
    end do
  end function

  ! WRONG_IF_FREE(allocated_by_number)
  integer function allocated_by_number() result(wrong)
    integer, allocatable :: slots(:)
    integer :: round
    wrong = 0
    allocate(slots(0:omp_get_max_threads() - 1))
    do round = 1, rounds
!$omp parallel ! own
      slots(omp_get_thread_num()) = round
!$omp end parallel
      if (any(slots /= round)) wrong = wrong + 1
    end do
  end function

  subroutine automatic(number, round, wrong)
    integer, intent(in) :: number, round
    integer, intent(inout) :: wrong
    integer :: slots(0:number - 1)
    slots = 0
!$omp parallel ! own
    slots(omp_get_thread_num()) = round
!$omp end parallel
    if (any(slots /= round)) wrong = wrong + 1
  end subroutine

  ! WRONG_IF_FREE(automatic_by_number)
  integer function automatic_by_number() result(wrong)
    integer :: round
    wrong = 0
    do round = 1, rounds
      call automatic(omp_get_max_threads(), round, wrong)
    end do
  end function

  ! WRONG_IF_FREE(thread_data)
  integer function thread_data() result(wrong)
    integer :: round
    wrong = 0
!$omp parallel ! own
    kept = 5
!$omp end parallel
    do round = 1, rounds
!$omp parallel reduction(+:wrong) ! own
      if (any(kept /= 5)) wrong = wrong + 1
!$omp end parallel
    end do
  end function

  ! WRONG_IF_FREE(thread_data_half_written)
  integer function thread_data_half_written() result(wrong)
    integer :: round
    integer, save :: half(8)
!$omp threadprivate(half)
    wrong = 0
!$omp parallel ! own
    half = 5
!$omp end parallel
    do round = 1, rounds
!$omp parallel reduction(+:wrong) ! own
      half(1:4) = round
      if (sum(half) /= 4 * round + 20) wrong = wrong + 1
!$omp end parallel
    end do
  end function

  ! WRONG_IF_FREE(last_thread)
  integer function last_thread() result(wrong)
    integer :: round, ends, number
    wrong = 0
    number = omp_get_max_threads()
    do round = 1, rounds
      ends = 0
!$omp parallel shared(ends) ! own
      if (omp_get_thread_num() == number - 1) ends = 1
!$omp end parallel
      if (ends /= 1) wrong = wrong + 1
    end do
  end function

  ! CASE(same_region)
  integer function same_region() result(wrong)
    integer :: i, round
    wrong = 0
    do round = 1, rounds
!$omp parallel private(i) ! free
      do i = omp_get_thread_num() + 1, n, omp_get_num_threads()
        done(i) = done(i) + 1
      end do
!$omp end parallel
      wrong = wrong + undone()
    end do
  end function
end module

program cases
  use shared
  integer :: failed = 0
  character(len=64) :: word, wanted
  call get_command_argument(1, word)
  read (word, *) threads
  call get_command_argument(2, wanted)
  call try('asked', asked)
  call try('argument', argument)
  call try('module_variable', module_variable)
  call try('common_block', common_block)
  call try('counted', counted)
  call try('counted_each_round', counted_each_round)
  call try('allocated_by_number', allocated_by_number)
  call try('automatic_by_number', automatic_by_number)
  call try('thread_data', thread_data)
  call try('thread_data_half_written', thread_data_half_written)
  call try('last_thread', last_thread)
  call try('same_region', same_region)
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
