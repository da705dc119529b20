/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The option --host: names and addresses by which a server is reached. */

#include "command/command.h"

enum { HOSTS_MAX = 16 };

struct hosts {
	char text[1024]; /* that the others point into */
	const char *names[HOSTS_MAX];
	size_t n_names;
	const char *addresses[HOSTS_MAX];
	size_t n_addresses;
};

/** Empty if the option is absent. A usage error names the mistake. */
enum status hosts_read(struct invocation *inv, struct hosts *hosts, struct error *err);
