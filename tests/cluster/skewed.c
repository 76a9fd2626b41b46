/* A machine whose clock is off: preloaded, it shifts what programs in Python are told of the time by KODA_TEST_SKEW_S
 * seconds. Counts of time (CLOCK_MONOTONIC, CLOCK_BOOTTIME) are left alone, as they are where somebody sets a clock.
 * So is what others ask for, such as Ray's own library: they hand it to the kernel, to be woken then, whose clock is
 * right; a minute early they would never sleep, a minute late not wake. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int is_named_python(const char *path) {
    const char *name = strrchr(path, '/');
    name = name == NULL ? path : name + 1;
    return strncmp(name, "python", 6) == 0 || strncmp(name, "libpython", 9) == 0;
}

/* By where the call comes from; a program may have given itself another name since it was started. */
static int is_python(void *caller) {
    static void *python, *other; /* whoever asked last */
    Dl_info where, program;
    char path[4096];
    int is = 0;
    if (caller == python) return 1;
    if (caller == other) return 0;
    if (dladdr(caller, &where) != 0 && dladdr((void *)getauxval(AT_ENTRY), &program) != 0) {
        ssize_t length = where.dli_fbase == program.dli_fbase ? readlink("/proc/self/exe", path, sizeof path - 1) : -1;
        if (length > 0) path[length] = '\0';
        is = is_named_python(length > 0 ? path : where.dli_fname);
    }
    *(is ? &python : &other) = caller;
    return is;
}

static time_t skew(void *caller) {
    static time_t seconds;
    static int known;
    if (!known) {
        const char *said = getenv("KODA_TEST_SKEW_S");
        seconds = said == NULL ? 0 : (time_t)atol(said);
        known = 1;
    }
    return is_python(caller) ? seconds : 0;
}

static int told_as(clockid_t clock, struct timespec *told, void *caller) {
    int failed = (int)syscall(SYS_clock_gettime, clock, told);
    if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) told->tv_sec += skew(caller);
    return failed;
}

int clock_gettime(clockid_t clock, struct timespec *told) { return told_as(clock, told, __builtin_return_address(0)); }

int gettimeofday(struct timeval *restrict told, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int failed = told_as(CLOCK_REALTIME, &now, __builtin_return_address(0));
    if (failed == 0) {
        told->tv_sec = now.tv_sec;
        told->tv_usec = now.tv_nsec / 1000;
    }
    return failed;
}

time_t time(time_t *told) {
    struct timespec now;
    told_as(CLOCK_REALTIME, &now, __builtin_return_address(0));
    if (told != NULL) *told = now.tv_sec;
    return now.tv_sec;
}
