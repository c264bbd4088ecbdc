// Loaded into a child process by LD_PRELOAD. Makes calls that change files below a directory fail, as on a full disk, a
// read-only file system or without permission. Nothing is really synced.
//
//   FAULT_ROOT     the directory that is watched
//   FAULT_ERRNO    how calls fail
//   FAULT_WORD     only files whose path holds this word fail
//   FAULT_CALLS    how many calls succeed before all others fail
//   FAULT_BYTES    how many bytes are written before the disk is full; the last write before that is cut short
//   FAULT_TRIPPED  a file that is made when the first call fails; calls fail from then on, until it is deleted
//   FAULT_WAIT_MS  how long the first call that fails takes to do so, and all others wait for it
//
// Calls fail from the start if neither FAULT_CALLS nor FAULT_BYTES is given.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long calls, bytes;

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static int needs_space(void) { return number("FAULT_ERRNO", ENOSPC) == ENOSPC; }

static int is_watched(const char *path) {
    const char *root = getenv("FAULT_ROOT"), *word = getenv("FAULT_WORD");
    return root && !strncmp(path, root, strlen(root)) && (!word || strstr(path, word));
}

// The path of a file that is named by a folder that is open: /proc/self/fd/N/name.
static const char *resolve(const char *path, char *resolved) {
    char link[64], *rest;
    if (strncmp(path, "/proc/self/fd/", 14)) return path;
    snprintf(link, sizeof link, "/proc/self/fd/%ld", strtol(path + 14, &rest, 10));
    ssize_t length = readlink(link, resolved, PATH_MAX - 1);
    if (length <= 0) return path;
    snprintf(resolved + length, PATH_MAX - length, "%s", rest);
    return resolved;
}

static int is_full(void) {
    if (getenv("FAULT_BYTES")) return bytes >= number("FAULT_BYTES", 0);
    return calls >= number("FAULT_CALLS", 0);
}

static void trip(void) {
    int file = syscall(SYS_openat, AT_FDCWD, getenv("FAULT_TRIPPED"), O_CREAT | O_WRONLY, 0666);
    if (file >= 0) syscall(SYS_close, file);
}

// Whether a call on a path may go on; if it writes, how much of it.
static int may(const char *path, size_t *count) {
    char resolved[PATH_MAX];
    if (!is_watched(resolve(path, resolved))) return 1;
    pthread_mutex_lock(&lock);
    static int tripped;
    // Once what had filled the disk is gone, there is room.
    int is_freed = tripped && access(getenv("FAULT_TRIPPED"), F_OK);
    int fails = !is_freed && (tripped || is_full());
    if (!fails) {
        calls += 1;
        long room = number("FAULT_BYTES", LONG_MAX) - bytes;
        if (count && !is_freed && (long)*count > room) *count = room;
        if (count) bytes += *count;
    }
    if (fails && !tripped) {
        tripped = 1;
        trip();
        usleep(1000 * number("FAULT_WAIT_MS", 0));
    }
    pthread_mutex_unlock(&lock);
    if (fails) errno = number("FAULT_ERRNO", ENOSPC);
    return !fails;
}

// What is open already goes on working, but on a full disk.
static int may_fd(int descriptor, size_t *count) {
    if (!needs_space()) return 1;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 1;
    path[length] = 0;
    return may(path, count);
}

ssize_t write(int descriptor, const void *from, size_t count) {
    if (!may_fd(descriptor, &count)) return -1;
    return NEXT(write)(descriptor, from, count);
}

int ftruncate64(int descriptor, off64_t length) {
    struct stat status;
    fstat(descriptor, &status);
    // Space can be given back on a full disk.
    if (length > status.st_size && !may_fd(descriptor, NULL)) return -1;
    return NEXT(ftruncate64)(descriptor, length);
}

int fallocate64(int descriptor, int mode, off64_t at, off64_t length) {
    if (!may_fd(descriptor, NULL)) return -1;
    return NEXT(fallocate64)(descriptor, mode, at, length);
}

int fsync(int descriptor) { return may_fd(descriptor, NULL) ? 0 : -1; }
int fdatasync(int descriptor) { return may_fd(descriptor, NULL) ? 0 : -1; }

int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    int makes = (flags & O_CREAT) && access(path, F_OK);
    int writes = (flags & O_ACCMODE) != O_RDONLY;
    // On a full disk, files that are there can be opened.
    int matters = needs_space() ? makes : makes || writes;
    if (matters && !may(path, NULL)) return -1;
    return NEXT(open64)(path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
    if (access(path, F_OK) && !may(path, NULL)) return -1;
    return NEXT(mkdir)(path, mode);
}

int rename(const char *from, const char *to) {
    if (!may(to, NULL)) return -1;
    return NEXT(rename)(from, to);
}

int unlink(const char *path) {
    if (!needs_space() && !may(path, NULL)) return -1;
    return NEXT(unlink)(path);
}
