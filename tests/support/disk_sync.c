/* SPDX-License-Identifier: Apache-2.0 */
#include "disk_sync.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static struct {
	const char *suffix;
	bool is_held;
	int error;
	unsigned int delay_ms;
	unsigned int waits;
} disk;

static bool is_watched(int fd)
{
	char link[64];
	char path[4096];
	ssize_t n;
	size_t n_suffix = disk.suffix ? strlen(disk.suffix) : 0;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path));
	return n_suffix > 0 && n >= (ssize_t)n_suffix &&
	       memcmp(path + n - n_suffix, disk.suffix, n_suffix) == 0;
}

int fdatasync(int fd) /* in the place of libc's */
{
	unsigned int delay_ms = 0;
	int error = 0;

	(void)pthread_mutex_lock(&lock);
	if (is_watched(fd)) {
		disk.waits++;
		while (disk.is_held)
			(void)pthread_cond_wait(&released, &lock);
		error = disk.error;
		delay_ms = disk.delay_ms;
	}
	(void)pthread_mutex_unlock(&lock);
	(void)poll(NULL, 0, (int)delay_ms);
	if (error == 0)
		return (int)syscall(SYS_fdatasync, fd);
	errno = error;
	return -1;
}

void disk_sync_watch(const char *suffix)
{
	(void)pthread_mutex_lock(&lock);
	disk.suffix = suffix;
	disk.waits = 0;
	disk.delay_ms = 0;
	(void)pthread_mutex_unlock(&lock);
}

static void set(bool is_held, int error)
{
	(void)pthread_mutex_lock(&lock);
	disk.is_held = is_held;
	disk.error = error;
	(void)pthread_cond_broadcast(&released);
	(void)pthread_mutex_unlock(&lock);
}

void disk_sync_hold(void)
{
	set(true, 0);
}

void disk_sync_release(void)
{
	set(false, 0);
}

void disk_sync_delay(unsigned int ms)
{
	(void)pthread_mutex_lock(&lock);
	disk.delay_ms = ms;
	(void)pthread_mutex_unlock(&lock);
}

void disk_sync_fail(int error)
{
	set(false, error);
}

unsigned int disk_sync_waits(void)
{
	unsigned int waits;

	(void)pthread_mutex_lock(&lock);
	waits = disk.waits;
	(void)pthread_mutex_unlock(&lock);
	return waits;
}
