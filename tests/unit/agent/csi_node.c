/* SPDX-License-Identifier: Apache-2.0 */
#include "csi_node.h"

#include "alloc/claim_details.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "kernel/device_changes.h"
#include "kernel/mount_table.h"
#include "kernel/path_look.h"
#include "volume/plugin_process.h"

#include <signal.h>
#include <sys/wait.h>

/* An idle turn, without an event for as long, weighs as much as many others. */
#define IDLE_TURN_US (100 * USEC_PER_MSEC)
enum { PATIENCE_TURNS = 10000, IDLE_TURN_WEIGHT = 100 };

static struct csi_node *current; /* for the functions that replace others at link time */
static char no_table;

WRAPPED(enum status, mount_table_refresh, struct mount_table **table, const char *base, uint64_t settled,
	struct error *err)
{
	assert_string_equal(base, FAKE_STAGE_BASE);
	current->n_whole_looks += !*table;
	current->settled = settled;
	*table = (struct mount_table *)(void *)&no_table;
	return STATUS_OK;
}

WRAPPED(uint64_t, mount_table_last, const struct mount_table *table)
{
	return table ? ++current->last_id : 0;
}

WRAPPED(void, mount_table_free, struct mount_table *table)
{
	assert_true(!table || (const void *)table == &no_table);
}

WRAPPED(enum status, mount_table_find, const struct mount_table *table, const char *path,
	struct mount_view *ret, struct error *err)
{
	const struct fake_place *place = fake_helper_place(&current->fake, path);

	if (!place)
		return error_set(err, STATUS_NOT_FOUND, 0, "nothing is mounted at %s", path);
	*ret = (struct mount_view){.dev_minor = place->minor};
	(void)str_copy(ret->fs_type, sizeof(ret->fs_type), place->is_device ? "devtmpfs" : "ext4");
	return STATUS_OK;
}

/* As many as the model has, and those that a test has put there besides. */
WRAPPED(void, mount_table_count, const struct mount_table *table, const char *path, struct mount_count *ret)
{
	static const char *const places[] = {"/" MH_CSI_STAGING, "/" MH_CSI_PUBLISH_RW,
					     "/" MH_CSI_PUBLISH_RO};
	char at[256];

	*ret = (struct mount_count){.here = fake_helper_place(&current->fake, path) != NULL};
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (str_format(at, sizeof(at), "%s%s", path, places[i]) > 0)
			ret->below += fake_helper_place(&current->fake, at) != NULL;
	}
	if (current->extra && str_eq(current->extra, path))
		ret->here++;
	else if (current->extra && str_starts_with(current->extra, path) &&
		 current->extra[strlen(path)] == '/')
		ret->below++;
	(void)str_copy(ret->stacked, sizeof(ret->stacked), current->stacked ? current->stacked : "");
}

WRAPPED(struct plugin_process, plugin_process_find, pid_t pid)
{
	return (struct plugin_process){.pid = current->hides_processes ? 0 : pid, .session = pid};
}

WRAPPED(bool, plugin_process_is_alive, const struct plugin_process *process)
{
	return process->pid != 0 && process->pid == current->model->pid;
}

WRAPPED(void, plugin_process_children, const struct plugin_process *plugin, uint64_t from, uint64_t to,
	const char *folder, struct plugin_children *ret)
{
	*ret = (struct plugin_children){.n_naming = current->naming != NULL,
					.n_session = current->n_session,
					.is_partial = current->is_proc_partial,
					.is_unfinished = current->is_proc_unfinished,
					.pid = 4711,
					.name = "mount"};
	assert_true(from <= to);
	current->process_looks++;
	if (current->naming)
		ret->n_arguments =
			(size_t)str_format(ret->arguments, sizeof(ret->arguments), "%s", current->naming) + 1;
}

WRAPPED(enum status, device_of_mount, const struct mount_view *view, uint32_t *ret_major, uint32_t *ret_minor,
	struct error *err)
{
	if (!str_eq(view->fs_type, "devtmpfs"))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "it is no device");
	*ret_major = 8;
	*ret_minor = view->dev_minor;
	return STATUS_OK;
}

WRAPPED(bool, device_has_superblock, uint32_t dev_major, uint32_t dev_minor)
{
	return dev_major != 0 && current->superblock_lives;
}

WRAPPED(void, device_find_mounts, uint32_t dev_major, uint32_t dev_minor, const char *const within[static 2],
	struct device_mounts *ret)
{
	assert_string_equal(within[0], FAKE_STAGE_BASE);
	assert_string_equal(within[1], FAKE_PUBLISH_BASE);
	*ret = (struct device_mounts){.is_elsewhere = current->elsewhere != NULL,
				      .is_whole = !current->is_part};
	(void)str_copy(ret->point, sizeof(ret->point), current->elsewhere ? current->elsewhere : "");
	current->tables++;
}

WRAPPED(bool, device_is_mounted_at, uint32_t dev_major, uint32_t dev_minor, const char *point,
	const char *const within[static 2])
{
	assert_string_equal(within[0], FAKE_STAGE_BASE);
	assert_string_equal(within[1], FAKE_PUBLISH_BASE);
	return current->elsewhere && str_eq(point, current->elsewhere);
}

WRAPPED(struct device_moment, device_changes_now, struct device_changes *changes)
{
	return (struct device_moment){.look = ++current->moments};
}

WRAPPED(bool, device_changes_find_mounts, struct device_changes *changes, const struct device_moment *moment,
	uint32_t dev_major, uint32_t dev_minor, const char *const within[static 2], struct device_mounts *ret)
{
	unsigned int tables = current->tables;

	if (moment->look == 0 || moment->look > current->made_at)
		return false;
	__wrap_device_find_mounts(dev_major, dev_minor, within, ret);
	current->tables = tables;
	return true;
}

/* On a thread of its own. */
WRAPPED(void, path_look, const char *path, struct path_seen *ret)
{
	static const char base[] = FAKE_PUBLISH_BASE "/";
	char alloc[UUID_TEXT_SIZE] = {0};
	const struct fake_mount *mount;

	*ret = (struct path_seen){.state = PATH_NOT_MOUNTED};
	memcpy(alloc, path + strlen(base), UUID_TEXT_SIZE - 1);
	mount = fake_helper_mount(&current->fake, "", alloc, 0);
	if (!mount)
		return;
	ret->state = PATH_MOUNTED;
	ret->view = (struct mount_view){.dev_major = mount->major,
					.dev_minor = mount->minor,
					.is_read_only = mount->read_only,
					.is_nosuid = true,
					.is_nodev = true,
					.is_noexec = !mount->exec};
}

/* As often, and without the delay. */
WRAPPED(uint64_t, backoff_next, struct backoff *backoff, uint32_t random)
{
	backoff->attempts++;
	return USEC_PER_MSEC;
}

static void on_mount(const char *path, const struct fake_csi_target *target, void *userdata)
{
	struct csi_node *node = userdata;
	bool is_device = target && target->is_device;
	const struct fake_place place = {.is_mounted = true,
					 .is_device = is_device,
					 .read_only = target && target->read_only,
					 .major = is_device ? 8 : node->major,
					 .minor = node->major != 0 ? 1 : 100 + node->next_minor++};

	fake_helper_plugin(&node->fake, path, &place);
}

static void on_unmount(const char *path, void *userdata)
{
	struct csi_node *node = userdata;

	fake_helper_plugin(&node->fake, path, NULL);
}

static void on_helper_ready(pid_t pid, void *userdata)
{
}

static void on_helper_down(const struct error *err, void *userdata)
{
}

static void on_helper_stale(void *userdata)
{
}

static bool in_use(const char *wire_volume, enum volume_use use, const char *alloc_id, uint8_t slot,
		   void *userdata)
{
	const struct csi_node *node = userdata;

	for (size_t i = 0; i < node->n_users; i++) {
		const struct csi_user *user = &node->users[i];

		if (use != VOLUME_USE_UNKNOWN && user->state != CSI_USER_RELEASED &&
		    str_eq(user->volume, wire_volume) &&
		    (use == VOLUME_USE_ANY ||
		     (use == VOLUME_USE_WITH_PLUGIN ? !user->is_forced
						    : user->read_only == (use == VOLUME_USE_READ))) &&
		    !str_eq(user->alloc, alloc_id))
			return true;
	}
	return false;
}

/* As the helper lists it. */
static struct mount_snapshot *read_mount_snapshot(const struct csi_node *node)
{
	struct mount_snapshot *observed = NON_NULL(mount_snapshot_new());

	for (size_t i = 0; i < FAKE_MOUNTS_MAX; i++) {
		const struct fake_mount *mount = &node->fake.state->mounts[i];
		struct mh_list_entry entry = {
			.slot = mount->slot, .dev_major = mount->major, .dev_minor = mount->minor};

		if (!mount->is_used)
			continue;
		(void)str_copy(entry.alloc, sizeof(entry.alloc), mount->alloc);
		assert_int_equal(mount_snapshot_add(observed, MH_LIST_PUBLISHED, &entry, NULL), STATUS_OK);
	}
	for (size_t i = 0; i < FAKE_FOLDERS_MAX; i++) {
		const struct fake_folder *folder = &node->fake.state->folders[i];

		for (size_t t = 0; t < 2; t++) {
			struct mh_list_entry entry = {.state = node->counts_nothing ? MH_STATE_UNCOUNTED : 0,
						      .dev_major = folder->targets[t].major,
						      .dev_minor = folder->targets[t].minor};

			if (!folder->is_used || !folder->targets[t].is_mounted)
				continue;
			(void)str_copy(entry.volume, sizeof(entry.volume), folder->volume);
			assert_ok(mount_snapshot_add(observed, MH_LIST_STAGED, &entry, NULL));
		}
	}
	return observed;
}

static void agent_start(struct csi_node *node)
{
	static const struct helper_client_events events = {
		.on_ready = on_helper_ready, .on_down = on_helper_down, .on_stale = on_helper_stale};
	const struct helper_client_options options = {.instances = 1,
						      .launch = {.path = node->fake.path},
						      .start_timeout_us = 5 * USEC_PER_SEC,
						      .request_timeout_us = 5 * USEC_PER_SEC};
	struct error err;

	assert_ok(helper_client_new(node->event, &options, &events, node, &node->helper, &err));
	assert_ok(volume_manager_new(node->event, node->helper, in_use, node, &node->manager, &err));
	node->plugins = fake_plugins_new(node->event);
	fake_plugins_add(node->plugins, CSI_PLUGIN, node->model);
	volume_manager_set_plugins(node->manager, node->plugins, node->wait_us);
	volume_manager_set_observed(node->manager, read_mount_snapshot(node));
	assert_int_equal(helper_client_start(node->helper, &err), STATUS_OK);
}

/* The helpers that it leaves do to their end what they were asked, on a busy machine after all that follows:
 * the next agent would not know of it. Both at once are test_helper_client's. */
static void agent_kill(struct csi_node *node)
{
	helper_client_free(node->helper);
	volume_manager_free(node->manager);
	plugins_free(node->plugins);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
}

int csi_node_setup(void **state)
{
	struct csi_node *node = NON_NULL(calloc(1, sizeof(*node)));
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	current = node;
	fake_helper_init(&node->fake);
	fake_csi_init();
	fake_csi.on_mount = on_mount;
	fake_csi.on_unmount = on_unmount;
	fake_csi.userdata = node;
	fake_csi.patience_us = 5 * USEC_PER_MSEC;
	node->model = fake_csi_add("/run/fake/plug.sock");
	node->wait_us = 30 * USEC_PER_SEC;
	node->patience = PATIENCE_TURNS;
	assert_true(sd_event_new(&node->event) >= 0);
	agent_start(node);
	*state = node;
	return 0;
}

int csi_node_teardown(void **state)
{
	struct csi_node *node = *state;

	agent_kill(node);
	sd_event_unref(node->event);
	assert_string_equal(node->fake.state->violation, "");
	fake_helper_release(&node->fake);
	fake_csi_release();
	free(node);
	current = NULL;
	return 0;
}

static struct secret_message *make_details(void)
{
	Holdfast__V1__ClaimVolumeResponse__PublishContextEntry publish =
		HOLDFAST__V1__CLAIM_VOLUME_RESPONSE__PUBLISH_CONTEXT_ENTRY__INIT;
	Holdfast__V1__ClaimVolumeResponse__PublishContextEntry *publishes[] = {&publish};
	Holdfast__V1__Volume volume = HOLDFAST__V1__VOLUME__INIT;
	Holdfast__V1__ClaimVolumeResponse response = V1(claim_volume_response, .volume = &volume,
							.publish_context = publishes, .n_publish_context = 1);
	Holdfast__V1__Volume__SecretsEntry secret = HOLDFAST__V1__VOLUME__SECRETS_ENTRY__INIT;
	Holdfast__V1__Volume__SecretsEntry *secrets[] = {&secret};
	Holdfast__V1__Volume__ContextEntry context = HOLDFAST__V1__VOLUME__CONTEXT_ENTRY__INIT;
	Holdfast__V1__Volume__ContextEntry *contexts[] = {&context};
	struct secret_message *details;

	secret.key = "key";
	secret.value = CSI_SECRET;
	publish.key = "device";
	publish.value = "/dev/x";
	context.key = "pool";
	context.value = "pool";
	volume.secrets = secrets;
	volume.n_secrets = 1;
	volume.context = contexts;
	volume.n_context = 1;
	assert_int_equal(claim_details_new(&response, &details, NULL), STATUS_OK);
	return details;
}

static struct volume_target target_of(const struct csi_user *user)
{
	struct volume_target target = {
		.type = VOLUME_CSI,
		.profile = CSI_PLUGIN,
		.access_mode = user->read_only ? MULTI_NODE_READER_ONLY : SINGLE_NODE_MULTI_WRITER,
		.attachment_mode = user->is_device ? ATTACHMENT_BLOCK_DEVICE : ATTACHMENT_FILE_SYSTEM,
		.read_only = user->read_only,
		.mount_timeout_ms = user->node->mount_timeout_ms,
		.dev_major = user->mounted.dev_major,
		.dev_minor = user->mounted.dev_minor,
	};

	(void)str_copy(target.volume_id, sizeof(target.volume_id), user->volume);
	(void)str_copy(target.wire_volume, sizeof(target.wire_volume), user->volume);
	(void)str_copy(target.alloc_id, sizeof(target.alloc_id), user->alloc);
	(void)str_format(target.external_id, sizeof(target.external_id), "ext/%s", user->volume);
	return target;
}

static void user_continue(struct csi_user *user);

static void on_mounted(const struct volume_mounted *mounted, const struct error *err, void *userdata)
{
	struct csi_user *user = userdata;

	user->task = NULL;
	if (mounted) {
		user->state = CSI_USER_MOUNTED;
		user->mounts++;
		user->mounted = *mounted;
	} else {
		user->mount_error = *err;
		user->wants_stop = true;
	}
	user_continue(user);
}

static void on_unmounted(const struct volume_mounted *mounted, const struct error *err, void *userdata)
{
	struct csi_user *user = userdata;

	assert_null(err);
	user->task = NULL;
	user->is_without_plugin = mounted != NULL;
	if (mounted)
		str_copy_text(user->kernel, sizeof(user->kernel), mounted->kernel);
	user->state = CSI_USER_RELEASED;
}

static void on_retry(const struct error *err, void *userdata)
{
	struct csi_user *user = userdata;

	user->retries++;
	user->last_retry = *err;
}

/* As an allocation runner does. */
static void user_continue(struct csi_user *user)
{
	struct volume_target target = target_of(user);
	struct error err;

	if (user->task || user->state == CSI_USER_RELEASED)
		return;
	if (user->wants_stop) {
		user->is_unmounting = true;
		assert_ok(volume_manager_unmount(user->node->manager, &target, on_unmounted, on_retry, NULL,
						 user, &user->task, &err));
	} else if (user->state == CSI_USER_CLAIMED) {
		target.details = make_details();
		assert_ok(volume_manager_mount(user->node->manager, &target, on_mounted, user, &user->task,
					       &err));
		secret_message_unref(target.details);
	}
}

struct csi_user *csi_node_add(struct csi_node *node, const char *volume, bool read_only, bool is_device)
{
	struct csi_user *user = &node->users[node->n_users++];

	assert_true(node->n_users <= CSI_USERS_MAX);
	*user = (struct csi_user){.node = node, .read_only = read_only, .is_device = is_device};
	(void)str_copy(user->volume, sizeof(user->volume), volume);
	(void)str_format(user->alloc, sizeof(user->alloc), "0190a5a0-0000-7000-8000-0000000000%02zx",
			 node->n_users);
	node->patience = PATIENCE_TURNS;
	user_continue(user);
	return user;
}

void csi_user_force(struct csi_user *user, bool is_freed)
{
	user->is_forced = true;
	user->node->patience = PATIENCE_TURNS;
	volume_op_force(user->task, is_freed);
}

void csi_user_stop(struct csi_user *user)
{
	user->wants_stop = true;
	user->node->patience = PATIENCE_TURNS;
	if (user->task && !user->is_unmounting)
		volume_op_cancel(user->task);
	user_continue(user);
}

void csi_node_restart(struct csi_node *node)
{
	agent_kill(node);
	agent_start(node);
	node->restarts++;
	node->patience = PATIENCE_TURNS;
	for (size_t i = 0; i < node->n_users; i++) {
		struct csi_user *user = &node->users[i];

		user->task = NULL;
		user->is_unmounting = false;
		if (user->state != CSI_USER_RELEASED)
			volume_manager_note_plugin(node->manager, user->volume);
		if (user->state == CSI_USER_MOUNTED)
			volume_manager_note_published(node->manager, user->volume,
						      user->mounted.is_host_device);
	}
	for (size_t i = 0; i < node->n_users; i++)
		user_continue(&node->users[i]);
}

bool csi_node_all_mounted(struct csi_node *node)
{
	for (size_t i = 0; i < node->n_users; i++) {
		if (node->users[i].state != CSI_USER_MOUNTED)
			return false;
	}
	return true;
}

bool csi_node_all_released(struct csi_node *node)
{
	for (size_t i = 0; i < node->n_users; i++) {
		if (node->users[i].state != CSI_USER_RELEASED)
			return false;
	}
	return true;
}

bool csi_node_is_quiet(struct csi_node *node)
{
	for (size_t i = 0; i < node->n_users; i++) {
		if (node->users[i].task)
			return false;
	}
	return true;
}

/* What a user was told to have it must keep until it is unmounted. */
static void expect_kept(const struct csi_node *node)
{
	for (size_t i = 0; i < node->n_users; i++) {
		const struct csi_user *user = &node->users[i];
		const struct fake_folder *folder;

		if (user->state != CSI_USER_MOUNTED || user->wants_stop)
			continue;
		folder = NON_NULL(fake_helper_folder(&node->fake, user->volume));
		assert_true(folder->targets[user->read_only].is_mounted);
		assert_true(user->is_device || fake_helper_mount(&node->fake, "", user->alloc, 0));
	}
}

/* Where everybody is, for who waits in vain. */
static void users_text(const struct csi_node *node, char *text, size_t size)
{
	static const char *const states[] = {"claimed", "mounted", "released"};

	text[0] = '\0';
	for (size_t i = 0; i < node->n_users; i++) {
		const struct csi_user *user = &node->users[i];
		size_t len = strlen(text);

		(void)snprintf(text + len, size - len, "; %s is %s, step '%s', %u retries: %s", user->volume,
			       states[user->state], user->task ? volume_op_info(user->task).step : "none",
			       user->retries, user->last_retry.msg);
	}
}

/* @what: NULL if unknown */
static void turn(struct csi_node *node, const char *what)
{
	char text[CSI_USERS_MAX * sizeof(struct error)];
	int r = sd_event_run(node->event, IDLE_TURN_US);
	unsigned int weight = r == 0 ? IDLE_TURN_WEIGHT : 1;

	assert_true(r >= 0);
	expect_kept(node);
	if (node->patience < weight) {
		users_text(node, text, sizeof(text));
		fail_msg("waited in vain%s%s%s", what ? " for " : "", what ? what : "", text);
	}
	node->patience -= weight;
}

void csi_node_turn(struct csi_node *node)
{
	turn(node, NULL);
}

void csi_node_until(struct csi_node *node, const char *what, csi_node_condition *condition)
{
	while (!condition(node))
		turn(node, what);
}

void csi_node_expect_nothing(struct csi_node *node)
{
	for (size_t i = 0; i < FAKE_MOUNTS_MAX; i++)
		assert_false(node->fake.state->mounts[i].is_used);
	for (size_t i = 0; i < FAKE_FOLDERS_MAX; i++)
		assert_false(node->fake.state->folders[i].is_used);
}

unsigned int csi_node_calls(const struct csi_node *node, enum csi_method method)
{
	return node->model->calls[method];
}
