/* SPDX-License-Identifier: Apache-2.0 */
#include "workbench.h"

#include "record.h"
#include "ticket_check.h"

#include <sodium.h>

struct policy policy;
struct helper helper;

/* A helper process that has just started. */
void start_helper(const char *extra)
{
	struct state_table *table = helper.state;

	fixture_policy(extra, &policy);
	helper = (struct helper){.agent = policy_agent(&policy, FIXTURE_UID),
				 .launch_mode = LAUNCH_SETUID,
				 .peer_uid = FIXTURE_UID,
				 .peer_pid = 4711,
				 .policy_root_fd = FAKE_POLICY_ROOT_FD,
				 .policy_path = "etc/policy.applied",
				 .state = table,
				 .trail = {.sha256 = crypto_hash_sha256, .head = &table->header.trail}};
	keyline_words(&helper.trail.origin, "cluster", "demo", "node", "node-1");
	(void)str_copy(helper.boot_id, sizeof(helper.boot_id), FIXTURE_BOOT_ID);
	for (int i = 0; i < FS_N; i++)
		helper.type_available[i] = true;
	fake_kernel_open(&helper);
	state_open(helper.state, FIXTURE_BOOT_ID);
	for (int i = 0; i < STATE_RATE_N; i++)
		rate_init(&helper.state->header.rate[i], 1000, 1000, 0);
}

void new_world(const char *extra)
{
	fake_kernel_reset();
	memset(helper.state, 0, sizeof(*helper.state));
	start_helper(extra);
}

int setup(void **state)
{
	helper.state = calloc(1, sizeof(*helper.state));
	new_world("");
	return 0;
}

int teardown(void **state)
{
	free(helper.state);
	return 0;
}

struct mh_reply run(const void *request, size_t n)
{
	union mh_request req = {.bytes = {0}};
	union mh_answer answer;

	memcpy(&req, request, n);
	(void)ops_run(&helper, &req, &answer);
	(void)record_pass_on(&helper); /* as serve() does after the reply */
	assert_int_equal(answer.header.op, req.header.op);
	assert_int_equal(answer.header.seq, req.header.seq);
	assert_int_equal(answer.header.length, sizeof(struct mh_reply));
	assert_int_equal(fake_open_descriptors(), 0);
	assert_int_equal(fake_locks_held(), 0);
	assert_int_equal(fake_timer(), 0);
	return answer.reply;
}

static struct mh_reply look_at(const char *volume, const char *plugin, const char *alloc, uint8_t slot)
{
	struct mh_list req = {.header = mh_header_make(MH_OP_LIST, sizeof(req), 2),
			      .kind = volume[0] != '\0' ? MH_LIST_STAGED : MH_LIST_PUBLISHED};
	struct mh_reply ret = {.status = MH_NOT_FOUND};
	union mh_answer answer;

	(void)str_copy(req.volume, sizeof(req.volume), volume);
	(void)str_copy(req.profile, sizeof(req.profile), plugin);
	do {
		assert_int_equal(ops_run(&helper, &(union mh_request){.list = req}, &answer), REASON_NONE);
		if (answer.list.status != MH_OK)
			return (struct mh_reply){.status = answer.list.status,
						 .sys_errno = answer.list.sys_errno};
		for (uint16_t i = 0; i < answer.list.count; i++) {
			const struct mh_list_entry *entry = &answer.list.entries[i];

			if (!str_eq(entry->volume, volume) || !str_eq(entry->alloc, alloc) ||
			    entry->slot != slot)
				continue;
			ret = (struct mh_reply){.status = MH_OK,
						.state = entry->state,
						.dev_major = entry->dev_major,
						.dev_minor = entry->dev_minor};
		}
		req.cursor = answer.list.cursor;
	} while (req.cursor != 0);
	return ret;
}

struct mh_reply look(const char *volume, const char *alloc, uint8_t slot)
{
	return look_at(volume, "", alloc, slot);
}

struct mh_reply look_csi(const char *volume, const char *plugin)
{
	return look_at(volume, plugin, "", 0);
}

struct mh_reply stage(struct mh_stage req)
{
	return run(&req, sizeof(req));
}

struct mh_reply publish(struct mh_publish req)
{
	return run(&req, sizeof(req));
}

struct mh_reply unpublish(struct mh_unpublish req)
{
	return run(&req, sizeof(req));
}

struct mh_reply unstage(struct mh_unstage req)
{
	return run(&req, sizeof(req));
}

const char *last_record(void)
{
	static char line[2048];
	const char *log = fake_log();
	size_t n = strlen(log);
	const char *start;

	assert_true(n > 0 && log[n - 1] == '\n');
	start = memrchr(log, '\n', n - 1);
	(void)str_copy(line, sizeof(line), start ? start + 1 : log);
	return line;
}

void grant_publish(struct mh_publish *req)
{
	const struct mh_stage staged = fixture_stage();

	fixture_grant_publish(req, &staged.source);
}

struct mh_stage stage_pair(void)
{
	struct mh_stage req = fixture_stage_tmpfs();

	(void)str_copy(req.profile, sizeof(req.profile), "pair");
	memset(&req.ticket, 0, sizeof(req.ticket));
	return req;
}

struct mh_publish publish_pair(uint8_t slot, int propagation)
{
	struct mh_publish req = fixture_publish_tmpfs();

	(void)str_copy(req.profile, sizeof(req.profile), "pair");
	memset(&req.ticket, 0, sizeof(req.ticket));
	req.slot = slot;
	req.propagation = (uint8_t)propagation;
	return req;
}

struct mh_unpublish unpublish_of(const char *volume, uint8_t slot)
{
	struct mh_unpublish req = fixture_unpublish();

	(void)str_copy(req.volume, sizeof(req.volume), volume);
	req.slot = slot;
	return req;
}

struct mh_unstage unstage_of(const char *volume)
{
	struct mh_unstage req = fixture_unstage();

	(void)str_copy(req.volume, sizeof(req.volume), volume);
	return req;
}

struct mh_unstage unstage_csi(const char *volume)
{
	struct mh_unstage req = unstage_of(volume);

	(void)str_copy(req.profile, sizeof(req.profile), "csi.plug");
	return req;
}

static const struct mh_source csi_source = {.class = MH_CLASS_CSI, .u.csi.volume = {7}};

void make_csi(const char *volume)
{
	uint8_t digest[TICKET_DIGEST_SIZE];
	char path[128];

	ticket_source_digest(&csi_source, digest);
	assert_int_equal(state_begin_stage(helper.state, volume, "csi.plug", 0, digest, NULL, FIXTURE_NOW_MS),
			 0);
	state_set_staged(helper.state, volume, "csi.plug", digest);
	fake_make_directory("/srv/stage/.csi", FIXTURE_HELPER_UID, 0755);
	fake_make_directory(PLUG, FIXTURE_HELPER_UID, 0755);
	(void)str_format(path, sizeof(path), PLUG "/%s", volume);
	fake_make_directory(path, FIXTURE_HELPER_UID, 0755);
	(void)str_format(path, sizeof(path), PLUG "/%s/staging", volume);
	fake_make_directory(path, FIXTURE_HELPER_UID, 0755);
	(void)str_format(path, sizeof(path), PLUG "/%s/rw-publish", volume);
	fake_make_directory(path, 0, 0750);
}

struct mh_publish publish_csi(const char *volume, uint8_t slot)
{
	struct mh_publish req = publish_pair(slot, TICKET_PROPAGATION_PRIVATE);

	(void)str_copy(req.volume, sizeof(req.volume), volume);
	(void)str_copy(req.profile, sizeof(req.profile), "csi.plug");
	req.source = csi_source;
	return req;
}
