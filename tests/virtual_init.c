/* The first process of a virtual machine of tests (virtual.py): the files of the machine around it, read-only, with what
   is written kept in memory, under this kernel and with control groups of version 2 alone; then the script /script on
   the console. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(long done, const char *what) {
  if (done >= 0) return;
  fprintf(stderr, "init: %s: %s\n", what, strerror(errno));
  reboot(RB_POWER_OFF);
}

static void put(const char *source, const char *kind, const char *where, const char *options) {
  mkdir(where, 0755);
  must(mount(source, where, kind, 0, options), where);
}

static char script[65536];

int main(void) {
  char module[256];
  int file = open("/script", O_RDONLY);
  must(read(file, script, sizeof script - 1), "/script");
  close(file);
  FILE *modules = fopen("/modules", "r");
  while (modules && fgets(module, sizeof module, modules)) {
    module[strcspn(module, "\n")] = 0;
    file = open(module, O_RDONLY);
    must(file, module);
    must(syscall(SYS_finit_module, file, "", 0), module);
    close(file);
  }
  put("around", "9p", "/around", "trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro");
  put("written", "tmpfs", "/written", "");
  mkdir("/written/upper", 0755);
  mkdir("/written/work", 0755);
  put("root", "overlay", "/root", "lowerdir=/around,upperdir=/written/upper,workdir=/written/work");
  /* a process whose root is not that of its mounts may make no user namespace */
  must(chdir("/root"), "chdir");
  must(mount(".", "/", NULL, MS_MOVE, NULL), "move");
  must(chroot("."), "chroot");
  must(chdir("/"), "chdir");
  put("proc", "proc", "/proc", "");
  put("sysfs", "sysfs", "/sys", "");
  put("cgroup2", "cgroup2", "/sys/fs/cgroup", "");
  put("devtmpfs", "devtmpfs", "/dev", "");
  put("devpts", "devpts", "/dev/pts", "mode=620,ptmxmode=666");
  put("shm", "tmpfs", "/dev/shm", "mode=1777");
  put("tmp", "tmpfs", "/tmp", "mode=1777");
  put("run", "tmpfs", "/run", "");
  must(symlink("/proc/self/fd", "/dev/fd"), "/dev/fd");
  if (fork() == 0) {
    int console = open("/dev/ttyS0", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(console, fd);
    execl("/bin/sh", "sh", "-c", script, NULL);
    _exit(127);
  }
  while (wait(NULL) > 0) continue;
  reboot(RB_POWER_OFF);
}
