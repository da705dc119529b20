/* SPDX-License-Identifier: Apache-2.0 */
#include "model/node.h"

#include "base/clock.h"
#include "base/str.h"

#include <string.h>
#include <strings.h>

bool node_plugin_serves(const struct node_plugin *plugin, const struct volume *volume)
{
	return str_eq(plugin->plugin_id, volume->plugin_id) &&
	       (volume->type != VOLUME_NATIVE || str_eq(plugin->profile, volume->profile));
}

bool node_plugin_is_healthy(const struct node_plugin *plugin)
{
	return plugin->has_node && plugin->healthy;
}

bool node_plugin_is_whole(const struct node_plugin *plugin)
{
	return (!plugin->has_node || node_plugin_is_healthy(plugin)) &&
	       (!plugin->has_controller || plugin->controller.healthy);
}

const char *node_plugin_health_text(const struct node_plugin *plugin)
{
	bool is_controllers = plugin->has_controller && !plugin->controller.healthy;

	return is_controllers && plugin->controller.health_description[0] != '\0'
		       ? plugin->controller.health_description
		       : plugin->health_description;
}

/* @id without blanks at its ends and without a leading + or zeros: how many bytes are left. */
static size_t fold_ends(const char **id)
{
	size_t n = strlen(*id);

	while (n > 0 && (*id)[n - 1] == ' ')
		n--;
	for (; n > 1 && strchr(" +0", **id); n--)
		(*id)++;
	return n;
}

int node_provider_id_compare(const char *a, const char *b)
{
	size_t n_a = fold_ends(&a), n_b = fold_ends(&b);
	int c = strncasecmp(a, b, n_a < n_b ? n_a : n_b);

	return c != 0 ? c : (n_a > n_b) - (n_a < n_b);
}

int64_t node_past_boot(const struct node *node, const char *boot_id)
{
	for (uint32_t i = 0; i < node->n_past_boots; i++)
		if (str_eq(node->past_boots[i].id, boot_id))
			return node->past_boots[i].ended_ms;
	return 0;
}

static void end_boot(struct node *node, bool replaced, int64_t now_ms)
{
	struct past_boot *newest = node->past_boots;
	uint32_t kept = node->n_past_boots;

	if (node->boot_id[0] == '\0' || node_past_boot(node, node->boot_id) != 0)
		return;
	if (kept == NODE_PAST_BOOTS_MAX)
		kept--;
	memmove(newest + 1, newest, kept * sizeof(*newest));
	*newest = (struct past_boot){.ended_ms = now_ms, .replaced = replaced};
	memcpy(newest->id, node->boot_id, sizeof(newest->id));
	(void)str_copy(newest->machine, sizeof(newest->machine), node->machine);
	node->n_past_boots = kept + 1;
}

void node_end_boot(struct node *node, int64_t now_ms)
{
	end_boot(node, false, now_ms);
}

static bool is_boot_of(const struct past_boot *boot, const char *boot_id, const char *machine)
{
	return str_eq(boot->id, boot_id) && boot->machine[0] != '\0' && machine[0] != '\0' &&
	       node_machine_shows(boot->machine, machine);
}

void node_replace_machine(struct node *node, const char *machine, int64_t now_ms)
{
	end_boot(node, true, now_ms);
	(void)str_copy(node->machine, sizeof(node->machine), machine);
	if (node->n_past_boots == 0 || !node->past_boots[0].replaced ||
	    !is_boot_of(&node->past_boots[0], node->boot_id, machine))
		return;
	node->n_past_boots--;
	memmove(node->past_boots, node->past_boots + 1, node->n_past_boots * sizeof(*node->past_boots));
}

bool node_was_in_boot(const struct node *node, const char *boot_id)
{
	if (str_eq(node->boot_id, boot_id))
		return node_past_boot(node, boot_id) == 0;
	for (uint32_t i = 0; i < node->n_past_boots; i++)
		if (is_boot_of(&node->past_boots[i], boot_id, node->machine))
			return true;
	return false;
}

enum { MACHINE_PART = 32 };

static bool is_part(const char *text)
{
	return strspn(text, "0123456789abcdef") == MACHINE_PART;
}

bool node_machine_is_valid(const char *machine)
{
	if (!is_part(machine))
		return false;
	machine += MACHINE_PART;
	return machine[0] == '\0' ||
	       (machine[0] == '+' && is_part(machine + 1) && machine[1 + MACHINE_PART] == '\0');
}

bool node_machine_differs(const char *a, const char *b)
{
	if (a[0] == '\0' || b[0] == '\0')
		return false;
	if (strncmp(a, b, MACHINE_PART) != 0)
		return true;
	a += MACHINE_PART;
	b += MACHINE_PART;
	return a[0] != '\0' && b[0] != '\0' && !str_eq(a, b);
}

bool node_machine_shows(const char *known, const char *shown)
{
	return strlen(shown) >= strlen(known) && !node_machine_differs(known, shown);
}

bool node_machine_was_refused(const struct node *node, const char *machine)
{
	size_t n = strlen(machine), length;

	for (const char *at = node->other_machine; *at != '\0'; at += length + (at[length] == ' ')) {
		length = strcspn(at, " ");
		if (length == n && strncmp(at, machine, n) == 0)
			return true;
	}
	return false;
}

void node_refuse_machine(struct node *node, const char *machine)
{
	char former[NODE_REFUSED_SIZE];

	(void)str_copy(former, sizeof(former), node->other_machine);
	while (str_format(node->other_machine, sizeof(node->other_machine), "%s%s%s", machine,
			  former[0] != '\0' ? " " : "", former) < 0) {
		char *last = strrchr(former, ' ');

		*(last ? last : former) = '\0';
	}
	node->other_machines++;
}

bool node_clock_is_off(int64_t skew_ms)
{
	return skew_ms >= NODE_CLOCK_SKEW_WARN_MS || skew_ms <= -NODE_CLOCK_SKEW_WARN_MS;
}

const char *node_clock_text(int64_t skew_ms, char ret[static NODE_CLOCK_TEXT_SIZE])
{
	uint64_t size_ms = skew_ms < 0 ? -(uint64_t)skew_ms : (uint64_t)skew_ms;
	char text[CLOCK_TEXT_SIZE];

	if (size_ms > UINT64_MAX / USEC_PER_MSEC)
		size_ms = UINT64_MAX / USEC_PER_MSEC;
	(void)str_format(ret, NODE_CLOCK_TEXT_SIZE, "%s %s",
			 clock_format_duration(size_ms * USEC_PER_MSEC, text),
			 skew_ms < 0 ? "behind" : "ahead of");
	return ret;
}

bool node_is_draining(const struct node *node)
{
	return node->drain.started_ms != 0 && node->drain.done_ms == 0;
}

enum node_status node_status_at(const struct node *node, int64_t disconnected_ms, int64_t now_ms,
				int64_t down_after_ms)
{
	if (disconnected_ms != 0)
		return now_ms - disconnected_ms >= down_after_ms ? NODE_DOWN : NODE_DISCONNECTED;
	return node_is_draining(node) ? NODE_DRAINING : NODE_READY;
}

static const char *const disk_words[NODE_DISK_N] = {
	[NODE_DISK_ROOM] = "",	       [NODE_DISK_FULL] = "full",	    [NODE_DISK_QUOTA] = "quota",
	[NODE_DISK_INODES] = "inodes", [NODE_DISK_READ_ONLY] = "read-only",
};

const char *node_disk_word(enum node_disk disk)
{
	return disk_words[disk];
}

enum node_disk node_disk_of_word(const char *text)
{
	for (int i = NODE_DISK_FULL; i < NODE_DISK_N; i++)
		if (str_eq(text, disk_words[i]))
			return (enum node_disk)i;
	return NODE_DISK_ROOM;
}

enum node_disk node_disk_of(const struct node *node)
{
	return node_disk_of_word(node->disk_trouble);
}

const char *node_disk_text(enum node_disk disk, const char *path, char ret[static NODE_DISK_TEXT_SIZE])
{
	static const char *const words[NODE_DISK_N] = {
		[NODE_DISK_ROOM] = "has room",
		[NODE_DISK_FULL] = "is full",
		[NODE_DISK_QUOTA] = "is full by its quota",
		[NODE_DISK_INODES] = "is full, it has no inodes",
		[NODE_DISK_READ_ONLY] = "is read-only",
	};

	(void)str_format(ret, NODE_DISK_TEXT_SIZE, "its disk %s: %.*s", words[disk], NODE_DISK_PATH_MAX,
			 path);
	return ret;
}

const char *node_disk_command(enum node_disk disk, const char *path, char ret[static NODE_DISK_TEXT_SIZE])
{
	static const char *const commands[NODE_DISK_N] = {
		[NODE_DISK_ROOM] = "df -h",
		[NODE_DISK_FULL] = "df -h",
		[NODE_DISK_QUOTA] = "quota -vu holdfast; df -h",
		[NODE_DISK_INODES] = "df -i",
		[NODE_DISK_READ_ONLY] = "dmesg | tail; findmnt -T",
	};

	(void)str_format(ret, NODE_DISK_TEXT_SIZE, "%s %.*s", commands[disk], NODE_DISK_PATH_MAX, path);
	return ret;
}

const char *node_own_boot(const struct node *node)
{
	const struct past_boot *last = node->past_boots;

	if (node->n_past_boots == 0 || !str_eq(last->id, node->boot_id) || last->machine[0] == '\0')
		return node->boot_id;
	for (uint32_t i = 1; i < node->n_past_boots; i++)
		if (node_was_in_boot(node, node->past_boots[i].id))
			return node->past_boots[i].id;
	return node->boot_id;
}
