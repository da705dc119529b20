/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the attributes of this node from uname(2), sysinfo(2) and /etc/os-release. */
#include "session/attributes.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <inttypes.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#define OS_RELEASE_PATH "/etc/os-release"

enum { OS_RELEASE_MAX = 16 << 10, ATTRIBUTES_N = 8 };

struct pairs {
	Holdfast__Driver__V1__KeyValue pairs[ATTRIBUTES_N + NODE_META_MAX];
	char values[ATTRIBUTES_N][NODE_ATTRIBUTE_VALUE_MAX + 1];
	size_t n_values;
	size_t n;
};

static void put(struct pairs *pairs, const char *name, const char *value)
{
	Holdfast__Driver__V1__KeyValue *pair = &pairs->pairs[pairs->n];

	if (value[0] == '\0' || !node_attribute_value_is_valid(value))
		return;
	holdfast__driver__v1__key_value__init(pair);
	pair->key = (char *)(uintptr_t)name;
	pair->value = (char *)(uintptr_t)value;
	pairs->n++;
}

static void put_copy(struct pairs *pairs, const char *name, const char *value, size_t n)
{
	char *copy = pairs->values[pairs->n_values];

	if (n > NODE_ATTRIBUTE_VALUE_MAX)
		return;
	(void)str_format(copy, sizeof(pairs->values[0]), "%.*s", (int)n, value);
	pairs->n_values++;
	put(pairs, name, copy);
}

/* As Go and Nomad call it. */
static const char *arch_of(const char *machine)
{
	if (str_eq(machine, "x86_64"))
		return "amd64";
	return str_eq(machine, "aarch64") ? "arm64" : machine;
}

static void put_number(struct pairs *pairs, const char *name, uint64_t number)
{
	char text[24];

	(void)str_format(text, sizeof(text), "%" PRIu64, number);
	put_copy(pairs, name, text, strlen(text));
}

static void put_machine(struct pairs *pairs)
{
	struct utsname name;
	struct sysinfo info;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	put(pairs, "attr.kernel.name", "linux");
	if (uname(&name) == 0) {
		put_copy(pairs, "attr.kernel.version", name.release, strlen(name.release));
		put_copy(pairs, "attr.cpu.arch", arch_of(name.machine), strlen(arch_of(name.machine)));
	}
	if (cores > 0)
		put_number(pairs, "attr.cpu.numcores", (uint64_t)cores);
	if (sysinfo(&info) == 0)
		put_number(pairs, "attr.memory.totalbytes", (uint64_t)info.totalram * info.mem_unit);
}

/* The value of KEY= in the text of os-release, without quotes. */
static void put_os(struct pairs *pairs, const char *text, const char *key, const char *name)
{
	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *value = line + strlen(key);
		size_t n;

		if (!str_starts_with(line, key))
			continue;
		value += *value == '"';
		n = strcspn(value, "\"\n");
		put_copy(pairs, name, value, n);
		return;
	}
}

bool attributes_read(const struct node_meta *meta, size_t n, struct message_list **ret)
{
	struct pairs pairs = {.n = 0};
	const ProtobufCMessage *list[ATTRIBUTES_N + NODE_META_MAX];
	cleanup_free char *text = NULL;

	put_machine(&pairs);
	if (file_read(OS_RELEASE_PATH, OS_RELEASE_MAX, &text, NULL) == 0) {
		put_os(&pairs, text, "ID=", "attr.os.name");
		put_os(&pairs, text, "VERSION_ID=", "attr.os.version");
	}
	for (size_t i = 0; i < n && i < NODE_META_MAX; i++)
		put(&pairs, meta[i].name, meta[i].value);
	for (size_t i = 0; i < pairs.n; i++)
		list[i] = &pairs.pairs[i].base;
	return message_list_new((ProtobufCMessage *const *)(const void *)list, pairs.n, ret);
}
