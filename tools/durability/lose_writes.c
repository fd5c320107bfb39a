/* A disk that loses what was not synced, as an LD_PRELOAD library: `run.py` loads it into rot.
 *
 * Data and names reach the disk by fsync of a file and of a folder. At the LOSE_AT-th call that changes a file below
 * LOSE_BELOW, the power fails: every file keeps what was synced and, by chance (LOSE_SEED), none of the rest, a part of it,
 * or zeros in its place; renames whose folder was not synced are undone or kept by chance; then the process is killed.
 * LOSE_COUNT names a file to which the number of calls is written at the end of a process that lives.
 *
 * Streams of bytes from the start of a file are modelled, as rot writes them: no seeking back and no memory maps. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST = 4096 };

struct file {
    dev_t device;
    ino_t inode;
    off_t synced;
};

struct rename_pending {
    char from[PATH_MAX], to[PATH_MAX], replaced[PATH_MAX];
    int had_target;
};

static struct file files[MOST];
static struct rename_pending renames[64];
static int file_count, rename_count;
static long calls, lose_at;
static unsigned seed;
static const char *below;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int (*real_fsync)(int), (*real_rename)(const char *, const char *), (*real_ftruncate)(int, off_t);
static ssize_t (*real_write)(int, const void *, size_t), (*real_writev)(int, const struct iovec *, int);

__attribute__((constructor)) static void start(void) {
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_write = dlsym(RTLD_NEXT, "write");
    real_writev = dlsym(RTLD_NEXT, "writev");
    below = getenv("LOSE_BELOW");
    const char *at = getenv("LOSE_AT"), *from = getenv("LOSE_SEED");
    lose_at = at ? atol(at) : 0;
    seed = from ? (unsigned)atol(from) : 1;
}

__attribute__((destructor)) static void end(void) {
    const char *name = getenv("LOSE_COUNT");
    FILE *out = name ? fopen(name, "w") : NULL;
    if (out) {
        fprintf(out, "%ld\n", calls);
        fclose(out);
    }
}

static unsigned chance(unsigned outcomes) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 16) % outcomes;
}

static int is_below(const char *path) {
    return below && strncmp(path, below, strlen(below)) == 0;
}

/* The path of an open file; whether it is below LOSE_BELOW. */
static int path_of(int descriptor, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

/* What is known of an open regular file; a new one has nothing synced, an old one all of it. */
static struct file *known(int descriptor, off_t synced) {
    struct stat status;
    if (fstat(descriptor, &status) || !S_ISREG(status.st_mode)) return NULL;
    for (int i = 0; i < file_count; i++)
        if (files[i].device == status.st_dev && files[i].inode == status.st_ino) return &files[i];
    if (file_count == MOST) abort();
    files[file_count] = (struct file){status.st_dev, status.st_ino, synced < 0 ? status.st_size : synced};
    return &files[file_count++];
}

static void lose_of(const char *path) {
    struct stat status;
    if (stat(path, &status)) return;
    for (int i = 0; i < file_count; i++) {
        struct file *file = &files[i];
        if (file->device != status.st_dev || file->inode != status.st_ino || status.st_size <= file->synced) continue;
        off_t rest = status.st_size - file->synced;
        unsigned fate = chance(3);
        if (truncate(path, fate == 1 ? file->synced + rest / 2 : file->synced)) abort();
        if (fate == 2 && truncate(path, status.st_size)) abort();
    }
}

static void lose_below(const char *folder) {
    char command[PATH_MAX + 64];
    snprintf(command, sizeof command, "find '%s' -type f", folder);
    unsetenv("LD_PRELOAD");
    FILE *list = popen(command, "r");
    char path[PATH_MAX];
    while (list && fgets(path, sizeof path, list)) {
        path[strcspn(path, "\n")] = 0;
        lose_of(path);
    }
    if (list) pclose(list);
}

static void fail_power(void) {
    lose_below(below);
    while (rename_count > 0) {
        struct rename_pending *last = &renames[--rename_count];
        if (chance(2)) {
            real_rename(last->to, last->from);
            if (last->had_target) real_rename(last->replaced, last->to);
        }
    }
    kill(getpid(), SIGKILL);
    pause();
}

static void count(void) {
    if (++calls == lose_at) fail_power();
}

static void before_write(int descriptor) {
    char path[PATH_MAX];
    if (descriptor > 2 && path_of(descriptor, path)) {
        pthread_mutex_lock(&lock);
        known(descriptor, -1);
        count();
        pthread_mutex_unlock(&lock);
    }
}

ssize_t write(int descriptor, const void *bytes, size_t size) {
    before_write(descriptor);
    return real_write(descriptor, bytes, size);
}

ssize_t writev(int descriptor, const struct iovec *parts, int parts_count) {
    before_write(descriptor);
    return real_writev(descriptor, parts, parts_count);
}

int ftruncate64(int descriptor, off_t size) {
    before_write(descriptor);
    return real_ftruncate(descriptor, size);
}

int fsync(int descriptor) {
    char path[PATH_MAX];
    if (!path_of(descriptor, path)) return real_fsync(descriptor);
    pthread_mutex_lock(&lock);
    count();
    struct stat status;
    if (fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
        for (int i = 0; i < rename_count; i++)
            if (renames[i].had_target) unlink(renames[i].replaced);
        rename_count = 0;
    } else {
        struct file *file = known(descriptor, -1);
        if (file) file->synced = status.st_size;
    }
    pthread_mutex_unlock(&lock);
    return 0; /* Nothing fails here but by fail_power, and syncing for real would only take time. */
}

int fdatasync(int descriptor) { return fsync(descriptor); }

int rename(const char *from, const char *to) {
    if (!is_below(to)) return real_rename(from, to);
    pthread_mutex_lock(&lock);
    count();
    if (rename_count == 64) abort();
    struct rename_pending *next = &renames[rename_count];
    snprintf(next->from, PATH_MAX, "%s", from);
    snprintf(next->to, PATH_MAX, "%s", to);
    snprintf(next->replaced, PATH_MAX, "%.4000s.lost%ld", to, calls);
    next->had_target = link(to, next->replaced) == 0;
    int failed = real_rename(from, to);
    if (!failed) rename_count++;
    pthread_mutex_unlock(&lock);
    return failed;
}
