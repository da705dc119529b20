/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A port for a server of a test, which nothing else takes until the server listens: it is below those that
 * the kernel hands out, and an abstract socket of its name keeps other tests off it until this program ends.
 */

#include "unit.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PORT_FIRST = 20000, PORT_LAST = 32000 };

static inline bool port_take(uint16_t port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int mark = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_free;

	assert_true(tcp >= 0 && mark >= 0);
	(void)str_format(name.sun_path + 1, sizeof(name.sun_path) - 1, "holdfast-test-port-%u",
			 (unsigned int)port);
	is_free = bind(tcp, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		  bind(mark, (struct sockaddr *)&name, sizeof(name)) == 0;
	(void)close(tcp);
	if (!is_free)
		(void)close(mark);
	return is_free;
}

static inline uint16_t free_port(void)
{
	static unsigned int next;

	for (unsigned int tries = 0; tries <= PORT_LAST - PORT_FIRST; tries++) {
		uint16_t port;

		if (next == 0)
			next = (unsigned int)getpid() * 16;
		port = (uint16_t)(PORT_FIRST + next++ % (PORT_LAST - PORT_FIRST + 1));
		if (port_take(port))
			return port;
	}
	fail_msg("every port from %d to %d is in use", PORT_FIRST, PORT_LAST);
	return 0;
}
