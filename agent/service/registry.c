/* SPDX-License-Identifier: Apache-2.0 */
#include "service/registry.h"

#include "base/str.h"

#include <assert.h>
#include <string.h>

bool service_socket_eq(const struct service_socket *a, const struct service_socket *b)
{
	return str_eq(a->name, b->name) && a->dev == b->dev && a->ino == b->ino && a->born_ns == b->born_ns;
}

/* Index of @name, or the number of slots. */
static size_t index_of(const struct registry *registry, const char *name)
{
	size_t i = 0;

	while (i < registry->n && !str_eq(registry->slots[i].socket.name, name))
		i++;
	return i;
}

static void move_to_front(struct registry *registry, size_t i)
{
	struct registry_slot slot = registry->slots[i];

	memmove(&registry->slots[1], &registry->slots[0], i * sizeof(slot));
	registry->slots[0] = slot;
}

enum registry_result registry_add(struct registry *registry, const struct service_socket *socket)
{
	assert(registry->n <= REGISTRY_MAX);

	size_t i = index_of(registry, socket->name);

	if (i < registry->n && service_socket_eq(&registry->slots[i].socket, socket)) {
		bool is_touched = registry->slots[i].socket.changed_ns != socket->changed_ns;

		registry->slots[i].socket.changed_ns = socket->changed_ns;
		return is_touched ? REGISTRY_TOUCHED : REGISTRY_SAME;
	}
	if (i == REGISTRY_MAX)
		return REGISTRY_FULL;
	if (i == registry->n) {
		registry->n++;
		registry->slots[i] = (struct registry_slot){.socket = *socket};
		move_to_front(registry, i);
		return REGISTRY_NEW;
	}
	registry->slots[i].socket = *socket;
	move_to_front(registry, i);
	return REGISTRY_RECREATED;
}

void *registry_remove(struct registry *registry, const struct service_socket *socket)
{
	size_t i = index_of(registry, socket->name);
	void *instance;

	if (i == registry->n || !service_socket_eq(&registry->slots[i].socket, socket))
		return NULL;
	instance = registry->slots[i].instance;
	registry->n--;
	memmove(&registry->slots[i], &registry->slots[i + 1], (registry->n - i) * sizeof(registry->slots[0]));
	return instance;
}

void *registry_take_missing(struct registry *registry, const struct service_socket *sockets, size_t n)
{
	for (size_t i = registry->n; i-- > 0;) {
		const struct service_socket known = registry->slots[i].socket;
		bool stands = false;

		for (size_t k = 0; k < n; k++)
			stands = stands || str_eq(sockets[k].name, known.name);
		if (!stands)
			return registry_remove(registry, &known);
	}
	return NULL;
}

void *registry_find(const struct registry *registry, const char *name)
{
	size_t i = index_of(registry, name);

	return i < registry->n ? registry->slots[i].instance : NULL;
}

void *registry_current(const struct registry *registry, registry_fits_fn *fits, const void *arg)
{
	for (size_t i = 0; i < registry->n; i++) {
		if (fits(registry->slots[i].instance, arg))
			return registry->slots[i].instance;
	}
	return NULL;
}
