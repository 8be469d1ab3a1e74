! The constructs as gfortran emits them, while the team is resized. Each result equals that of the loop without OpenMP.
! gfortran uses symbols of its own for the library's functions. The last calls here make the program rigid.
program fortran
    use, intrinsic :: iso_c_binding
    use omp_lib
    implicit none
    integer, parameter :: long = c_int64_t
    integer, parameter :: n = 96
    integer :: round
    integer, save :: kept
    !$omp threadprivate(kept)

    interface
        subroutine resize_tick() bind(c)
        end subroutine
        subroutine resize_begin(pace) bind(c)
            import c_char
            character(kind=c_char), intent(in) :: pace(*)
        end subroutine
        subroutine resize_end() bind(c)
        end subroutine
    end interface

    call resize_begin("ticks" // c_null_char)
    do round = 1, 40
        call all_constructs()
    end do
    call resize_end()
    if (omp_get_max_threads() < 1) error stop 2
    if (omp_get_num_procs() < 1) error stop 2
    call omp_set_dynamic(.false.)
    call omp_set_dynamic(.false._8)
    call omp_set_num_threads(3)
    if (omp_get_max_threads() /= 3) error stop 3
    call omp_set_num_threads(2_8)
    if (omp_get_max_threads() /= 2) error stop 4
    call all_constructs()

contains
    function work(i) result(value)
        integer(long), intent(in) :: i
        integer(long) :: value
        call resize_tick()
        value = mod(i * 7919_long + 12345_long, 1000003_long)
    end function

    subroutine expect(name, found, wanted)
        character(*), intent(in) :: name
        integer(long), intent(in) :: found, wanted
        if (found /= wanted) then
            print *, name, ': ', found, ' and not ', wanted
            error stop 1
        end if
    end subroutine

    subroutine all_constructs()
        integer(long) :: i, j, total, text, wanted, wanted_text, last, cells(0:n), serial(0:n), parts(3)
        integer :: k

        wanted = 0
        wanted_text = 0
        serial(0) = 1
        do i = 1, n
            wanted = wanted + work(i)
            wanted_text = mod(wanted_text * 31 + work(i), 1000000007_long)
            serial(i) = mod(serial(i - 1) * 31 + work(i), 1000000007_long)
        end do

        total = 0
        !$omp parallel do reduction(+ : total)
        do i = 1, n
            total = total + work(i)
        end do
        call expect('do', total, wanted)

        total = 0
        !$omp parallel do schedule(dynamic) reduction(+ : total) lastprivate(last)
        do i = 1, n
            last = i
            total = total + work(i)
        end do
        call expect('dynamic', total + last, wanted + n)

        total = 0
        !$omp parallel
        !$omp do schedule(monotonic : dynamic, 3) reduction(+ : total)
        do i = n, 1, -1
            total = total + work(i)
        end do
        !$omp end do nowait
        !$omp do schedule(guided, 2) reduction(+ : total)
        do i = 1, n
            total = total + work(i)
        end do
        !$omp end do
        !$omp end parallel
        call expect('dynamic and guided', total, 2 * wanted)

        call omp_set_schedule(omp_sched_guided, 2)
        total = 0
        !$omp parallel do schedule(runtime) reduction(+ : total)
        do i = 1, n
            total = total + work(i)
        end do
        call omp_set_schedule(omp_sched_static, 2_8)
        !$omp parallel do schedule(runtime) reduction(+ : total)
        do i = 1, n
            total = total + work(i)
        end do
        call expect('runtime', total, 2 * wanted)

        total = 0
        !$omp parallel do collapse(2) schedule(dynamic) reduction(+ : total)
        do i = 0, n / 8 - 1
            do j = 1, 8
                total = total + work(i * 8 + j)
            end do
        end do
        call expect('collapse', total, wanted)

        text = 0
        !$omp parallel do ordered schedule(dynamic) private(last)
        do i = 1, n
            last = work(i)
            !$omp ordered
            text = mod(text * 31 + last, 1000000007_long)
            !$omp end ordered
        end do
        call expect('ordered', text, wanted_text)

        cells(0) = 1
        !$omp parallel do ordered(1) schedule(dynamic, 2)
        do i = 1, n
            !$omp ordered depend(sink : i - 1)
            cells(i) = mod(cells(i - 1) * 31 + work(i), 1000000007_long)
            !$omp ordered depend(source)
        end do
        call expect('doacross', cells(n), serial(n))

        !$omp parallel sections
        !$omp section
        parts(1) = work(1_long)
        !$omp section
        parts(2) = work(2_long)
        !$omp section
        parts(3) = work(3_long)
        !$omp end parallel sections
        call expect('sections', sum(parts), work(1_long) + work(2_long) + work(3_long))

        cells = 0
        !$omp parallel workshare
        cells = cells + 2
        cells = cells * 3
        !$omp end parallel workshare
        call expect('workshare', sum(cells), 6_long * (n + 1))

        total = 0
        !$omp parallel
        !$omp single
        !$omp taskloop reduction(+ : total)
        do i = 1, n
            total = total + work(i)
        end do
        !$omp end taskloop
        !$omp end single
        !$omp end parallel
        call expect('taskloop', total, wanted)

        kept = 7
        total = 0
        !$omp parallel copyin(kept) reduction(+ : total)
        total = total + kept - 7
        !$omp do schedule(dynamic)
        do k = 1, n
            total = total + kept
        end do
        !$omp end parallel
        call expect('copyin', total, 7_long * n)
    end subroutine
end program
