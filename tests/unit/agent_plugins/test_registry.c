/* SPDX-License-Identifier: Apache-2.0 */
/* Which instance of a plugin is the newest, and what the end of an older one takes away. */

#include "unit.h"

#include "service/registry.h"

static struct service_socket socket_of(const char *name, uint64_t ino)
{
	struct service_socket socket = {.dev = 1, .ino = ino, .born_ns = (int64_t)ino};

	assert_int_equal(str_copy(socket.name, sizeof(socket.name), name), 0);
	return socket;
}

/* Instances are only names to the registry. */
static void *instance_of(uintptr_t n)
{
	return (void *)n; /* NOLINT(performance-no-int-to-ptr): never followed */
}

static void add(struct registry *registry, const char *name, uint64_t ino, uintptr_t instance)
{
	struct service_socket socket = socket_of(name, ino);

	assert_int_equal(registry_add(registry, &socket), REGISTRY_NEW);
	registry->slots[0].instance = instance_of(instance);
}

static bool any(const void *instance, const void *arg)
{
	return true;
}

static bool is_not(const void *instance, const void *arg)
{
	return instance != arg;
}

TEST(the_newest_that_fits_is_current)
{
	struct registry registry = {0};

	assert_null(registry_current(&registry, any, NULL));
	add(&registry, "a.sock", 1, 1);
	add(&registry, "b.sock", 2, 2);
	assert_ptr_equal(registry_current(&registry, any, NULL), instance_of(2));
	assert_ptr_equal(registry_current(&registry, is_not, instance_of(2)), instance_of(1));
	assert_ptr_equal(registry_find(&registry, "a.sock"), instance_of(1));
	assert_null(registry_find(&registry, "a"));
}

TEST(instances_without_a_socket_are_taken_out_the_oldest_first)
{
	struct registry registry = {0};
	struct service_socket stands = socket_of("b.sock", 9); /* bound anew: the same name */

	add(&registry, "a.sock", 1, 1);
	add(&registry, "b.sock", 2, 2);
	add(&registry, "c.sock", 3, 3);
	assert_ptr_equal(registry_take_missing(&registry, &stands, 1), instance_of(1));
	assert_ptr_equal(registry_take_missing(&registry, &stands, 1), instance_of(3));
	assert_null(registry_take_missing(&registry, &stands, 1));
	assert_int_equal(registry.n, 1);
	assert_ptr_equal(registry_take_missing(&registry, NULL, 0), instance_of(2));
}

TEST(the_end_of_an_older_instance_takes_nothing_from_the_newer)
{
	struct service_socket old = socket_of("a.sock", 1), recreated = socket_of("a.sock", 3);
	struct registry registry = {0};

	add(&registry, "a.sock", 1, 1);
	add(&registry, "b.sock", 2, 2);
	assert_int_equal(registry_add(&registry, &recreated), REGISTRY_RECREATED);
	assert_ptr_equal(registry_current(&registry, any, NULL), instance_of(1));
	/* word of the end of what was bound there before comes late */
	assert_null(registry_remove(&registry, &old));
	assert_int_equal(registry.n, 2);
	assert_ptr_equal(registry_remove(&registry, &recreated), instance_of(1));
	assert_ptr_equal(registry_current(&registry, any, NULL), instance_of(2));
	assert_null(registry_remove(&registry, &recreated));
	assert_int_equal(registry.n, 1);
}

TEST(the_same_instance_again_changes_nothing)
{
	struct service_socket first = socket_of("a.sock", 1);
	struct registry registry = {0};
	struct registry before;

	add(&registry, "a.sock", 1, 1);
	add(&registry, "b.sock", 2, 2);
	before = registry;
	assert_int_equal(registry_add(&registry, &first), REGISTRY_SAME);
	assert_memory_equal(&registry, &before, sizeof(before));
}

TEST(a_socket_that_is_opened_to_us_stays_where_it_is)
{
	struct service_socket first = socket_of("a.sock", 1);
	struct registry registry = {0};

	add(&registry, "a.sock", 1, 1);
	add(&registry, "b.sock", 2, 2);
	first.changed_ns = 7;
	assert_int_equal(registry_add(&registry, &first), REGISTRY_TOUCHED);
	assert_int_equal(registry_add(&registry, &first), REGISTRY_SAME);
	assert_ptr_equal(registry_current(&registry, any, NULL), instance_of(2));
}

TEST(another_file_under_the_same_name_is_another_instance)
{
	struct service_socket socket;

	for (unsigned int i = 0; i < 3; i++) {
		struct registry registry = {0};

		add(&registry, "a.sock", 5, 1);
		socket = socket_of("a.sock", 5);
		socket.dev += i == 0;
		socket.ino += i == 1;
		socket.born_ns += i == 2; /* an inode number that is used again */
		assert_int_equal(registry_add(&registry, &socket), REGISTRY_RECREATED);
		assert_int_equal(registry.n, 1);
	}
}

TEST(there_are_no_more_instances_than_the_limit)
{
	struct registry registry = {0};
	struct service_socket socket;
	char name[32];

	for (unsigned int i = 0; i < REGISTRY_MAX; i++) {
		(void)snprintf(name, sizeof(name), "%u.sock", i);
		add(&registry, name, i + 1, i + 1);
	}
	socket = socket_of("more.sock", 99);
	assert_int_equal(registry_add(&registry, &socket), REGISTRY_FULL);
	assert_int_equal(registry.n, REGISTRY_MAX);
	socket = socket_of("0.sock", 99); /* takes no more room */
	assert_int_equal(registry_add(&registry, &socket), REGISTRY_RECREATED);
	assert_ptr_equal(registry_current(&registry, any, NULL), instance_of(1));
}

/* Random additions and ends against a list that is kept the simple way. */
TEST(any_order_of_additions_and_ends_is_kept)
{
	struct service_socket list[REGISTRY_MAX]; /* newest first */
	struct registry registry = {0};
	size_t n = 0;

	srandom(7);
	for (unsigned int i = 0; i < 20000; i++) {
		uint64_t what = (uint64_t)random();
		char name[32];
		struct service_socket socket;
		size_t at = 0;

		(void)snprintf(name, sizeof(name), "%u.sock", (unsigned int)(what / 4 % 12));
		socket = socket_of(name, what / 64 % 3);
		while (at < n && !str_eq(list[at].name, name))
			at++;
		if (what % 2) {
			(void)registry_remove(&registry, &socket);
			if (at < n && service_socket_eq(&list[at], &socket))
				memmove(&list[at], &list[at + 1], (--n - at) * sizeof(list[0]));
		} else {
			(void)registry_add(&registry, &socket);
			if (at == REGISTRY_MAX || (at < n && service_socket_eq(&list[at], &socket)))
				continue;
			if (at == n)
				n++;
			memmove(&list[1], &list[0], at * sizeof(list[0]));
			list[0] = socket;
		}
		assert_int_equal(registry.n, n);
		for (size_t k = 0; k < n; k++)
			assert_true(service_socket_eq(&registry.slots[k].socket, &list[k]));
	}
}
