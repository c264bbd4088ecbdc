// Loaded into a child process by LD_PRELOAD. Takes the place of fsync and fdatasync: keeps beside the real directory
// a shadow that holds only what was synced, as a disk would after a power cut.
//
//   POWER_REAL    the directory that is watched
//   POWER_SHADOW  names/<path> holds an inode number, inodes/<number> the contents at its last sync,
//                 calls one byte for each call
//   POWER_SYNCS   the power fails instead of the call after so many
//   POWER_FAIL    the sync of a journal after so many fails, once. As on Linux, what it should have made safe is then lost,
//                 although it can be read and later syncs succeed: only pages that are written again become safe.
//                 lost/<number> has a byte for each page of such a file
//
// Contents become safe when their file is synced, and with them the name that the file has then (as on ext4).
// New, renamed and deleted names become safe when their directory is synced. Shadow files are replaced by
// renaming, so that whenever the process is killed the shadow is as after the last sync or the one before.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

#define PAGE 4096

static const char *real_root(void) { return getenv("POWER_REAL"); }
static const char *shadow_root(void) { return getenv("POWER_SHADOW"); }

static void make_parents(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
}

static int open_lost(ino_t inode, int flags) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/lost", shadow_root());
    if (flags & O_CREAT) mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/lost/%lu", shadow_root(), (unsigned long)inode);
    return open(path, flags, 0666);
}

// Puts back what was safe before, where a page of a file was lost.
static void put_back(int to, const char *safe, int lost) {
    char is_lost, page[PAGE];
    int from = open(safe, O_RDONLY);
    for (off_t number = 0; pread(lost, &is_lost, 1, number) == 1; number++) {
        if (!is_lost) continue;
        memset(page, 0, PAGE);
        if (from >= 0 && pread(from, page, PAGE, number * PAGE) < 0) abort();
        if (pwrite(to, page, PAGE, number * PAGE) != PAGE) abort();
    }
    if (from >= 0) close(from);
}

static void replace(const char *path, int from, const char *text, int lost) {
    char temporary[PATH_MAX], parents[PATH_MAX];
    snprintf(temporary, sizeof temporary, "%s/temporary", shadow_root());
    int to = open(temporary, O_CREAT | O_TRUNC | O_WRONLY, 0666);
    if (text) {
        if (write(to, text, strlen(text)) < 0) abort();
    } else {
        struct stat status;
        fstat(from, &status);
        if (ftruncate(to, status.st_size) < 0) abort();
        off_t at = 0;
        while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
            off_t end = lseek(from, at, SEEK_HOLE), target = at;
            while (at < end) {
                if (copy_file_range(from, &at, to, &target, end - at, 0) <= 0) abort();
            }
        }
        if (lost >= 0) put_back(to, path, lost);
    }
    close(to);
    snprintf(parents, sizeof parents, "%s", path);
    make_parents(parents);
    rename(temporary, path);
}

static void keep_name(const char *relative, ino_t inode) {
    char path[PATH_MAX], text[32];
    snprintf(path, sizeof path, "%s/names%s", shadow_root(), relative);
    snprintf(text, sizeof text, "%lu", (unsigned long)inode);
    replace(path, -1, text, -1);
}

static void keep_contents(const char *real, const char *relative, ino_t inode) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/inodes/%lu", shadow_root(), (unsigned long)inode);
    int from = open(real, O_RDONLY);
    if (from < 0) return;
    int lost = open_lost(inode, O_RDONLY);
    replace(path, from, NULL, lost);
    if (lost >= 0) close(lost);
    close(from);
    keep_name(relative, inode);
}

static void forget(const char *path) {
    char command[PATH_MAX];
    DIR *directory = opendir(path);
    if (directory) {
        for (struct dirent *entry; (entry = readdir(directory));) {
            if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
            snprintf(command, sizeof command, "%s/%s", path, entry->d_name);
            forget(command);
        }
        closedir(directory);
        rmdir(path);
    } else {
        unlink(path);
    }
}

static void keep_names(const char *real, const char *relative) {
    char shadow[PATH_MAX], path[PATH_MAX], below[PATH_MAX];
    struct stat status;
    snprintf(shadow, sizeof shadow, "%s/names%s/.", shadow_root(), relative);
    make_parents(shadow);
    DIR *directory = opendir(real);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(path, sizeof path, "%s/%s", real, entry->d_name);
        snprintf(below, sizeof below, "%s/%s", relative, entry->d_name);
        if (lstat(path, &status)) continue;
        if (S_ISDIR(status.st_mode)) {
            snprintf(path, sizeof path, "%s/names%s", shadow_root(), below);
            mkdir(path, 0777);
        } else {
            keep_name(below, status.st_ino);
        }
    }
    if (directory) closedir(directory);
    directory = opendir(shadow);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(path, sizeof path, "%s/%s", real, entry->d_name);
        if (lstat(path, &status)) {
            snprintf(path, sizeof path, "%s/names%s/%s", shadow_root(), relative, entry->d_name);
            forget(path);
        }
    }
    if (directory) closedir(directory);
}

// The sync of a file fails: whatever is not safe yet is lost.
static void lose(const char *real, ino_t inode) {
    char path[PATH_MAX], now[PAGE], safe[PAGE];
    snprintf(path, sizeof path, "%s/inodes/%lu", shadow_root(), (unsigned long)inode);
    int file = open(real, O_RDONLY), kept = open(path, O_RDONLY), lost = open_lost(inode, O_CREAT | O_RDWR);
    for (off_t number = 0;; number++) {
        memset(now, 0, PAGE);
        memset(safe, 0, PAGE);
        if (pread(file, now, PAGE, number * PAGE) <= 0) break;
        if (kept >= 0 && pread(kept, safe, PAGE, number * PAGE) < 0) abort();
        char differs = memcmp(now, safe, PAGE) != 0;
        if (pwrite(lost, &differs, 1, number) != 1) abort();
    }
    close(file);
    if (kept >= 0) close(kept);
    close(lost);
}

// Pages that are written again become safe with the next sync.
static void regain(int descriptor, off_t at, ssize_t count) {
    struct stat status;
    if (count <= 0 || !getenv("POWER_FAIL") || fstat(descriptor, &status) || !S_ISREG(status.st_mode)) return;
    pthread_mutex_lock(&lock);
    int lost = open_lost(status.st_ino, O_RDWR);
    char is_lost = 0;
    for (off_t number = at / PAGE; lost >= 0 && number * PAGE < at + count; number++) {
        if (pwrite(lost, &is_lost, 1, number) != 1) abort();
    }
    if (lost >= 0) close(lost);
    pthread_mutex_unlock(&lock);
}

ssize_t write(int descriptor, const void *from, size_t count) {
    ssize_t (*next)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    off_t at = lseek(descriptor, 0, SEEK_CUR);
    ssize_t written = next(descriptor, from, count);
    if (at >= 0) regain(descriptor, at, written);
    return written;
}

ssize_t pwrite64(int descriptor, const void *from, size_t count, off64_t at) {
    ssize_t (*next)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    ssize_t written = next(descriptor, from, count, at);
    regain(descriptor, at, written);
    return written;
}

static int fails(const char *real) {
    static long journals;
    const char *end = strrchr(real, '.');
    return getenv("POWER_FAIL") && end && !strcmp(end, ".jnl") && journals++ == atol(getenv("POWER_FAIL"));
}

static int sync_file(int descriptor, const char *call) {
    char link[64], real[PATH_MAX], calls[PATH_MAX];
    struct stat status;
    if (!real_root() || !shadow_root()) return 0;
    pthread_mutex_lock(&lock);
    static long count;
    if (getenv("POWER_SYNCS") && ++count > atol(getenv("POWER_SYNCS"))) _exit(137);
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, real, sizeof real - 1);
    size_t root = strlen(real_root());
    if (length > 0) real[length] = 0;
    if (length > 0 && !strncmp(real, real_root(), root) && !fstat(descriptor, &status)) {
        const char *relative = real + root;
        if (S_ISREG(status.st_mode) && fails(real)) {
            lose(real, status.st_ino);
            pthread_mutex_unlock(&lock);
            errno = EIO;
            return -1;
        }
        if (S_ISDIR(status.st_mode)) keep_names(real, relative);
        else if (status.st_nlink > 0) keep_contents(real, relative, status.st_ino);
    }
    snprintf(calls, sizeof calls, "%s/calls", shadow_root());
    int counter = open(calls, O_CREAT | O_APPEND | O_WRONLY, 0666);
    if (write(counter, call, 1) < 0) abort();
    close(counter);
    pthread_mutex_unlock(&lock);
    return 0;
}

int fsync(int descriptor) { return sync_file(descriptor, "f"); }
int fdatasync(int descriptor) { return sync_file(descriptor, "d"); }
