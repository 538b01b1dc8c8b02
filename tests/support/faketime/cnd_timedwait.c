/*
 * Completes Debian's libfaketime, which does not know cnd_timedwait(), by which librdkafka waits
 * until a moment of the wall clock: with the real one such a wait ends at once when the faked clock
 * is behind, and never when it is ahead. As in the kernel, a wait follows a clock that is set.
 *
 * Preload it before libfaketime, whose clock_gettime() it asks. tests/broker/chaos/clock.rs
 * compiles it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* How soon a wait notices that the clock was set. */
static const long long SLICE_NS = 20000000;
static const long long SECOND_NS = 1000000000;

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
    static int (*real)(cnd_t *, mtx_t *, const struct timespec *);
    if (!real)
        real = (int (*)(cnd_t *, mtx_t *, const struct timespec *))dlsym(RTLD_NEXT, "cnd_timedwait");
    for (;;) {
        struct timespec now, slice;
        clock_gettime(CLOCK_REALTIME, &now);
        long long left = (until->tv_sec - now.tv_sec) * SECOND_NS + until->tv_nsec - now.tv_nsec;
        if (left <= 0)
            return thrd_timedout;
        /* Not libfaketime's: the clock of the machine. */
        syscall(SYS_clock_gettime, CLOCK_REALTIME, &slice);
        slice.tv_nsec += left < SLICE_NS ? left : SLICE_NS;
        if (slice.tv_nsec >= SECOND_NS) {
            slice.tv_nsec -= SECOND_NS;
            slice.tv_sec++;
        }
        int result = real(condition, mutex, &slice);
        if (result != thrd_timedout)
            return result;
    }
}
