/* SPDX-License-Identifier: Apache-2.0 */
#include "yard.h"

#include "base/backoff.h"
#include "base/clock.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* Delays of minutes are a matter of milliseconds here; how they grow is backoff's own test. */

static bool is_slow_now;

WRAPPED(uint64_t, backoff_next, struct backoff *backoff, uint32_t random)
{
	if (backoff->attempts < 10)
		backoff->attempts++;
	return is_slow_now ? 3600 * USEC_PER_SEC : backoff->attempts * 5 * USEC_PER_MSEC;
}

void yard_slow(struct yard *y, bool is_slow)
{
	is_slow_now = is_slow;
}

static void on_change(void *userdata)
{
	struct yard *y = userdata;

	y->changes++;
}

static void on_store(const char *plugin_id, const struct node_plugin *facts, void *userdata)
{
	struct yard *y = userdata;

	if (!facts) {
		y->drops++;
		(void)str_copy(y->last_dropped, sizeof(y->last_dropped), plugin_id);
		return;
	}
	assert_string_equal(facts->plugin_id, plugin_id);
	y->stores++;
	y->stored = *facts;
}

static void on_expected(const char *alloc_id, const char *plugin_id, const struct error *err, void *userdata)
{
	struct yard *y = userdata;

	(void)str_copy(y->last_met, sizeof(y->last_met), alloc_id);
	(void)str_copy(y->last_met_plugin, sizeof(y->last_met_plugin), plugin_id);
	if (!err) {
		y->met++;
		if (y->forgets_when_met)
			plugins_forget(y->plugins, alloc_id);
		return;
	}
	y->failed++;
	y->last_failure = *err;
	if (y->forgets_upon_failure)
		plugins_forget(y->plugins, alloc_id);
}

static const struct plugins_handlers handlers = {
	.on_change = on_change,
	.on_store = on_store,
	.on_expected = on_expected,
};

int yard_setup(void **state)
{
	struct yard *y = NON_NULL(calloc(1, sizeof(*y)));

	fake_csi_init();
	temp_dir_make(y->dir);
	assert_true(sd_event_new(&y->event) >= 0);
	*state = y;
	return 0;
}

/* Folders of folders. */
static void clear_dir(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	char child[1024];

	while (dir && (entry = readdir(dir))) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		assert_true(str_format(child, sizeof(child), "%s/%s", path, entry->d_name) >= 0);
		if (unlink(child) < 0) {
			clear_dir(child);
			(void)rmdir(child);
		}
	}
	if (dir)
		(void)closedir(dir);
}

int yard_teardown(void **state)
{
	cleanup_free struct yard *y = *state;

	is_slow_now = false;
	yard_close(y);
	sd_event_unref(y->event);
	clear_dir(y->dir);
	temp_dir_remove(y->dir);
	fake_csi_release();
	return 0;
}

void yard_open(struct yard *y, uint64_t probe_interval_us)
{
	const struct plugins_options options = {
		.plugin_dir = y->dir,
		.probe_interval_us = probe_interval_us ? probe_interval_us : 3600 * USEC_PER_SEC,
	};

	assert_int_equal(plugins_new(y->event, &options, &handlers, y, &y->plugins, NULL), STATUS_OK);
}

void yard_start(struct yard *y)
{
	if (!y->plugins)
		yard_open(y, 0);
	assert_int_equal(plugins_start(y->plugins, NULL), STATUS_OK);
}

void yard_close(struct yard *y)
{
	plugins_free(y->plugins);
	y->plugins = NULL;
}

const char *yard_path(const struct yard *y, const char *id, const char *name)
{
	static char path[512];

	assert_true(str_format(path, sizeof(path), "%s/%s/%s", y->dir, id, name) >= 0);
	return path;
}

void yard_mkdir(struct yard *y, const char *id)
{
	char path[TEMP_PATH_SIZE];

	assert_true(mkdir(temp_dir_path(path, y->dir, id), 0755) == 0 || errno == EEXIST);
}

void yard_rmdir(struct yard *y, const char *id)
{
	char path[TEMP_PATH_SIZE];

	clear_dir(temp_dir_path(path, y->dir, id));
	assert_int_equal(rmdir(path), 0);
}

void yard_bind(struct yard *y, const char *id, const char *name)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	yard_mkdir(y, id);
	assert_int_equal(str_copy(addr.sun_path, sizeof(addr.sun_path), yard_path(y, id, name)), 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
	(void)close(fd);
}

void yard_unbind(struct yard *y, const char *id, const char *name)
{
	assert_int_equal(unlink(yard_path(y, id, name)), 0);
}

struct fake_csi_plugin *yard_plugin(struct yard *y, const char *id, const char *name)
{
	struct fake_csi_plugin *plugin = fake_csi_add(yard_path(y, id, name));

	yard_bind(y, id, name);
	return plugin;
}

const struct node_plugin *yard_entry(const struct yard *y, const char *id)
{
	static struct node_plugin list[YARD_IDS_MAX];
	size_t n = plugins_fingerprint(y->plugins, list, YARD_IDS_MAX);

	for (size_t i = 0; i < n; i++)
		if (str_eq(list[i].plugin_id, id))
			return &list[i];
	return NULL;
}

const struct plugin_instance_info *yard_instance(const struct yard *y, const char *id, const char *name)
{
	static struct plugin_instance_info list[YARD_IDS_MAX * PLUGIN_INSTANCES_MAX];
	size_t n = plugins_instances(y->plugins, list, YARD_IDS_MAX * PLUGIN_INSTANCES_MAX);
	const char *path = yard_path(y, id, name);

	for (size_t i = 0; i < n; i++)
		if (str_eq(list[i].socket, path))
			return &list[i];
	return NULL;
}

bool yard_is_healthy(const struct yard *y, const char *id)
{
	const struct node_plugin *entry = yard_entry(y, id);

	return entry && entry->healthy;
}

enum status yard_client(const struct yard *y, const char *id, enum plugin_half half)
{
	struct service_client *client = NULL;
	enum status status = plugins_client(y->plugins, id, half, &client, NULL);

	assert_int_equal(status == STATUS_OK, client != NULL);
	return status;
}

void yard_idle(struct yard *y, unsigned int ms)
{
	run_for(y->event, ms);
}
