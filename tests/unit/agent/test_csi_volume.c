/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "alloc/claim_details.h"
#include "kernel/device.h"
#include "kernel/host_devices.h"
#include "model/volume_detail.h"
#include "volume/csi_volume.h"
#include "volume/plugin_owned.h"

#include <malloc.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define SECRET "a-secret-that-nobody-may-see"

/* Does memory that is freed hold the secret? */
static bool is_watching;
static unsigned int leaks;

void __real_free(void *p);

WRAPPED(void, free, void *p)
{
	if (p && is_watching && memmem(p, malloc_usable_size(p), SECRET, strlen(SECRET)))
		leaks++;
	__real_free(p);
}

static const char *sysfs_path; /* that exists */
static const char *sysfs_text;

WRAPPED(int, file_read, const char *path, size_t max, char **ret, size_t *ret_len)
{
	if (!str_eq(path, sysfs_path))
		return -ENOENT;
	*ret = strdup(sysfs_text);
	return *ret ? 0 : -ENOMEM;
}

struct grant {
	Holdfast__V1__ClaimVolumeResponse response;
	Holdfast__V1__ClaimVolumeResponse__PublishContextEntry publish, *publishes[1];
	Holdfast__V1__Volume volume;
	Holdfast__V1__Volume__SecretsEntry secret, *secrets[1];
	Holdfast__V1__Volume__ContextEntry context, *contexts[1];
	Holdfast__V1__MountOptions options;
	char *flags[VOLUME_MOUNT_FLAGS_MAX + 1];
};

static char *text(const char *s)
{
	return TEXT(s);
}

static void grant_init(struct grant *grant)
{
	holdfast__v1__claim_volume_response__init(&grant->response);
	holdfast__v1__claim_volume_response__publish_context_entry__init(&grant->publish);
	holdfast__v1__volume__init(&grant->volume);
	holdfast__v1__volume__secrets_entry__init(&grant->secret);
	holdfast__v1__volume__context_entry__init(&grant->context);
	holdfast__v1__mount_options__init(&grant->options);
	grant->publish.key = text("lun");
	grant->publish.value = text("7");
	grant->publishes[0] = &grant->publish;
	grant->secret.key = text("password");
	grant->secret.value = text(SECRET);
	grant->secrets[0] = &grant->secret;
	grant->context.key = text("pool");
	grant->context.value = text("fast");
	grant->contexts[0] = &grant->context;
	for (size_t i = 0; i < ARRAY_SIZE(grant->flags); i++)
		grant->flags[i] = text("noatime");
	grant->options.fs_type = text("xfs");
	grant->options.mount_flags = grant->flags;
	grant->options.n_mount_flags = 1;
	grant->volume.id = text("data");
	grant->volume.mount_options = &grant->options;
	grant->volume.secrets = grant->secrets;
	grant->volume.n_secrets = 1;
	grant->volume.context = grant->contexts;
	grant->volume.n_context = 1;
	grant->response.volume = &grant->volume;
	grant->response.publish_context = grant->publishes;
	grant->response.n_publish_context = 1;
}

static struct volume_target make_target(struct secret_message *details, bool read_only, bool is_device)
{
	struct volume_target target = {
		.volume_id = "data",
		.wire_volume = "data-0123456789abcdef",
		.external_id = "127.0.0.1/share#vol-a##",
		.profile = "smb",
		.type = VOLUME_CSI,
		.access_mode = MULTI_NODE_MULTI_WRITER,
		.attachment_mode = is_device ? ATTACHMENT_BLOCK_DEVICE : ATTACHMENT_FILE_SYSTEM,
		.read_only = read_only,
		.details = details,
	};

	return target;
}

static void make_paths(const struct volume_target *target, struct csi_volume_request *request)
{
	assert_int_equal(csi_volume_paths("/run/hf/stage", target, &request->paths, NULL), STATUS_OK);
}

/* Through the wire, as the plugin reads it. */
static void *reread(const ProtobufCMessage *message)
{
	uint8_t bytes[4096];
	size_t n = protobuf_c_message_get_packed_size(message);

	assert_true(n <= sizeof(bytes));
	(void)protobuf_c_message_pack(message, bytes);
	return protobuf_c_message_unpack(message->descriptor, NULL, n, bytes);
}

TEST(each_use_has_its_path)
{
	struct volume_target target = {.profile = "p", .wire_volume = "v", .read_only = true};
	struct csi_volume_paths paths = {.target = "before"};
	char base[CSI_VOLUME_PATH_SIZE] = {0};
	struct error err;
	size_t longest = CSI_VOLUME_PATH_SIZE - 1 - strlen("/.csi/p/v/rw-publish");

	assert_int_equal(csi_volume_paths("/s", &target, &paths, &err), STATUS_OK);
	assert_string_equal(paths.staging, "/s/.csi/p/v/staging");
	assert_string_equal(paths.target, "/s/.csi/p/v/ro-publish");
	target.read_only = false;
	assert_int_equal(csi_volume_paths("/s", &target, &paths, &err), STATUS_OK);
	assert_string_equal(paths.target, "/s/.csi/p/v/rw-publish");
	assert_int_equal(csi_volume_paths("", &target, &paths, &err), STATUS_FAILED_PRECONDITION);
	memset(base, 'x', longest);
	base[0] = '/';
	assert_int_equal(csi_volume_paths(base, &target, &paths, &err), STATUS_OK);
	base[longest] = 'x';
	assert_int_equal(csi_volume_paths(base, &target, &paths, &err), STATUS_FAILED_PRECONDITION);
	(void)str_copy(target.profile, sizeof(target.profile), "..");
	assert_int_equal(csi_volume_paths("/s", &target, &paths, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(strlen(paths.target), CSI_VOLUME_PATH_SIZE - 1); /* as it was */
}

TEST(a_plugin_is_reported_all_that_was_granted)
{
	struct secret_message *details;
	struct csi_volume_request request;
	struct volume_target target;
	struct grant grant;
	Csi__V1__NodeStageVolumeRequest *stage;
	Csi__V1__NodePublishVolumeRequest *publish;

	grant_init(&grant);
	assert_int_equal(claim_details_new(&grant.response, &details, NULL), STATUS_OK);
	target = make_target(details, true, false);
	make_paths(&target, &request);
	csi_volume_stage(&target, &request);
	stage = reread(&request.pb.base);
	assert_string_equal(stage->volume_id, "127.0.0.1/share#vol-a##");
	assert_string_equal(stage->staging_target_path,
			    "/run/hf/stage/.csi/smb/data-0123456789abcdef/staging");
	assert_string_equal(stage->secrets[0]->value, SECRET);
	assert_string_equal(stage->volume_context[0]->key, "pool");
	assert_string_equal(stage->publish_context[0]->value, "7");
	assert_string_equal(stage->volume_capability->mount->fs_type, "xfs");
	assert_string_equal(stage->volume_capability->mount->mount_flags[0], "noatime");
	assert_int_equal(stage->volume_capability->access_mode->mode,
			 CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__MULTI_NODE_MULTI_WRITER);
	protobuf_c_message_free_unpacked(&stage->base, NULL);
	for (int stages = 0; stages <= 1; stages++) {
		csi_volume_publish(&target, stages != 0, &request);
		publish = reread(&request.pb.base);
		assert_string_equal(publish->staging_target_path,
				    stages ? "/run/hf/stage/.csi/smb/data-0123456789abcdef/staging" : "");
		assert_string_equal(publish->target_path,
				    "/run/hf/stage/.csi/smb/data-0123456789abcdef/ro-publish");
		assert_true(publish->readonly);
		assert_string_equal(publish->secrets[0]->value, SECRET);
		assert_string_equal(publish->volume_context[0]->value, "fast");
		assert_string_equal(publish->publish_context[0]->key, "lun");
		protobuf_c_message_free_unpacked(&publish->base, NULL);
	}
	secret_message_unref(details);
}

TEST(a_device_is_asked_for_as_such)
{
	struct secret_message *details;
	struct csi_volume_request request;
	struct volume_target target;
	struct grant grant;

	grant_init(&grant);
	assert_int_equal(claim_details_new(&grant.response, &details, NULL), STATUS_OK);
	target = make_target(details, false, true);
	make_paths(&target, &request);
	csi_volume_stage(&target, &request);
	assert_int_equal(request.pb.stage.volume_capability->access_type_case,
			 CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK);
	csi_volume_publish(&target, true, &request);
	assert_int_equal(request.pb.publish.volume_capability->access_type_case,
			 CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK);
	assert_false(request.pb.publish.readonly);
	secret_message_unref(details);
}

TEST(undo_requests_need_only_ids)
{
	const struct volume_target target = make_target(NULL, false, false);
	struct csi_volume_request request;

	make_paths(&target, &request);
	csi_volume_unpublish(&target, &request);
	assert_string_equal(request.pb.unpublish.volume_id, "127.0.0.1/share#vol-a##");
	assert_string_equal(request.pb.unpublish.target_path,
			    "/run/hf/stage/.csi/smb/data-0123456789abcdef/rw-publish");
	csi_volume_unstage(&target, &request);
	assert_string_equal(request.pb.unstage.volume_id, "127.0.0.1/share#vol-a##");
	assert_string_equal(request.pb.unstage.staging_target_path,
			    "/run/hf/stage/.csi/smb/data-0123456789abcdef/staging");
}

TEST(an_expansion_is_of_the_target)
{
	static const struct {
		uint64_t min, max;
		int64_t required, limit;
		bool has_range;
	} rows[] = {
		{0, 0, 0, 0, false},
		{5, 0, 5, 0, true},
		{0, 7, 0, 7, true},
		{UINT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, true},
	};
	const struct volume_target target = make_target(NULL, false, false);
	Holdfast__V1__NodeExpandRequest expand = V1(node_expand_request, .volume_id = text("data"));
	Holdfast__V1__Capability capability = HOLDFAST__V1__CAPABILITY__INIT;
	struct csi_volume_request request;

	make_paths(&target, &request);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		expand.capacity_min = rows[i].min;
		expand.capacity_max = rows[i].max;
		csi_volume_expand(&expand, true, &request);
		assert_int_equal(request.pb.expand.capacity_range != NULL, rows[i].has_range);
		if (!rows[i].has_range)
			continue;
		assert_int_equal(request.pb.expand.capacity_range->required_bytes, rows[i].required);
		assert_int_equal(request.pb.expand.capacity_range->limit_bytes, rows[i].limit);
	}
	assert_string_equal(request.pb.expand.volume_id, "data");
	assert_string_equal(request.pb.expand.volume_path,
			    "/run/hf/stage/.csi/smb/data-0123456789abcdef/rw-publish");
	assert_string_equal(request.pb.expand.staging_target_path,
			    "/run/hf/stage/.csi/smb/data-0123456789abcdef/staging");
	assert_null(request.pb.expand.volume_capability);
	expand.external_id = text("ext");
	capability.access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
	capability.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	expand.capability = &capability;
	csi_volume_expand(&expand, false, &request);
	assert_string_equal(request.pb.expand.volume_id, "ext");
	assert_string_equal(request.pb.expand.staging_target_path, "");
	assert_int_equal(request.pb.expand.volume_capability->access_mode->mode,
			 CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER);
}

static const Holdfast__V1__MountOptions *options_of(const struct secret_message *details)
{
	const ProtobufCMessage *pb = secret_message_get(details);

	return ((const Holdfast__V1__ClaimVolumeResponse *)(const void *)pb)->volume->mount_options;
}

TEST(claim_details_are_bounded)
{
	char fs_type[VOLUME_FS_TYPE_MAX + 2] = {0};
	char flag[VOLUME_MOUNT_FLAG_MAX + 2] = {0};
	struct secret_message *details;
	struct grant grant;
	struct error err;

	for (size_t over = 0; over <= 1; over++) {
		enum status expected = over ? STATUS_INVALID_ARGUMENT : STATUS_OK;

		grant_init(&grant);
		grant.options.n_mount_flags = VOLUME_MOUNT_FLAGS_MAX + over;
		assert_int_equal(claim_details_new(&grant.response, &details, &err), expected);
		if (!over)
			secret_message_unref(details);
		grant_init(&grant);
		memset(fs_type, 'x', VOLUME_FS_TYPE_MAX + over);
		grant.options.fs_type = fs_type;
		assert_int_equal(claim_details_new(&grant.response, &details, &err), expected);
		if (!over)
			secret_message_unref(details);
		grant_init(&grant);
		memset(flag, 'x', VOLUME_MOUNT_FLAG_MAX + over);
		grant.flags[0] = flag;
		assert_int_equal(claim_details_new(&grant.response, &details, &err), expected);
		if (!over)
			secret_message_unref(details);
	}
}

TEST(too_large_a_map_is_refused_without_its_values)
{
	static char big[VOLUME_MAP_BYTES_MAX + 2];
	struct secret_message *details;
	struct error err;

	memset(big, 'x', sizeof(big) - 1);
	memcpy(big, SECRET, strlen(SECRET));
	for (int map = 0; map < 3; map++) {
		struct grant grant;

		grant_init(&grant);
		if (map == 0)
			grant.publish.value = big;
		else if (map == 1)
			grant.secret.value = big;
		else
			grant.context.value = big;
		assert_int_equal(claim_details_new(&grant.response, &details, &err), STATUS_INVALID_ARGUMENT);
		assert_null(strstr(err.msg, SECRET));
	}
}

TEST(secrets_are_wiped_with_the_last_reference)
{
	struct secret_message *details;
	struct grant grant;

	grant_init(&grant);
	leaks = 0;
	is_watching = true;
	assert_int_equal(claim_details_new(&grant.response, &details, NULL), STATUS_OK);
	assert_ptr_equal(secret_message_ref(details), details);
	secret_message_unref(details);
	assert_string_equal(options_of(details)->fs_type, "xfs"); /* still there */
	secret_message_unref(details);
	assert_null(secret_message_ref(NULL));
	secret_message_unref(NULL);
	is_watching = false;
	assert_int_equal(leaks, 0);
}

/* The watch itself sees what is not wiped. */
TEST(the_watch_over_freed_memory_works)
{
	char *copy = strdup(SECRET);

	leaks = 0;
	is_watching = true;
	__wrap_free(copy);
	is_watching = false;
	assert_int_equal(leaks, 1);
}

TEST(a_bound_device_is_identified_by_its_sysfs_name)
{
	static const struct {
		const char *fs_type, *root, *path, *text;
		enum status status;
		uint32_t dev_major, dev_minor;
	} rows[] = {
		{"devtmpfs", "/sdb", "/sys/class/block/sdb/dev", "8:16\n", STATUS_OK, 8, 16},
		{"devtmpfs", "/cciss/c0d1", "/sys/class/block/cciss!c0d1/dev", "104:17\n", STATUS_OK, 104,
		 17},
		{"devtmpfs", "/tty0", "/sys/class/block/sdb/dev", "8:16\n", STATUS_FAILED_PRECONDITION, 0, 0},
		{"devtmpfs", "/", "/sys/class/block//dev", "8:16\n", STATUS_FAILED_PRECONDITION, 0, 0},
		{"devtmpfs", "", "/sys/class/block//dev", "8:16\n", STATUS_FAILED_PRECONDITION, 0, 0},
		{"ext4", "/sdb", "/sys/class/block/sdb/dev", "8:16\n", STATUS_FAILED_PRECONDITION, 0, 0},
		{"tmpfs", "/sdb", "/sys/class/block/sdb/dev", "8:16\n", STATUS_FAILED_PRECONDITION, 0, 0},
		{"devtmpfs", "/sdb", "/sys/class/block/sdb/dev", "8\n", STATUS_FAILED_PRECONDITION, 0, 0},
		{"devtmpfs", "/sdb", "/sys/class/block/sdb/dev", "8:x\n", STATUS_FAILED_PRECONDITION, 0, 0},
		{"devtmpfs", "/sdb", "/sys/class/block/sdb/dev", "", STATUS_FAILED_PRECONDITION, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mount_view view = {0};
		uint32_t dev_major = 0, dev_minor = 0;
		struct error err;

		sysfs_path = rows[i].path;
		sysfs_text = rows[i].text;
		(void)str_copy(view.fs_type, sizeof(view.fs_type), rows[i].fs_type);
		(void)str_copy(view.root, sizeof(view.root), rows[i].root);
		assert_int_equal(device_of_mount(&view, &dev_major, &dev_minor, &err), rows[i].status);
		assert_int_equal(dev_major, rows[i].dev_major);
		assert_int_equal(dev_minor, rows[i].dev_minor);
	}
}

TEST(mounts_of_a_device_are_reported_from_those_elsewhere)
{
	static const struct {
		const char *within[2];
		bool is_elsewhere, is_whole;
	} rows[] = {
		{{"", ""}, true, false},	 {{"/proc", ""}, false, true},
		{{"", "/proc"}, false, true},	 {{"/pro", "/proc/"}, true, false},
		{{"/procs", "/x"}, true, false},
	};
	struct device_mounts found;
	struct stat st;

	assert_int_equal(stat("/proc", &st), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		device_find_mounts(major(st.st_dev), minor(st.st_dev), rows[i].within, &found);
		assert_int_equal(found.is_elsewhere, rows[i].is_elsewhere);
		assert_int_equal(found.is_whole, rows[i].is_whole);
		assert_string_equal(found.point, rows[i].is_elsewhere ? "/proc" : "");
	}
	device_find_mounts(4095, 1, rows[0].within, &found);
	assert_false(found.is_elsewhere || found.is_whole);
}

TEST(a_device_is_mounted_where_the_root_of_its_mount_is)
{
	static const struct {
		const char *point, *within[2];
		bool is_there;
	} rows[] = {
		{"/proc", {"", ""}, true},
		{"/proc", {"/pro", "/x"}, true},
		{"/proc", {"/proc", "/x"}, false},
		{"/proc", {"/x", "/proc"}, false},
		{"/proc/self", {"", ""}, false}, /* a link, and no root of a mount */
		{"/proc/sys", {"", ""}, false},
		{"/", {"", ""}, false}, /* of another device */
		{"/not/there", {"", ""}, false},
		{"proc", {"", ""}, false},
		{"", {"", ""}, false},
	};
	char link[] = "/tmp/holdfast-device-XXXXXX", point[sizeof(link) + 8];
	struct stat st;

	assert_int_equal(stat("/proc", &st), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (device_is_mounted_at(major(st.st_dev), minor(st.st_dev), rows[i].point, rows[i].within) !=
		    rows[i].is_there)
			fail_msg("row %zu, %s", i, rows[i].point);
	}
	assert_false(device_is_mounted_at(4095, 1, "/proc", rows[0].within));
	/* what a link leads to the mount table calls otherwise */
	assert_non_null(mkdtemp(link));
	(void)str_format(point, sizeof(point), "%s/proc", link);
	assert_int_equal(symlink("/proc", point), 0);
	assert_false(device_is_mounted_at(major(st.st_dev), minor(st.st_dev), point, rows[0].within));
	assert_int_equal(unlink(point), 0);
	(void)str_format(point, sizeof(point), "%s/l", link);
	assert_int_equal(symlink("/", point), 0);
	(void)str_format(point, sizeof(point), "%s/l/proc", link);
	assert_false(device_is_mounted_at(major(st.st_dev), minor(st.st_dev), point, rows[0].within));
	(void)str_format(point, sizeof(point), "%s/l", link);
	assert_int_equal(unlink(point), 0);
	assert_int_equal(rmdir(link), 0);
}

TEST(so_many_devices_of_the_host_are_kept_in_mind)
{
	struct host_devices devices = {0};
	char text[DEVICE_POINT_SIZE + 8];

	assert_null(host_devices_point(&devices, 8, 0));
	for (uint32_t i = 0; i < HOST_DEVICES_MAX; i++) {
		(void)str_format(text, sizeof(text), "/mnt/%u", i);
		host_devices_note(&devices, 8, i, text);
	}
	host_devices_note(&devices, 8, 1, "/srv");
	assert_string_equal(host_devices_point(&devices, 8, 0), "/mnt/0");
	assert_string_equal(host_devices_point(&devices, 8, 1), "/srv");
	assert_string_equal(host_devices_point(&devices, 8, HOST_DEVICES_MAX - 1), "/mnt/63");
	assert_null(host_devices_point(&devices, 9, 1));
	host_devices_note(&devices, 9, 1, "/one/more");
	assert_string_equal(host_devices_point(&devices, 9, 1), "/one/more");
	assert_null(host_devices_point(&devices, 8, 0)); /* the oldest */
	assert_string_equal(host_devices_point(&devices, 8, 1), "/srv");
	/* one that just fits may have been cut */
	memset(text, 'x', sizeof(text));
	text[DEVICE_POINT_SIZE - 1] = '\0';
	host_devices_note(&devices, 10, 1, text);
	assert_null(host_devices_point(&devices, 10, 1));
	text[DEVICE_POINT_SIZE - 2] = '\0';
	host_devices_note(&devices, 10, 1, text);
	assert_string_equal(host_devices_point(&devices, 10, 1), text);
}

TEST(the_set_of_a_plugin_has_a_volume_until_it_is_unstaged)
{
	struct plugin_owned_set touches;

	plugin_owned_init(&touches);
	assert_false(plugin_owned_has(&touches, "v"));
	plugin_owned_add(&touches, "v");
	plugin_owned_add(&touches, "v");
	plugin_owned_add(&touches, "w");
	assert_true(plugin_owned_has(&touches, "v"));
	plugin_owned_remove(&touches, "v");
	plugin_owned_remove(&touches, "v");
	assert_false(plugin_owned_has(&touches, "v"));
	assert_true(plugin_owned_has(&touches, "w"));
	assert_int_equal(plugin_owned_device(&touches, "w"), VOLUME_DEVICE_UNCLASSIFIED);
	assert_int_equal(plugin_owned_device(&touches, "x"), VOLUME_DEVICE_UNCLASSIFIED);
	plugin_owned_classify(&touches, "x", VOLUME_DEVICE_HOSTS);
	assert_true(plugin_owned_has(&touches, "x"));
	assert_int_equal(plugin_owned_device(&touches, "x"), VOLUME_DEVICE_HOSTS);
	assert_false(plugin_owned_is_staged(&touches, "x"));
	plugin_owned_mark_staged(&touches, "x", true);
	plugin_owned_mark_staged(&touches, "y", true); /* not among them */
	assert_true(plugin_owned_is_staged(&touches, "x"));
	assert_false(plugin_owned_has(&touches, "y") || plugin_owned_is_staged(&touches, "w"));
	plugin_owned_mark_staged(&touches, "x", false);
	assert_false(plugin_owned_is_staged(&touches, "x"));
	plugin_owned_classify(&touches, "x", VOLUME_DEVICE_OURS); /* if in doubt */
	plugin_owned_classify(&touches, "x", VOLUME_DEVICE_HOSTS);
	assert_int_equal(plugin_owned_device(&touches, "x"), VOLUME_DEVICE_OURS);
	touches.are_all = true; /* memory was short */
	assert_true(plugin_owned_has(&touches, "v"));
	plugin_owned_clear(&touches);
}
