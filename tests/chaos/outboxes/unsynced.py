"""
A Redis whose disk is known: what it has synced, or said to be synced, is there after `cut`, and nothing else.

A small library, for which it needs gcc, notes how long the append-only file was when a sync began that came to its end,
and when WAITAOF was answered. The second is for Valkey 9.1, and for Redis before redis/redis#13793: with `appendfsync
everysec` they answer before they sync. A power cut then loses what no protocol can know of.
"""

import mmap
import struct

from tests.support.redis_server import Server, compiled

#: notes in the file $SYNCED how long the append-only file was
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SAID "*2\r\n:1\r\n:0\r\n"

static volatile long long *synced;
static int file = -1;
static int (*real_sync)(int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);

__attribute__((constructor)) static void begin(void) {
  real_sync = dlsym(RTLD_NEXT, "fdatasync");
  real_write = dlsym(RTLD_NEXT, "write");
  real_writev = dlsym(RTLD_NEXT, "writev");
  synced = mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, open(getenv("SYNCED"), O_RDWR), 0);
}

static int is_file(int fd) {
  char link[64], path[4096] = {0};
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  return readlink(link, path, sizeof path - 1) > 0 && strstr(path, ".incr.aof");
}

static long long length(void) {
  struct stat now;
  return file >= 0 && !fstat(file, &now) ? now.st_size : 0;
}

static void note(long long safe) {
  if (safe > *synced) *synced = safe;
}

int fdatasync(int fd) {
  if (file < 0 && is_file(fd)) file = fd;
  long long before = fd == file ? length() : 0;
  int failed = real_sync(fd);
  if (!failed) note(before);
  return failed;
}

ssize_t write(int fd, const void *data, size_t size) {
  if (file < 0 && is_file(fd)) file = fd;
  if (fd != file && memmem(data, size, SAID, strlen(SAID))) note(length());
  return real_write(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  for (int i = 0; i < count; i++)
    if (memmem(parts[i].iov_base, parts[i].iov_len, SAID, strlen(SAID))) note(length());
  return real_writev(fd, parts, count);
}
"""


class SyncedServer(Server):
    """One of which something can be cut off."""

    def __init__(self, directory):
        super().__init__(directory)
        note = self.directory / "synced"
        note.write_bytes(bytes(8))
        with note.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        self.environment = {"LD_PRELOAD": compiled(SHIM, self.directory), "SYNCED": str(note)}

    def cut(self):
        """Kill it, and take from its file what is not safe; returns how many bytes."""
        self.kill()
        [file] = self.directory.glob("appendonlydir/*.incr.aof")
        (synced,) = struct.unpack("q", self._map[:])
        lost = file.stat().st_size - synced
        with file.open("r+b") as cut:
            cut.truncate(synced)
        return lost
