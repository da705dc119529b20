/* SPDX-License-Identifier: Apache-2.0 */
#include "helper.h"

#include "base/ofd_lock.h"
#include "base/str.h"

#include <errno.h>

/* Bytes of the file, far beyond its contents: the instances', the table's, the plugins', and three ranges of
 * hashed names to the end. Two names that meet in 60 bits only wait for each other. */
#define LOCK_TABLE (INT64_C(1) << 40)
#define LOCK_INSTANCE (LOCK_TABLE - HELPER_INSTANCES)
#define LOCK_PLUGINS (LOCK_TABLE + 1)
#define LOCK_ALLOC (INT64_C(1) << 60)
#define LOCK_VOLUME (INT64_C(1) << 61)
#define LOCK_PLUGIN (LOCK_VOLUME + LOCK_ALLOC)

static int64_t name_at(int64_t base, const char *name)
{
	return base + (int64_t)(str_hash(0, name) & (LOCK_ALLOC - 1));
}

/* Takes one of @n bytes. Returns its number, or -EAGAIN. */
static int lock_one_of(int fd, int64_t at, int n)
{
	int r = -EAGAIN;
	int i;

	for (i = 0; i < n && r == -EAGAIN; i++)
		r = ofd_lock(fd, at + i, 1, false);
	return r < 0 ? r : i - 1;
}

int lock_instance(int fd)
{
	return lock_one_of(fd, LOCK_INSTANCE, HELPER_INSTANCES);
}

int lock_plugin(int fd, const char *plugin)
{
	TRY_SYS(lock_one_of(fd, LOCK_PLUGINS, PLUGINS_INSTANCES));
	return lock_one_of(fd, name_at(LOCK_PLUGIN, plugin) & ~(int64_t)(PLUGIN_INSTANCES - 1),
			   PLUGIN_INSTANCES);
}

int lock_volume(int fd, const char *volume)
{
	assert(volume[0] != '\0');
	return ofd_lock(fd, name_at(LOCK_VOLUME, volume), 1, false);
}

int lock_alloc(int fd, const char *alloc)
{
	assert(alloc[0] != '\0');
	return ofd_lock(fd, name_at(LOCK_ALLOC, alloc), 1, true);
}

int lock_table(int fd)
{
	return ofd_lock(fd, LOCK_TABLE, 1, true);
}

void unlock_table(int fd)
{
	ofd_unlock(fd, LOCK_TABLE, 1);
}

void lock_release(int fd)
{
	ofd_unlock(fd, LOCK_TABLE, 0); /* to the end */
}
