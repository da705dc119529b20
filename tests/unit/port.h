/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A port that nothing listens on. */

#include "unit.h"

#include <arpa/inet.h>
#include <sys/socket.h>

static inline uint16_t free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t n = sizeof(address);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, n), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &n), 0);
	(void)close(fd);
	return ntohs(address.sin_port);
}
