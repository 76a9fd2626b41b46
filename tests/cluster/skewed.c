/* A machine whose clock is off: preloaded, it shifts what processes are told of the time by KODA_TEST_SKEW_S seconds.
 * Counts of time (CLOCK_MONOTONIC, CLOCK_BOOTTIME) are left alone, as they are where somebody sets a clock. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t skew(void) {
    static time_t seconds;
    static int known;
    if (!known) {
        const char *said = getenv("KODA_TEST_SKEW_S");
        seconds = said == NULL ? 0 : (time_t)atol(said);
        known = 1;
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *told) {
    int failed = (int)syscall(SYS_clock_gettime, clock, told);
    if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) told->tv_sec += skew();
    return failed;
}

int gettimeofday(struct timeval *restrict told, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    if (failed == 0) {
        told->tv_sec = now.tv_sec;
        told->tv_usec = now.tv_nsec / 1000;
    }
    return failed;
}

time_t time(time_t *told) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (told != NULL) *told = now.tv_sec;
    return now.tv_sec;
}
