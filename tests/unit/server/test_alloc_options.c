/* SPDX-License-Identifier: Apache-2.0 */
/* Mount options that an allocation asks for: what the plugin is told, and that nobody else is. */

#include "cluster.h"
#include "gc.h"
#include "unit.h"

#include "alloc/options.h"
#include "model/volume_detail.h"
#include "state/keys.h"
#include "state/records.h"
#include "state/text.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>

#define FLAG "allocsize=13m"
#define T(text) ((char *)(uintptr_t)(text))

/* A submission of allocation ALLOC_1 with volume db. */
struct submission {
	Holdfast__V1__RunAllocationRequest request;
	Holdfast__V1__Allocation alloc;
	Holdfast__V1__VolumeRequest volume, *volumes[1];
	Holdfast__V1__MountOptions options;
	char *flags[VOLUME_MOUNT_FLAGS_MAX + 1];
};

static void submission(struct submission *s, const char *fs_type, size_t n_flags)
{
	holdfast__v1__run_allocation_request__init(&s->request);
	holdfast__v1__allocation__init(&s->alloc);
	holdfast__v1__volume_request__init(&s->volume);
	holdfast__v1__mount_options__init(&s->options);
	s->request.allocation = &s->alloc;
	s->alloc.id = T(ALLOC_1);
	s->alloc.name = T("app");
	s->alloc.node_id = T("n1");
	s->volumes[0] = &s->volume;
	s->alloc.volumes = s->volumes;
	s->alloc.n_volumes = 1;
	s->volume.name = T("data");
	s->volume.source = T("db");
	s->volume.access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
	s->volume.mount_options = &s->options;
	s->options.fs_type = T(fs_type);
	for (size_t i = 0; i < ARRAY_SIZE(s->flags); i++)
		s->flags[i] = T(FLAG);
	s->options.mount_flags = s->flags;
	s->options.n_mount_flags = n_flags;
}

static enum status run(struct fixture *f, struct submission *s, ProtobufCMessage **ret, struct error *err)
{
	return call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &s->request.base, ret, err);
}

static Holdfast__V1__ClaimVolumeResponse *claim_db(struct fixture *f)
{
	Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct error err;

	UNTIL(f, f->n1.runs >= 1);
	assert_succeeds(fake_node_claim(&f->n1, "db", ALLOC_1, &response, &err), err);
	return response;
}

TEST_FIXTURE(a_type_takes_the_place_of_the_volumes_and_flags_are_added, setup_db, teardown)
{
	static const struct {
		const char *fs_type;
		size_t n_flags;
		const char *told;
	} cases[] = {
		{"xfs", 1, "xfs"}, {"", 2, "ext4"}, {"xfs", 0, "xfs"}, {"", 0, "ext4"}, /* none at all */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture *f = *state;
		cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
		struct submission s;

		submission(&s, cases[i].fs_type, cases[i].n_flags);
		assert_int_equal(run(f, &s, NULL, NULL), STATUS_OK);
		if (i % 2 == 1) { /* and they are durable */
			restart(f);
			f->n1.runs = 0;
			connect_csi(f);
		}
		response = claim_db(f);
		assert_string_equal(f->plugin.last_fs_type, cases[i].told);
		assert_string_equal(response->volume->mount_options->fs_type, cases[i].told);
		assert_int_equal(response->volume->mount_options->n_mount_flags, cases[i].n_flags);
		if (cases[i].n_flags > 0)
			assert_string_equal(response->volume->mount_options->mount_flags[0], FLAG);
		assert_int_equal(teardown(state), 0);
		assert_int_equal(setup_db(state), 0);
	}
}

/* As drivers mount by the contents then, also of a volume that is older than root's setting. */
TEST_FIXTURE(a_volume_without_a_type_is_mounted_by_that_of_its_plugin, setup_db, teardown)
{
	static const struct {
		size_t n_flags;
		const char *by_root, *stored, *used;
	} cases[] = {
		{0, "xfs", "", "xfs"},
		{2, "xfs", "", "xfs"},
		{0, "xfs", "ext4", "ext4"},
		{2, "", "", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture *f = *state;
		cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
		cleanup(change_release) struct change change = CHANGE_INIT;
		Holdfast__V1__MountOptions options = HOLDFAST__V1__MOUNT_OPTIONS__INIT;
		Holdfast__V1__VolumeDetail detail = HOLDFAST__V1__VOLUME_DETAIL__INIT;
		struct submission s;

		options.fs_type = T(cases[i].stored);
		detail.mount_options = &options;
		change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
		assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
		name_fs_type(f, cases[i].by_root);
		submission(&s, "", cases[i].n_flags);
		assert_int_equal(run(f, &s, NULL, NULL), STATUS_OK);
		response = claim_db(f);
		assert_string_equal(f->plugin.last_fs_type, cases[i].used);
		assert_string_equal(response->volume->mount_options->fs_type, cases[i].used);
		assert_int_equal(response->volume->mount_options->n_mount_flags, cases[i].n_flags);
		assert_int_equal(teardown(state), 0);
		assert_int_equal(setup_db(state), 0);
	}
}

static void set_fs_type(struct fixture *f, const char *fs_type)
{
	Holdfast__V1__MountOptions options = HOLDFAST__V1__MOUNT_OPTIONS__INIT;
	const Holdfast__V1__VolumeDetail detail = V1(volume_detail, .mount_options = &options);
	cleanup(change_release) struct change change = CHANGE_INIT;

	options.fs_type = T(fs_type);
	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
}

/* With tokens and without a type of root's: a volume of before them that is a block device, too. */
TEST_FIXTURE(a_storage_with_a_raw_name_is_not_mounted_by_its_contents, setup_db, teardown)
{
	struct fixture *f = *state;
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume = state_volume(&f->server->state, "default", "db")->volume;
	struct submission s;
	struct error err = {.msg = ""};

	static const char *const by_contents[] = {"", "auto", "f2fs"};

	submission(&s, "", 0);
	s.volume.mount_options = NULL;
	s.volume.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	assert_int_equal(run(f, &s, NULL, &err), STATUS_OK);
	UNTIL(f, f->n1.runs >= 1);
	(void)str_copy(volume.id, sizeof(volume.id), "raw"); /* another name of the storage */
	volume.capabilities[0].attachment_mode = ATTACHMENT_BLOCK_DEVICE;
	change_put_volume(&change, &volume);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, &err), STATUS_OK);
	f->server->config.acl = true;
	for (size_t i = 0; i < ARRAY_SIZE(by_contents); i++) {
		set_fs_type(f, by_contents[i]);
		assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), STATUS_UNAVAILABLE);
		assert_contains(err.msg, "fs_type");
	}
	name_fs_type(f, "ext4");
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), STATUS_OK);
}

/* It is not mounted by its contents. As a device it waits. */
TEST_FIXTURE(a_storage_with_a_raw_name_is_mounted_by_the_type_of_its_volume, setup_db, teardown)
{
	struct fixture *f = *state;
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume = state_volume(&f->server->state, "default", "db")->volume;
	struct submission s;
	struct error err = {.msg = ""};

	volume.capabilities[1] = volume.capabilities[0];
	volume.capabilities[1].attachment_mode = ATTACHMENT_BLOCK_DEVICE;
	volume.n_capabilities = 2;
	change_put_volume(&change, &volume);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, &err), STATUS_OK);
	f->server->config.acl = true;
	submission(&s, "", 0);
	s.volume.mount_options = NULL;
	s.volume.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__BLOCK_DEVICE;
	assert_int_equal(run(f, &s, NULL, &err), STATUS_OK);
	UNTIL(f, f->n1.runs >= 1);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), STATUS_UNAVAILABLE);
	s.alloc.id = T(ALLOC_2);
	s.volume.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	assert_int_equal(run(f, &s, NULL, &err), STATUS_OK);
	UNTIL(f, f->n1.runs >= 2);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_2, NULL, &err), STATUS_OK);
}

static void assert_silent(const ProtobufCMessage *message)
{
	size_t n = protobuf_c_message_get_packed_size(message);
	cleanup_free uint8_t *bytes = malloc(n + 1);

	(void)protobuf_c_message_pack(message, bytes);
	assert_null(memmem(bytes, n, FLAG, strlen(FLAG)));
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_db, teardown)

CASE(no_read_shows_a_flag)
{
	Holdfast__V1__GetAllocationRequest get = HOLDFAST__V1__GET_ALLOCATION_REQUEST__INIT;
	Holdfast__V1__ListAllocationsRequest list = HOLDFAST__V1__LIST_ALLOCATIONS_REQUEST__INIT;
	const char key[] = PREFIX_ALLOC_OPTIONS ALLOC_1;
	const Holdfast__V1__AllocationOptions *kept;
	Holdfast__V1__GetAllocationResponse *got;
	ProtobufCMessage *reply = NULL;
	struct submission s;

	submission(&s, "xfs", 2);
	assert_int_equal(run(f, &s, &reply, NULL), STATUS_OK);
	assert_silent(reply);
	protobuf_c_message_free_unpacked(reply, NULL);
	kept = NON_NULL(records_get(&f->server->state.records, key));
	assert_null(text_of(key, &kept->base)); /* for people with a shell */
	get.id = T(ALLOC_1);
	assert_ok(
		call(&f->operator, & holdfast__v1__allocations__descriptor, "Get", &get.base, &reply, NULL));
	assert_silent(reply);
	got = (void *)reply;
	assert_string_equal(got->allocation->volumes[0]->mount_options->fs_type, "xfs");
	assert_int_equal(got->allocation->volumes[0]->mount_options->n_mount_flags, 1);
	assert_string_equal(got->allocation->volumes[0]->mount_options->mount_flags[0], VOLUME_REDACTED);
	protobuf_c_message_free_unpacked(reply, NULL);
	assert_ok(call(&f->operator, & holdfast__v1__allocations__descriptor, "List", &list.base, &reply,
		       NULL));
	assert_silent(reply);
	protobuf_c_message_free_unpacked(reply, NULL);
}

CASE(mount_options_are_part_of_the_submission)
{
	struct submission s;

	submission(&s, "xfs", 1);
	assert_int_equal(run(f, &s, NULL, NULL), STATUS_OK);
	assert_int_equal(run(f, &s, NULL, NULL), STATUS_OK);
	s.options.n_mount_flags = 2;
	assert_int_equal(run(f, &s, NULL, NULL), STATUS_ALREADY_EXISTS);
	s.options.n_mount_flags = 1;
	s.flags[0] = T("allocsize=14m");
	assert_int_equal(run(f, &s, NULL, NULL), STATUS_ALREADY_EXISTS);
	s.volume.mount_options = NULL;
	assert_int_equal(run(f, &s, NULL, NULL), STATUS_ALREADY_EXISTS);
}

CASE(they_go_with_the_allocation)
{
	Holdfast__V1__GcRequest gc = HOLDFAST__V1__GC_REQUEST__INIT;
	struct submission s;

	submission(&s, "xfs", 1);
	assert_int_equal(run(f, &s, NULL, NULL), STATUS_OK);
	UNTIL(f, f->n1.runs == 1);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, state_alloc(&f->server->state, ALLOC_1)->alloc.client_status == CLIENT_FAILED);
	while (state_alloc(&f->server->state, ALLOC_1)) { /* what ended in this millisecond is kept */
		gc.older_than_ms = 1;
		assert_ok(
			call(&f->operator, & holdfast__v1__operator__descriptor, "Gc", &gc.base, NULL, NULL));
	}
	assert_null(records_get(&f->server->state.records, PREFIX_ALLOC_OPTIONS ALLOC_1));
}

static void device(struct submission *s)
{
	s->volume.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__BLOCK_DEVICE;
}
static void bad_fs_type(struct submission *s)
{
	s->options.fs_type = T("ext4 -o x");
}
static void many_flags(struct submission *s)
{
	s->options.n_mount_flags = VOLUME_MOUNT_FLAGS_MAX + 1;
}
static void empty_flag(struct submission *s)
{
	s->flags[0] = T("");
}
static void redacted(struct submission *s)
{
	s->flags[0] = T(VOLUME_REDACTED);
}
static void many_bytes(struct submission *s)
{
	static char flag[VOLUME_MOUNT_FLAG_MAX + 1];

	memset(flag, 'x', VOLUME_MOUNT_FLAG_MAX);
	memcpy(flag, "allocsize=", 10);
	for (size_t i = 0; i < ARRAY_SIZE(s->flags); i++)
		s->flags[i] = flag;
	s->options.n_mount_flags = ALLOC_OPTIONS_BYTES_MAX / VOLUME_MOUNT_FLAG_MAX;
}

CASE(invalid_mount_options_are_refused_by_field)
{
	static const struct {
		void (*break_it)(struct submission *);
		const char *says, *also;
	} cases[] = {
		{device, "volume data: mount_options", "attachment_mode block-device"},
		{bad_fs_type, "mount_options.fs_type", "ext4 -o x"},
		{many_flags, "mount_options.mount_flags", "33"},
		{empty_flag, "mount_options.mount_flags[0]", "empty"},
		{redacted, "mount_options.mount_flags", "give the flags"},
		{many_bytes, "mount_options", "at most 4096"},
	};
	struct submission s;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		submission(&s, "xfs", 1);
		cases[i].break_it(&s);
		assert_int_equal(run(f, &s, NULL, &err), STATUS_INVALID_ARGUMENT);
		assert_msg(strstr(err.msg, cases[i].says) && strstr(err.msg, cases[i].also) &&
				   !strstr(err.msg, FLAG),
			   "%s", err.msg);
	}
}

/* mount(8) or another program of the plugin could take these for something else. */
CASE(an_allocation_gives_only_plain_mount_options)
{
	static const char *const flags[] = {"upperdir=/stage/staging",
					    "ip=10.6.6.6",
					    "endpoint-url http://10.6.6.6",
					    "prefix",
					    "allow-delete",
					    "--container-name",
					    "noatime,ip=10.6.6.6",
					    "noatime,",
					    "rw",
					    "subvol=x",
					    "allocsize=/x",
					    "allocsize 1m"};
	static const char *const types[] = {"overlay", "fuse.sh", "none", "9p", "EXT4", "f2fs", "btrfs"};
	struct submission s;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		submission(&s, "xfs", 2);
		s.flags[1] = T(flags[i]);
		assert_error(run(f, &s, NULL, &err), STATUS_INVALID_ARGUMENT, err, "mount_flags[1]");
		assert_null(strstr(err.msg, flags[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		submission(&s, types[i], 0);
		assert_error(run(f, &s, NULL, &err), STATUS_INVALID_ARGUMENT, err, types[i]);
	}
	submission(&s, "nfs4", 2);
	s.flags[0] = T("vers=4.2,hard");
	s.flags[1] = T("compress=zstd:3");
	s.request.dry_run = true;
	assert_int_equal(run(f, &s, NULL, NULL), STATUS_OK);
}

static void confine(struct fixture *f)
{
	Holdfast__V1__MountOptions options = HOLDFAST__V1__MOUNT_OPTIONS__INIT;
	const Holdfast__V1__VolumeDetail detail = V1(volume_detail, .mount_options = &options);
	cleanup(change_release) struct change change = CHANGE_INIT;
	char *flags[] = {T("prefix team-a/")};

	options.mount_flags = flags;
	options.n_mount_flags = 1;
	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
}

CASE(flags_of_an_allocation_are_added_to_those_that_confine_its_volume)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	const Holdfast__V1__MountOptions *told;
	struct submission s;

	confine(f);
	submission(&s, "xfs", 1);
	assert_int_equal(run(f, &s, NULL, NULL), STATUS_OK);
	response = claim_db(f);
	told = response->volume->mount_options;
	assert_int_equal(told->n_mount_flags, 2);
	assert_string_equal(told->mount_flags[0], "prefix team-a/");
	assert_string_equal(told->mount_flags[1], FLAG);
	assert_string_equal(f->plugin.last_fs_type, "xfs");
}

/* A store of before the check. */
CASE(stored_options_of_an_allocation_that_are_not_plain_do_nothing)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct submission s;
	Holdfast__V1__VolumeRequest *volumes[1];
	const Holdfast__V1__AllocationOptions options =
		V1(allocation_options, .volumes = volumes, .n_volumes = 1);

	submission(&s, "xfs", 1);
	assert_int_equal(run(f, &s, NULL, NULL), STATUS_OK);
	s.flags[0] = T("upperdir=/x");
	volumes[0] = &s.volume;
	change_put_record(&change, PREFIX_ALLOC_OPTIONS ALLOC_1, &options.base);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	response = claim_db(f);
	assert_string_equal(f->plugin.last_fs_type, "ext4");
	assert_int_equal(response->volume->mount_options->n_mount_flags, 0);
}

/* What is kept of the submission, in bytes. */
static size_t kept_bytes(const struct submission *s)
{
	Holdfast__V1__VolumeRequest volume =
		V1(volume_request, .name = s->volume.name, .mount_options = s->volume.mount_options);
	Holdfast__V1__VolumeRequest *volumes[] = {&volume};
	Holdfast__V1__AllocationOptions options = V1(allocation_options, .volumes = volumes, .n_volumes = 1);

	return protobuf_c_message_get_packed_size(&options.base);
}

CASE(all_of_an_allocation_together_have_a_limit)
{
	char last[VOLUME_MOUNT_FLAG_MAX + 1];
	struct submission s;
	size_t n = 100;

	submission(&s, "", 1);
	many_bytes(&s);
	s.options.n_mount_flags = ALLOC_OPTIONS_BYTES_MAX / VOLUME_MOUNT_FLAG_MAX;
	s.flags[s.options.n_mount_flags - 1] = last;
	memset(last, 'x', sizeof(last));
	memcpy(last, "allocsize=", 10);
	last[n] = '\0';
	n += ALLOC_OPTIONS_BYTES_MAX - kept_bytes(&s); /* the length of a length stays as it is above 127 */
	last[100] = 'x';
	last[--n] = '\0';
	assert_int_equal(kept_bytes(&s), ALLOC_OPTIONS_BYTES_MAX);
	s.request.dry_run = true;
	assert_int_equal(run(f, &s, NULL, NULL), STATUS_OK);
	last[n] = 'x';
	last[n + 1] = '\0';
	assert_int_equal(run(f, &s, NULL, NULL), STATUS_INVALID_ARGUMENT);
}

CLUSTER_TEST(native_volumes_take_no_mount_options)
{
	struct submission s;
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	submission(&s, "xfs", 0);
	assert_error(run(f, &s, NULL, &err), STATUS_INVALID_ARGUMENT, err, "volume data: mount_options");
	assert_non_null(strstr(err.msg, "native"));
}

/* --- on_node_loss, which is kept with them --- */

CASE(an_allocation_has_the_loss_policy_with_which_it_was_submitted)
{
	Holdfast__V1__OnNodeLoss loss = HOLDFAST__V1__ON_NODE_LOSS__INIT;
	Holdfast__V1__GetAllocationRequest get = HOLDFAST__V1__GET_ALLOCATION_REQUEST__INIT;
	const Holdfast__V1__OnNodeLoss *shown;
	cleanup_pb ProtobufCMessage *response = NULL;
	struct submission s;
	struct error err;

	submission(&s, "", 0);
	s.volume.mount_options = NULL;
	s.alloc.on_node_loss = &loss;
	loss.do_ = HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_NETWORK_FENCE;
	loss.after_ms = 1;
	assert_error(run(f, &s, NULL, &err), STATUS_INVALID_ARGUMENT, err,
		     "on_node_loss.after: with a fence it is 5s to 24h");
	loss.after_ms = 30000;
	s.alloc.n_volumes = 0;
	assert_int_equal(run(f, &s, NULL, &err), STATUS_INVALID_ARGUMENT);
	s.alloc.n_volumes = 1;
	assert_int_equal(run(f, &s, NULL, NULL), STATUS_OK);
	assert_int_equal(run(f, &s, NULL, NULL), STATUS_OK); /* the same */
	loss.after_ms = 40000;
	assert_int_equal(run(f, &s, NULL, &err), STATUS_ALREADY_EXISTS);
	restart(f);
	get.id = T(ALLOC_1);
	assert_ok(call(&f->operator, & holdfast__v1__allocations__descriptor, "Get", &get.base, &response,
		       NULL));
	shown = NON_NULL(((Holdfast__V1__GetAllocationResponse *)(void *)response)->allocation->on_node_loss);
	assert_int_equal(shown->after_ms, 30000);
	assert_int_equal(shown->do_, HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_NETWORK_FENCE);
}
