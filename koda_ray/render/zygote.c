/* A program that is loaded once and copied at need: what it does before its main, it need not do again.

   Loaded before it, this takes the place of what the C library calls main by. It waits on a socket; each message there is
   the number of words of a command line, these, and an environment, with four descriptors: the folder to work in, and the
   three that every program has. What answers is a process like any other that was started, a child of whoever started
   this one, with that process's number as the reply; without a word it only answers. It ends with the socket.

   Source: clone(2), prctl(2), proc(5). */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DESCRIPTORS 4
#define MOST_BYTES (1 << 17) /* of a message; who asks knows these two */
#define MOST_WORDS (1 << 13)
#define NAME_BYTES 16
#define LAST_FIELD 47 /* of /proc/self/stat, counted from 1 as proc(5) does */
#define SIBLING 0x00008000ull    /* CLONE_PARENT */
#define TELL_NUMBER 0x01000000ull /* CLONE_CHILD_SETTID */
#define CLEAR_NUMBER 0x00200000ull /* CLONE_CHILD_CLEARTID */

typedef int main_function(int, char **, char **);
typedef void hook(void);

static main_function *theirs;
static int control = -1;
static char name[NAME_BYTES];
static char said[MOST_BYTES + 1];
static char *words[MOST_WORDS + 2]; /* each of the two lists ends with a null */

/* The one thread there is; where a program has begun more, a copy of it would lack them. */
static int alone(void) {
    int threads = 0;
    DIR *folder = opendir("/proc/self/task");
    if (!folder) return 0;
    for (struct dirent *entry; (entry = readdir(folder));) threads += entry->d_name[0] != '.';
    closedir(folder);
    return threads == 1;
}

/* Has the kernel show what was said, in /proc and so in ps. Where it will not, what was there before is shown. */
static void show(const char *line, const char *environment, const char *end) {
    struct prctl_mm_map map = {.exe_fd = (uint32_t)-1};
    unsigned long long at[LAST_FIELD + 1] = {0};
    char text[4096];
    int stat = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t length = stat < 0 ? -1 : read(stat, text, sizeof text - 1);
    if (stat >= 0) close(stat);
    if (length <= 0) return;
    text[length] = 0;
    char *rest = strrchr(text, ')'); /* the name before it may hold anything */
    for (int field = 3; rest && field <= LAST_FIELD; field++) {
        if (!(rest = strchr(rest, ' '))) return;
        at[field] = strtoull(++rest, NULL, 10);
    }
    map.start_code = at[26], map.end_code = at[27], map.start_stack = at[28];
    map.start_data = at[45], map.end_data = at[46];
    map.start_brk = at[47], map.brk = (uint64_t)(uintptr_t)sbrk(0);
    map.arg_start = (uint64_t)(uintptr_t)line, map.arg_end = (uint64_t)(uintptr_t)environment;
    map.env_start = map.arg_end, map.env_end = (uint64_t)(uintptr_t)end;
    prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
}

/* As fork, but beside this process and not below it. The C library notes a thread's number, and gets the new one. */
static pid_t copy(void) {
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    } how = {.flags = SIBLING | TELL_NUMBER | CLEAR_NUMBER};
    if (prctl(PR_GET_TID_ADDRESS, &how.child_tid, 0, 0, 0)) return -1;
    return (pid_t)syscall(SYS_clone3, &how, sizeof how);
}

/* Where nobody is there to hear it, nobody would wait for this process either. */
static void tell(int32_t number) {
    if (send(control, &number, sizeof number, MSG_NOSIGNAL) != sizeof number) _exit(1);
}

/* What a copy does; it says its number itself, once it is what it was asked to be. */
static int begin(const int *given, size_t size) {
    uint32_t count, number = 0;
    int failed = fchdir(given[0]);
    for (int i = 1; i < DESCRIPTORS; i++) failed |= dup2(given[i], i - 1) < 0;
    for (int i = 0; i < DESCRIPTORS; i++) close(given[i]);
    char *line = said + sizeof count, *end = said + size, *at = line, *environment = line;
    memcpy(&count, said, sizeof count);
    for (; at < end && !failed; at += strlen(at) + 1) {
        failed = number == MOST_WORDS;
        words[number + (number >= count)] = at;
        if (++number == count) environment = at + strlen(at) + 1;
    }
    environ = words + count + 1;
    prctl(PR_SET_NAME, name);
    show(line, environment, end);
    tell(getpid());
    close(control);
    if (failed || !count) _exit(failed ? 127 : 0);
    return theirs((int)count, words, environ);
}

static int serve(int count, char **line, char **environment) {
    (void)count, (void)line, (void)environment;
    prctl(PR_GET_NAME, name);
    prctl(PR_SET_NAME, "koda-zygote");
    if (!alone()) _exit(1);
    tell(0);
    for (;;) {
        int given[DESCRIPTORS];
        union {
            char bytes[CMSG_SPACE(sizeof given)];
            struct cmsghdr head;
        } beside;
        struct iovec part = {said, MOST_BYTES};
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = beside.bytes, .msg_controllen = sizeof beside};
        ssize_t size;
        while ((size = recvmsg(control, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) continue;
        struct cmsghdr *head = size >= (ssize_t)sizeof(uint32_t) ? CMSG_FIRSTHDR(&message) : NULL;
        if (!head || head->cmsg_len != CMSG_LEN(sizeof given) || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) _exit(0);
        memcpy(given, CMSG_DATA(head), sizeof given);
        said[size] = 0;
        pid_t number = copy();
        if (number == 0) return begin(given, (size_t)size);
        if (number < 0) _exit(1);
        for (int i = 0; i < DESCRIPTORS; i++) close(given[i]);
    }
}

int __libc_start_main(
    main_function *main, int count, char **line, hook *before, hook *after, hook *unload, void *stack) {
    int (*next)(main_function *, int, char **, hook *, hook *, hook *, void *) =
        (__typeof__(next))dlsym(RTLD_NEXT, "__libc_start_main");
    const char *descriptor = getenv("ZYGOTE_FD"), *library = getenv("ZYGOTE_LIBRARY_FD");
    if (descriptor && library) {
        control = atoi(descriptor);
        close(atoi(library)); /* it is loaded */
        unsetenv("ZYGOTE_FD");
        unsetenv("ZYGOTE_LIBRARY_FD");
        unsetenv("LD_PRELOAD");
        theirs = main;
        main = serve;
    }
    return next(main, count, line, before, after, unload, stack);
}
