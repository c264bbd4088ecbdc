// Loaded into a child process by LD_PRELOAD. Makes reads from files fail with EIO, as on a device with bad sectors.
//
//   READ_FAULTS  a file with one word to a line; reads from files whose path holds one of the words fail. It is looked at
//                before each read, so that faults come and go.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int fails(int descriptor) {
    const char *list = getenv("READ_FAULTS");
    char link[64], path[PATH_MAX], words[4096];
    if (!list) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    int file = syscall(SYS_openat, AT_FDCWD, list, O_RDONLY);
    if (file < 0) return 0;
    ssize_t count = syscall(SYS_read, file, words, sizeof words - 1);
    syscall(SYS_close, file);
    if (count <= 0) return 0;
    words[count] = 0;
    char *rest;
    for (char *word = strtok_r(words, "\n", &rest); word; word = strtok_r(NULL, "\n", &rest))
        if (strstr(path, word)) {
            errno = EIO;
            return 1;
        }
    return 0;
}

ssize_t read(int descriptor, void *to, size_t count) {
    return fails(descriptor) ? -1 : NEXT(read)(descriptor, to, count);
}

ssize_t pread64(int descriptor, void *to, size_t count, off64_t at) {
    return fails(descriptor) ? -1 : NEXT(pread64)(descriptor, to, count, at);
}
