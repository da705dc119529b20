/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The instances of one plugin id, or of one task driver, newest first. Pure: it orders them; what they are,
 * and whose, it does not know.
 *
 * An instance is one socket that a process bound: a name in the plugin's folder, and which file that is. The
 * same name with another file is another instance, which takes the place of the old one and is the newest. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	REGISTRY_MAX = 8, /* instances of one id */
	SERVICE_SOCKET_NAME_SIZE = 64,
};

struct service_socket {
	char name[SERVICE_SOCKET_NAME_SIZE];
	uint64_t dev;
	uint64_t ino;
	int64_t born_ns;    /* inode numbers are used again */
	int64_t changed_ns; /* its mode or owner, which makes it no other one */
};

struct registry_slot {
	struct service_socket socket;
	void *instance; /* the caller's */
};

struct registry {
	struct registry_slot slots[REGISTRY_MAX]; /* newest first */
	size_t n;
};

enum registry_result {
	REGISTRY_SAME,	    /* known: nothing changed */
	REGISTRY_TOUCHED,   /* known, but perhaps it can be reached now */
	REGISTRY_NEW,	    /* slots[0], without an instance */
	REGISTRY_RECREATED, /* slots[0], with the instance of its name */
	REGISTRY_FULL,	    /* not taken */
};

bool service_socket_eq(const struct service_socket *a, const struct service_socket *b);

enum registry_result registry_add(struct registry *registry, const struct service_socket *socket);

/** Take out exactly this socket: one of the same name that was bound later stays. Returns its instance; NULL:
 * it is not here. */
void *registry_remove(struct registry *registry, const struct service_socket *socket);

/** Removes an instance whose name is not among @sockets, the oldest first, and returns it; NULL: all are
 * among them. */
void *registry_take_missing(struct registry *registry, const struct service_socket *sockets, size_t n);

/** The instance of the socket called @name, or NULL. */
void *registry_find(const struct registry *registry, const char *name);

typedef bool registry_fits_fn(const void *instance, const void *arg);

/** The newest instance for which @fits holds, or NULL. */
void *registry_current(const struct registry *registry, registry_fits_fn *fits, const void *arg);
