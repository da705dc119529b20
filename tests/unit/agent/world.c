/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include "unit_loop.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/sys.h"
#include "kernel/nfs_list.h"
#include "kernel/nfs_owner.h"
#include "kernel/path_look.h"
#include "log/log.h"
#include "rpc/client.h"

#include <sys/sysmacros.h>

static char pki_dir[TEMP_DIR_SIZE];
static struct world *current; /* for the functions that replace others at link time */

int __real_sys_fstatat(int dir_fd, const char *name, struct stat *ret, int flags);
int __real_sys_readlinkat(int dir_fd, const char *name, char *buf, size_t size);

static char no_table;

WRAPPED(enum status, mount_table_refresh, struct mount_table **table, const char *base, uint64_t settled,
	struct error *err)
{
	*table = (struct mount_table *)(void *)&no_table;
	return STATUS_OK;
}

WRAPPED(uint64_t, mount_table_last, const struct mount_table *table)
{
	return table ? 1 : 0;
}

WRAPPED(void, mount_table_free, struct mount_table *table)
{
	assert_true(!table || (void *)table == &no_table);
}

/* What the model made at BASE/ALLOCATION/SLOT. */
static bool view_at(const char *path, struct mount_view *ret)
{
	static const char base[] = FAKE_PUBLISH_BASE "/";
	char alloc[UUID_TEXT_SIZE] = {0};
	const struct fake_mount *mount;
	uint32_t slot;

	if (!str_starts_with(path, base) || strlen(path) <= strlen(base) + UUID_TEXT_SIZE ||
	    parse_u32(path + strlen(base) + UUID_TEXT_SIZE, 0, MH_SLOT_MAX, &slot) < 0)
		return false;
	memcpy(alloc, path + strlen(base), UUID_TEXT_SIZE - 1);
	mount = fake_helper_mount(&current->fake, "", alloc, slot);
	if (mount)
		*ret = (struct mount_view){.dev_major = mount->major,
					   .dev_minor = mount->minor,
					   .is_read_only = mount->read_only,
					   .is_stopped = current->is_fs_stopped,
					   .is_nosuid = true,
					   .is_nodev = true,
					   .is_noexec = !mount->exec,
					   .options = "nosuid,nodev"};
	return mount != NULL;
}

/* What the helper has staged. */
static bool stage_view_at(const char *path, struct mount_view *ret)
{
	const struct fake_mount *mount =
		fake_helper_mount(&current->fake, path + strlen(FAKE_STAGE_BASE "/"), "", 0);

	if (!mount || current->server.class != SOURCE_NFS4)
		return false;
	*ret = (struct mount_view){.dev_major = mount->major,
				   .dev_minor = mount->minor,
				   .is_unshared = !current->nfs_is_shared,
				   .fs_type = "nfs4"};
	return true;
}

/* What a plugin has mounted or bound. */
static bool plugins_view_at(const char *path, struct mount_view *ret)
{
	const struct fake_place *place = fake_helper_place(&current->fake, path);

	if (!place)
		return false;
	*ret = (struct mount_view){.dev_minor = place->minor};
	(void)str_copy(ret->fs_type, sizeof(ret->fs_type), place->is_device ? "devtmpfs" : "ext4");
	return true;
}

WRAPPED(void, mount_table_count, const struct mount_table *table, const char *path, struct mount_count *ret)
{
	*ret = (struct mount_count){.here = fake_helper_place(&current->fake, path) != NULL};
}

WRAPPED(enum status, mount_table_find, const struct mount_table *table, const char *path,
	struct mount_view *ret, struct error *err)
{
	if (str_starts_with(path, FAKE_STAGE_BASE "/")
		    ? stage_view_at(path, ret) || plugins_view_at(path, ret)
		    : view_at(path, ret))
		return STATUS_OK;
	return error_set(err, STATUS_NOT_FOUND, 0, "nothing is mounted at %s", path);
}

static bool is_mounted(uint32_t dev_minor)
{
	for (size_t i = 0; i < FAKE_MOUNTS_MAX; i++) {
		const struct fake_mount *mount = &current->fake.state->mounts[i];

		if (mount->is_used && mount->minor == dev_minor)
			return true;
	}
	return false;
}

WRAPPED(enum status, nfs_list_has, uint32_t dev_major, uint32_t dev_minor, bool *ret, struct error *err)
{
	assert_int_equal(dev_major, 0);
	assert_int_not_equal(dev_minor, 0);
	if (current->nfs_list_fails)
		return error_set(err, STATUS_NOT_FOUND, 0, "there is no list");
	*ret = !current->nfs_list_is_foreign && (current->nfs_lives || is_mounted(dev_minor));
	return STATUS_OK;
}

WRAPPED(void, nfs_owner_find, struct nfs_owner *owner)
{
	assert_string_equal(owner->stage_base, FAKE_STAGE_BASE);
	assert_int_equal(owner->is_own, !current->nfs_is_shared);
	owner->is_other = current->nfs_number_is_reused;
	(void)str_copy(owner->point, sizeof(owner->point),
		       current->nfs_elsewhere ? current->nfs_elsewhere : "");
}

WRAPPED(void, path_look, const char *path, struct path_seen *ret)
{
	*ret = (struct path_seen){
		.state = current->seen, .space = current->space, .sys_errno = current->seen_errno};
	(void)__atomic_add_fetch(&current->looks, 1, __ATOMIC_SEQ_CST);
	if (ret->state == PATH_MOUNTED && !view_at(path, &ret->view))
		ret->state = PATH_NOT_MOUNTED;
}

WRAPPED(int, sys_fstatat, int dir_fd, const char *name, struct stat *ret, int flags)
{
	if (str_starts_with(name, "/dev/disk/by-id/disk-vol")) {
		*ret = (struct stat){.st_mode = S_IFBLK, .st_rdev = makedev(8, 16)};
		return 0;
	}
	if (str_eq(name, "/sys/fs/ext4/sdb"))
		return current->superblock_lives ? 0 : -ENOENT;
	return __real_sys_fstatat(dir_fd, name, ret, flags);
}

WRAPPED(int, sys_readlinkat, int dir_fd, const char *name, char *buf, size_t size)
{
	char target[512];
	int n;

	if (!str_eq(name, "/sys/dev/block/8:16"))
		return __real_sys_readlinkat(dir_fd, name, buf, size);
	/* longer than a name may be, as that of a disk behind three expanders */
	n = str_format(target, sizeof(target), "../../devices/%0300d/block/sdb", 0);
	n = (size_t)n < size ? n : (int)size;
	memcpy(buf, target, (size_t)n);
	return current->sysfs_fails ? -EIO : n;
}

int world_group_setup(void **state)
{
	log_init("test", -1);
	temp_dir_make(pki_dir);
	model_server_make_pki(pki_dir);
	return 0;
}

int world_group_teardown(void **state)
{
	temp_dir_remove(pki_dir);
	return 0;
}

static void set_path(char *dst, size_t size, const char *dir, const char *name)
{
	assert_true(str_format(dst, size, "%s/%s", dir, name) > 0);
}

struct world *world_new(void)
{
	struct world *w = NON_NULL(calloc(1, sizeof(*w)));

	current = w;
	fake_helper_init(&w->fake);
	(void)str_copy(w->fake.state->profiles[0].name, MH_LABEL_SIZE, "scratch");
	w->fake.state->profiles[0].class = MH_CLASS_TMPFS;
	w->fake.state->profiles[0].is_available = 1;
	w->fake.state->n_profiles = 1;
	assert_true(sd_event_new(&w->event) >= 0);
	w->server.event = w->event;
	w->server.fake = &w->fake;
	w->server.ticket_ttl_ms = 120000;
	w->server.class = SOURCE_TMPFS;
	config_init(&w->config);
	(void)str_copy(w->config.cluster, sizeof(w->config.cluster), MODEL_CLUSTER);
	(void)str_copy(w->config.node_id, sizeof(w->config.node_id), "n1");
	(void)str_copy(w->config.server.host, sizeof(w->config.server.host), "127.0.0.1");
	(void)str_copy(w->config.server.server_uri, sizeof(w->config.server.server_uri), MODEL_SERVER_URI);
	(void)str_copy(w->config.data_dir, sizeof(w->config.data_dir), w->fake.folder);
	(void)str_copy(w->config.helper.path, sizeof(w->config.helper.path), w->fake.path);
	/* not this machine's; a test that wants plugins has one that it removes */
	set_path(w->config.plugin_dir, sizeof(w->config.plugin_dir), w->fake.folder, "plugins");
	set_path(w->config.driver_dir, sizeof(w->config.driver_dir), w->fake.folder, "drivers");
	set_path(w->config.socket, sizeof(w->config.socket), w->fake.folder, "agent.sock");
	set_path(w->config.tls.ca, sizeof(w->config.tls.ca), pki_dir, "ca.pem");
	set_path(w->config.tls.cert, sizeof(w->config.tls.cert), pki_dir, "node.pem");
	set_path(w->config.tls.key, sizeof(w->config.tls.key), pki_dir, "node.key");
	w->config.volume_stats_us = 0; /* tests of usage say otherwise */
	w->config.helper.request_timeout_us = 5 * USEC_PER_SEC;
	return w;
}

void world_free(struct world *w)
{
	world_kill_agent(w);
	if (w->server.rpc)
		model_server_stop(&w->server);
	sd_event_unref(w->event);
	assert_string_equal(w->server.violation, "");
	assert_string_equal(w->fake.state->violation, "");
	fake_helper_release(&w->fake);
	free(w);
	current = NULL;
}

int world_setup(void **state)
{
	struct world *w = world_new();

	model_server_start(&w->server, pki_dir, 0);
	*state = w;
	return 0;
}

int world_teardown(void **state)
{
	world_free(*state);
	return 0;
}

void world_restart_server(struct world *w)
{
	model_server_stop(&w->server);
	model_server_start(&w->server, pki_dir, w->server.port);
}

const char *world_pki(void)
{
	return pki_dir;
}

void world_start_server(struct world *w)
{
	model_server_start(&w->server, pki_dir, w->server.port);
}

void world_start_agent(struct world *w)
{
	struct error err;

	assert_null(w->agent);
	w->config.server.port = w->server.port;
	assert_msg(agent_new(w->event, &w->config, &w->agent, &err) == STATUS_OK &&
			   agent_start(w->agent, &err) == STATUS_OK,
		   "%s", err.msg);
}

void world_kill_agent(struct world *w)
{
	agent_free(w->agent);
	w->agent = NULL;
}

bool world_turns(struct world *w, unsigned int n, world_condition *condition)
{
	for (unsigned int i = 0; i < n && !condition(w); i++)
		assert_true(sd_event_run(w->event, 2000 * USEC_PER_MSEC) >= 0);
	return condition(w);
}

uint64_t world_deadline(void)
{
	return clock_monotonic_us() + UNIT_LIMIT_US;
}

void world_turn(struct world *w, uint64_t deadline_us, const char *what)
{
	assert_msg(clock_monotonic_us() <= deadline_us, "waited in vain for %s", what);
	assert_true(sd_event_run(w->event, 100 * USEC_PER_MSEC) >= 0);
}

void world_until(struct world *w, const char *what, world_condition *condition)
{
	uint64_t end = world_deadline();

	while (!condition(w))
		world_turn(w, end, what);
}

void world_idle(struct world *w, unsigned int ms)
{
	run_for(w->event, ms);
}

const char *world_wire(const char *volume)
{
	static char wire[WIRE_VOLUME_SIZE];

	volume_wire_name("default", volume, wire);
	return wire;
}

struct answer {
	bool is_there;
	Holdfast__V1__GetAgentStatusResponse *report;
};

static void on_report(enum status status, const ProtobufCMessage *response, const struct error *err,
		      void *userdata)
{
	struct answer *answer = userdata;
	cleanup_free uint8_t *bytes = NULL;
	size_t n;

	assert_msg(status == STATUS_OK, "%s", err->msg);
	answer->is_there = true;
	/* a copy that outlives the callback */
	n = protobuf_c_message_get_packed_size(response);
	bytes = malloc(n + 1);
	(void)protobuf_c_message_pack(response, bytes);
	answer->report = holdfast__v1__get_agent_status_response__unpack(NULL, n, bytes);
}

Holdfast__V1__GetAgentStatusResponse *world_report(struct world *w)
{
	Holdfast__V1__GetAgentStatusRequest request = HOLDFAST__V1__GET_AGENT_STATUS_REQUEST__INIT;
	const struct rpc_endpoint endpoint = {.unix_path = w->config.socket};
	struct rpc_client *client;
	struct answer answer = {0};
	struct error err;

	assert_int_equal(rpc_client_new(w->event, &endpoint, &client, &err), STATUS_OK);
	assert_ok(rpc_client_call(client, &holdfast__v1__agent__descriptor, "Status", &request.base,
				  5 * USEC_PER_SEC, on_report, &answer, NULL, &err));
	while (!answer.is_there)
		assert_true(sd_event_run(w->event, 100 * USEC_PER_MSEC) >= 0);
	rpc_client_free(client);
	assert_non_null(answer.report);
	return answer.report;
}

const char *world_boot_id(void)
{
	static char text[UUID_TEXT_SIZE];
	FILE *f = NON_NULL(fopen("/proc/sys/kernel/random/boot_id", "re"));

	assert_non_null(fgets(text, sizeof(text), f));
	(void)fclose(f);
	return text;
}
