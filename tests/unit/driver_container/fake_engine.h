/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A socket of an engine, and a thread that serves it. */

#include "folder.h"
#include "unit.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

struct fake {
	const char *answer; /* of the engine; NULL: none */
	size_t repeat;	    /* of junk behind it */
	int fd;
	pthread_t thread;
	char folder[FOLDER_SIZE], path[FOLDER_SIZE + 16];
};

static inline void fake_begin(struct fake *fake, void *(*serve)(void *fake))
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	folder_make(fake->folder);
	(void)snprintf(fake->path, sizeof(fake->path), "%s/engine", fake->folder);
	(void)str_copy(address.sun_path, sizeof(address.sun_path), fake->path);
	fake->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fake->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fake->fd, 4), 0);
	assert_int_equal(pthread_create(&fake->thread, NULL, serve, fake), 0);
}

static inline void fake_end(struct fake *fake)
{
	(void)shutdown(fake->fd, SHUT_RDWR);
	(void)pthread_join(fake->thread, NULL);
	(void)close(fake->fd);
	(void)unlink(fake->path);
	(void)rmdir(fake->folder);
}
