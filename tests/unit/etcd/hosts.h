/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Hosts on one machine: each is a network namespace with an address of its own on one bridge, at which this
 * process is as well. As root; all goes with this process. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { HOSTS_MAX = 8, HOST_ADDRESS_SIZE = 16 };

struct hosts {
	size_t n;		      /* and number n is this process */
	pid_t keepers[HOSTS_MAX + 1]; /* each keeps a namespace */
	char addresses[HOSTS_MAX + 1][HOST_ADDRESS_SIZE];
};

/** Moves this process into a network namespace of its own. */
void hosts_new(struct hosts *hosts, size_t n);
void hosts_free(struct hosts *hosts);

/** In a child: go to host @i. */
void hosts_enter(const struct hosts *hosts, size_t i);

/** What @from sends to @to is lost from here on, without a word; not what @to sends. */
void hosts_cut(const struct hosts *hosts, size_t from, size_t to);

/** All that @i sends arrives again. */
void hosts_heal(const struct hosts *hosts, size_t i);
