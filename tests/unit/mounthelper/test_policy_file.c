/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled policy: what the compiler writes is accepted, and nothing that differs from it in a byte or is
 * out of its range. */

#include "fixture.h"

#include <sodium.h>

static struct policy_file file, changed;

static const char every_class[] =
	"audit = optional; container = yes; trail_sync = batch\n"
	"profile n { class = nfs4; server = 10.0.0.0/8; server = fd00::/16; export = /srv; export = /e }\n"
	"profile c { class = csi }\n"
	"profile l { class = tmpfs; max_size = 4KiB; selinux_context = u:r:t:s0 }\n"
	"hostvol h { path = /data/h; owner_uid = 0 }\n";

static void compile(const char *extra)
{
	const char *text = fixture_policy_text(extra);
	struct error err = {.msg = ""};
	unsigned int line;

	assert_succeeds(policy_compile("p", text, strlen(text), &file, &line, &err), err);
}

static bool is_accepted(const struct policy_file *from, size_t n)
{
	static struct policy_file read;

	read = *from;
	return policy_file_check(&read, n);
}

TEST(a_compiled_policy_yields_the_agents_own_profiles)
{
	const struct agent_policy *agent;

	const char *text = fixture_policy_text(every_class);
	uint8_t digest[TICKET_DIGEST_SIZE];

	compile(every_class);
	(void)crypto_hash_sha256(digest, (const unsigned char *)text, strlen(text));
	assert_memory_equal(file.text_digest, digest, sizeof(digest));
	assert_true(policy_file_check(&file, sizeof(file)));
	agent = NON_NULL(policy_agent(&file.policy, FIXTURE_UID));
	assert_ptr_equal(agent->profiles, file.policy.profiles);
	assert_int_equal(agent->n_profiles, file.policy.n_profiles);
	assert_int_equal(policy_profile(agent, "h")->class, MH_CLASS_BIND);
	assert_string_equal(policy_profile(agent, "l")->selinux_context, "u:r:t:s0");
	assert_true(policy_profile(agent, "db")->line > agent->line);
}

/* A field of the file, and values that it must not have; texts are changed at their first byte. */
#define AGENT(field) offsetof(struct policy_file, policy.agents[0].field), sizeof(file.policy.agents[0].field)
#define PROFILE(i, field) \
	offsetof(struct policy_file, policy.profiles[i].field), sizeof(file.policy.profiles[i].field)
#define FILE_(field) offsetof(struct policy_file, field), sizeof(file.field)

enum { NFS, CSI, LABELLED, HOSTVOL, DB, RO, IMAGE, MEM };

static const struct {
	size_t at, size;
	uint64_t value;
} out_of_range[] = {
	{FILE_(magic), 0},
	{FILE_(version), POLICY_VERSION + 1},
	{FILE_(version), POLICY_VERSION - 1},
	{FILE_(size), sizeof(file) - 1},
	{FILE_(reserved), 1},
	{FILE_(policy.n_agents), 0},
	{FILE_(policy.n_agents), 2}, /* whose block is empty */
	{FILE_(policy.n_agents), POLICY_AGENT_MAX + 1},
	{FILE_(policy.n_profiles), 2 * POLICY_PROFILE_MAX + 1},
	{FILE_(policy.n_profiles), 7},
	{FILE_(policy.n_hostvols), 9},
	{AGENT(uid), 0},
	{AGENT(uid), UINT32_MAX},
	{AGENT(uid), FIXTURE_HELPER_UID},
	{AGENT(line), 0},
	{AGENT(line), POLICY_TEXT_MAX + 2},
	{AGENT(cluster), 0},
	{AGENT(cluster), '/'},
	{AGENT(node), '.'},
	{AGENT(helper_uid), 0},
	{AGENT(helper_uid), UINT32_MAX},
	{AGENT(helper_gid), 0},
	{AGENT(helper_gid), UINT32_MAX},
	{AGENT(stage_base), 'x'},
	{AGENT(publish_base), 0},
	{AGENT(log), 'x'},
	{AGENT(lock_dir), 'x'},
	{AGENT(ticket_optional), 2},
	{AGENT(keys.n), 0},
	{AGENT(keys.n), POLICY_KEY_MAX + 1},
	{AGENT(audit_optional), 2},
	{AGENT(sync_batch), 2},
	{AGENT(container), 2},
	{AGENT(allow_detach), 255},
	{AGENT(max_staged), 0},
	{AGENT(max_staged), 4097},
	{AGENT(max_published), 0},
	{AGENT(max_published), 32769},
	{AGENT(max_per_alloc), 0},
	{AGENT(max_per_alloc), 33},
	{AGENT(max_tmpfs_total), 4095},
	{AGENT(max_tmpfs_total), (UINT64_C(1) << 60) + 1},
	{AGENT(ops_per_second), 0},
	{AGENT(ops_per_second), 8001},
	{AGENT(burst), 0},
	{AGENT(burst), 10001},
	{AGENT(starts_per_minute), 0},
	{AGENT(starts_per_minute), 6001},
	{AGENT(nfs_timeout_s), 0},
	{AGENT(nfs_timeout_s), 601},
	{AGENT(first_profile), 1},
	{AGENT(first_profile), UINT32_MAX},
	{AGENT(n_profiles), 9},
	{AGENT(n_profiles), UINT32_MAX},
	{AGENT(profiles), 1},
	{PROFILE(DB, name), 0},
	{PROFILE(DB, name), 'A'},
	{PROFILE(DB, line), 0},
	{PROFILE(DB, line), POLICY_TEXT_MAX + 2},
	{PROFILE(DB, class), 0},
	{PROFILE(DB, class), MH_CLASS_N},
	{PROFILE(DB, class), MH_CLASS_TMPFS},
	{PROFILE(DB, class), MH_CLASS_BIND},
	{PROFILE(DB, class), MH_CLASS_CSI},
	{PROFILE(DB, kind), FS_ANY},
	{PROFILE(RO, kind), FS_ANY}, /* without options, which need a kind as well */
	{PROFILE(RO, class), MH_CLASS_CSI},
	{PROFILE(DB, kind), FS_ANY + 1},
	{PROFILE(DB, kind), FS_EROFS}, /* which needs ro */
	{PROFILE(DB, kind), FS_TMPFS},
	{PROFILE(DB, trust), TRUST_UNTRUSTED}, /* an ext4 */
	{PROFILE(DB, trust), TRUST_UNTRUSTED + 1},
	{PROFILE(DB, read_only), 2},
	{PROFILE(DB, exec), 2},
	{PROFILE(IMAGE, exec), 1}, /* untrusted */
	{PROFILE(IMAGE, shared), 1},
	{PROFILE(DB, shared), 2},
	{PROFILE(DB, options), UINT32_C(1) << FS_OPTION_N},
	{PROFILE(MEM, options), UINT32_C(1) << (FS_OPTION_N - 1)}, /* nouuid, of xfs */
	{PROFILE(LABELLED, selinux_context), ':'},
	{PROFILE(DB, n_by_id), POLICY_RULE_MAX + 1},
	{PROFILE(DB, n_by_id), 2}, /* the second is empty */
	{PROFILE(DB, by_id[0].exact), 2},
	{PROFILE(DB, by_id[0].text), '.'},
	{PROFILE(MEM, max_size), (UINT64_C(1) << 50) + 1},
	{PROFILE(MEM, max_inodes), (UINT64_C(1) << 31) + 1},
	{PROFILE(NFS, n_servers), POLICY_RULE_MAX + 1},
	{PROFILE(NFS, server[0].family), 0},
	{PROFILE(NFS, server[0].family), 5},
	{PROFILE(NFS, server[0].prefix_bits), 33},
	{PROFILE(NFS, server[1].prefix_bits), 129},
	{PROFILE(NFS, n_exports), POLICY_RULE_MAX + 1},
	{PROFILE(NFS, export[0]), 'x'},
	{PROFILE(NFS, sec), NFS_SEC_N},
	{PROFILE(NFS, vers), NFS_VERS_N},
	{PROFILE(CSI, kind), FS_NFS4},
	{PROFILE(HOSTVOL, path), 'x'},
	{PROFILE(HOSTVOL, path), 0},
	{PROFILE(DB, path), '/'},
	{PROFILE(HOSTVOL, owner_uid), UINT32_MAX},
	{PROFILE(HOSTVOL, needs_mount), 2},
};

TEST(each_field_out_of_its_range_is_refused)
{
	compile(every_class);
	for (size_t i = 0; i < ARRAY_SIZE(out_of_range); i++) {
		size_t size = out_of_range[i].size > sizeof(uint64_t) ? 1 : out_of_range[i].size;
		uint64_t value = out_of_range[i].value;

		changed = file;
		memcpy((char *)&changed + out_of_range[i].at, &value, size);
		policy_file_digest(&changed, changed.digest);
		assert_msg(!is_accepted(&changed, sizeof(changed)), "row %zu: %llu at %zu is accepted", i,
			   (unsigned long long)value, out_of_range[i].at);
	}
}

/* Byte after byte, each text is filled up to its end: then no NUL is left. */
TEST(a_text_without_an_end_is_refused)
{
	static const struct {
		size_t at, size;
	} texts[] = {{AGENT(cluster)},
		     {AGENT(node)},
		     {AGENT(stage_base)},
		     {AGENT(publish_base)},
		     {AGENT(log)},
		     {AGENT(lock_dir)},
		     {PROFILE(DB, name)},
		     {PROFILE(LABELLED, selinux_context)},
		     {PROFILE(HOSTVOL, path)},
		     {PROFILE(DB, by_id[0].text)},
		     {PROFILE(NFS, export[0])}};

	compile(every_class);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char *text = (char *)&changed + texts[i].at;
		size_t n;

		changed = file;
		n = strlen(text);
		memset(text + n, 'a', texts[i].size - n);
		policy_file_digest(&changed, changed.digest);
		assert_false(is_accepted(&changed, sizeof(changed)));
	}
}

TEST(a_file_of_another_size_is_refused)
{
	compile("");
	assert_true(is_accepted(&file, sizeof(file)));
	assert_false(is_accepted(&file, 0));
	assert_false(is_accepted(&file, sizeof(file) - 1));
	assert_false(is_accepted(&file, sizeof(file) + 1));
}

/* The digest covers the rest; one flip in each stretch of the file, and in every byte of its head. */
TEST(a_flip_of_any_byte_is_refused)
{
	compile(every_class);
	for (size_t i = 0; i < sizeof(file); i += i < offsetof(struct policy_file, policy) ? 1 : 997) {
		((uint8_t *)&file)[i] ^= (uint8_t)(1U << (i % 8));
		assert_msg(!is_accepted(&file, sizeof(file)), "a flip of byte %zu is accepted", i);
		((uint8_t *)&file)[i] ^= (uint8_t)(1U << (i % 8));
	}
	assert_true(is_accepted(&file, sizeof(file)));
}

/* Without the digest, the ranges alone. */
TEST(a_flip_of_every_byte_of_agent_and_profiles_crashes_nothing)
{
	const size_t first = offsetof(struct policy_file, policy.agents);
	const size_t agent_end = first + sizeof(file.policy.agents[0]);
	const size_t profiles = offsetof(struct policy_file, policy.profiles);
	size_t n_accepted = 0;

	compile(every_class);
	for (size_t i = first; i < profiles + 8 * sizeof(struct profile); i++) {
		if (i == agent_end)
			i = profiles;
		((uint8_t *)&file)[i] ^= 0xffU;
		n_accepted += policy_check(&file.policy);
		file.policy.agents[0].profiles = NULL;
		((uint8_t *)&file)[i] ^= 0xffU;
		if (i >= offsetof(struct policy_file, policy.agents[0].profiles) && i < agent_end)
			compile(every_class);
	}
	assert_true(n_accepted > 0); /* bytes of keys, and of what nothing reads */
	assert_true(policy_check(&file.policy));
}

/* Who changes one of these raises POLICY_VERSION: a file of the release before would be read wrongly. */
static const struct {
	size_t is, was;
} version_1[] = {
	{sizeof(struct policy_file), 504288},
	{sizeof(struct agent_policy), 1304},
	{sizeof(struct profile), 3776},
	{sizeof(struct by_id_rule), 133},
	{sizeof(struct server_rule), 18},
	{offsetof(struct policy_file, digest), 16},
	{offsetof(struct policy_file, text_digest), 48},
	{offsetof(struct policy_file, policy.agents), 96},
	{offsetof(struct policy_file, policy.profiles), 20960},
	{offsetof(struct agent_policy, uid), 0},
	{offsetof(struct agent_policy, line), 4},
	{offsetof(struct agent_policy, cluster), 8},
	{offsetof(struct agent_policy, node), 72},
	{offsetof(struct agent_policy, helper_uid), 136},
	{offsetof(struct agent_policy, helper_gid), 140},
	{offsetof(struct agent_policy, stage_base), 144},
	{offsetof(struct agent_policy, publish_base), 400},
	{offsetof(struct agent_policy, log), 656},
	{offsetof(struct agent_policy, lock_dir), 912},
	{offsetof(struct agent_policy, ticket_optional), 1168},
	{offsetof(struct agent_policy, keys), 1172},
	{offsetof(struct agent_policy, audit_optional), 1240},
	{offsetof(struct agent_policy, sync_batch), 1244},
	{offsetof(struct agent_policy, container), 1248},
	{offsetof(struct agent_policy, allow_detach), 1249},
	{offsetof(struct agent_policy, max_staged), 1252},
	{offsetof(struct agent_policy, max_published), 1256},
	{offsetof(struct agent_policy, max_per_alloc), 1260},
	{offsetof(struct agent_policy, max_tmpfs_total), 1264},
	{offsetof(struct agent_policy, ops_per_second), 1272},
	{offsetof(struct agent_policy, burst), 1276},
	{offsetof(struct agent_policy, starts_per_minute), 1280},
	{offsetof(struct agent_policy, nfs_timeout_s), 1284},
	{offsetof(struct agent_policy, first_profile), 1288},
	{offsetof(struct agent_policy, n_profiles), 1292},
	{offsetof(struct agent_policy, profiles), 1296},
	{offsetof(struct profile, name), 0},
	{offsetof(struct profile, line), 64},
	{offsetof(struct profile, class), 68},
	{offsetof(struct profile, kind), 72},
	{offsetof(struct profile, trust), 76},
	{offsetof(struct profile, read_only), 80},
	{offsetof(struct profile, exec), 81},
	{offsetof(struct profile, shared), 82},
	{offsetof(struct profile, needs_mount), 83},
	{offsetof(struct profile, options), 84},
	{offsetof(struct profile, selinux_context), 88},
	{offsetof(struct profile, n_by_id), 216},
	{offsetof(struct profile, by_id), 220},
	{offsetof(struct profile, max_size), 1288},
	{offsetof(struct profile, max_inodes), 1296},
	{offsetof(struct profile, n_servers), 1304},
	{offsetof(struct profile, server), 1308},
	{offsetof(struct profile, n_exports), 1452},
	{offsetof(struct profile, export), 1456},
	{offsetof(struct profile, sec), 3504},
	{offsetof(struct profile, vers), 3508},
	{offsetof(struct profile, path), 3512},
	{offsetof(struct profile, owner_uid), 3768},
};

TEST(the_offsets_are_those_of_the_version)
{
	assert_int_equal(POLICY_VERSION, 1);
	for (size_t i = 0; i < ARRAY_SIZE(version_1); i++)
		assert_msg(version_1[i].is == version_1[i].was, "row %zu: %zu, was %zu", i, version_1[i].is,
			   version_1[i].was);
}
