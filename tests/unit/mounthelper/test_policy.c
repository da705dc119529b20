/* SPDX-License-Identifier: Apache-2.0 */
#include "block_lexer.h"
#include "fixture.h"

static struct policy policy;
static unsigned int line;

/* A complete block; %s is put before its closing brace. */
#define AGENT(uid, folder, rest) AGENT_WITH(uid, "994", folder, rest)
#define AGENT_WITH(uid, helper, folder, rest)                                                         \
	"agent " uid " {\ncluster = demo\nnode = n1\nhelper_uid = " helper "\nhelper_gid = 994\n"     \
	"stage_base = /" folder "/stage\npublish_base = /" folder "/publish\nlog = /" folder "/log\n" \
	"lock_dir = /" folder "/lock\nticket = optional\n" rest "}\n"
#define BLOCK(rest) AGENT("995", "a", rest)

/* policy_parse(), and what it accepts the helper takes when it is compiled. */
static enum status parse(const char *text, size_t n, struct policy *ret, unsigned int *ret_line,
			 struct error *err)
{
	static struct policy_file file;
	enum status status = policy_parse("p", text, n, ret, ret_line, err);

	assert_int_equal(policy_compile("p", text, n, &file, &(unsigned int){0}, NULL), status);
	if (status == STATUS_OK)
		assert_true(policy_file_check(&file, sizeof(file)));
	return status;
}

TEST(the_parsed_policy_matches_its_text)
{
	const struct agent_policy *agent;
	const struct profile *db;

	fixture_policy("allow_detach = yes; max_staged = 5 # comment\ncontainer = no", &policy);
	agent = NON_NULL(policy_agent(&policy, FIXTURE_UID));
	assert_string_equal(agent->cluster, "demo");
	assert_string_equal(agent->node, "node-1");
	assert_int_equal(agent->helper_uid, FIXTURE_HELPER_UID);
	assert_string_equal(agent->publish_base, "/srv/publish");
	assert_string_equal(agent->lock_dir, "/run/hf");
	assert_int_equal(agent->ticket_optional, 0);
	assert_int_equal(agent->keys.n, 1);
	assert_memory_equal(agent->keys.key[0], fixture_public_key(0), TICKET_KEY_SIZE);
	assert_true(agent->allow_detach);
	assert_false(agent->container);
	assert_int_equal(agent->max_staged, 5);
	assert_int_equal(agent->max_published, 4096);
	assert_int_equal(agent->max_per_alloc, 32);
	assert_int_equal(agent->ops_per_second, 20);
	assert_int_equal(agent->burst, 100);
	assert_int_equal(agent->starts_per_minute, 60);
	assert_int_equal(agent->nfs_timeout_s, 30);
	assert_int_equal(agent->audit_optional, 0);
	assert_int_equal(agent->sync_batch, 0);
	assert_int_equal(agent->max_tmpfs_total, 4 << 20);
	assert_int_equal(agent->n_profiles, 4);
	db = NON_NULL(policy_profile(agent, "db"));
	assert_int_equal(db->class, MH_CLASS_BLOCK);
	assert_int_equal(db->kind, FS_EXT4);
	assert_int_equal(db->trust, TRUST_TRUSTED);
	assert_true(db->exec);
	assert_false(db->read_only);
	assert_int_equal(db->options, 1 << fs_option_find("discard", 7) | 1 << fs_option_find("noatime", 7));
	assert_true(policy_profile(agent, "ro")->by_id[0].exact);
	assert_int_equal(policy_profile(agent, "mem")->max_size, 2 << 20);
	assert_null(policy_profile(agent, "d"));
	assert_null(policy_agent(&policy, 1));
}

TEST(every_class_has_its_own_values)
{
	static const char text[] =
		BLOCK("audit = optional; trail_sync = batch; starts_per_minute = 7; nfs_timeout = 5\n"
		      "profile n { class = nfs4; server = 10.16.0.0/12; server = fd00:12::/32; export = /a; "
		      "export = /\n"
		      "sec = krb5i; vers = 4.1; selinux_context = u:r:t:s0 }\n"
		      "hostvol h { path = /data; owner_uid = 1000; shared = yes }\n"
		      "profile c { class = csi; exec = yes }\n"
		      "profile m { class = tmpfs; max_size = 1MiB }\n");
	const struct agent_policy *agent;
	const struct profile *p;

	assert_int_equal(parse(text, sizeof(text) - 1, &policy, &line, NULL), STATUS_OK);
	agent = policy_agent(&policy, 995);
	assert_int_equal(agent->line, 1);
	assert_int_equal(agent->audit_optional, 1);
	assert_int_equal(agent->sync_batch, 1);
	assert_int_equal(agent->starts_per_minute, 7);
	assert_int_equal(agent->nfs_timeout_s, 5);
	p = policy_profile(agent, "n");
	assert_int_equal(p->line, 12);
	assert_int_equal(p->class, MH_CLASS_NFS4);
	assert_int_equal(p->kind, FS_NFS4);
	assert_int_equal(p->n_servers, 2);
	assert_int_equal(p->server[0].family, 4);
	assert_int_equal(p->server[0].prefix_bits, 12);
	assert_memory_equal(p->server[0].addr, "\x0a\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	assert_int_equal(p->server[1].family, 6);
	assert_int_equal(p->server[1].prefix_bits, 32);
	assert_memory_equal(p->server[1].addr, "\xfd\x00\0\x12\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	assert_int_equal(p->n_exports, 2);
	assert_string_equal(p->export[0], "/a");
	assert_string_equal(p->export[1], "/");
	assert_string_equal(nfs_sec_words[p->sec], "krb5i");
	assert_string_equal(nfs_vers_words[p->vers], "4.1");
	assert_string_equal(p->selinux_context, "u:r:t:s0");
	p = policy_profile(agent, "h");
	assert_int_equal(p->class, MH_CLASS_BIND);
	assert_int_equal(p->kind, FS_ANY);
	assert_string_equal(p->path, "/data");
	assert_int_equal(p->owner_uid, 1000);
	assert_true(p->shared);
	p = policy_profile(agent, "c");
	assert_int_equal(p->class, MH_CLASS_CSI);
	assert_int_equal(p->kind, FS_ANY);
	assert_true(p->exec);
	p = policy_profile(agent, "m");
	assert_int_equal(p->kind, FS_TMPFS);
	assert_int_equal(p->max_inodes, 65536);
	assert_string_equal(nfs_sec_words[p->sec], "sys");
	assert_string_equal(nfs_vers_words[p->vers], "4.2");
}

TEST(two_agents_have_their_own_profiles)
{
	static const char text[] =
		AGENT("995", "a", "profile m { class = tmpfs; fstype = tmpfs; max_size = 4KiB }\n")
			AGENT("996", "b", "profile n { class = tmpfs; fstype = tmpfs; max_size = 8KiB }\n");

	assert_int_equal(parse(text, sizeof(text) - 1, &policy, &line, NULL), STATUS_OK);
	assert_null(policy_profile(policy_agent(&policy, 995), "n"));
	assert_int_equal(policy_profile(policy_agent(&policy, 996), "n")->max_size, 8192);
}

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define TMPFS "profile m { class = tmpfs; fstype = tmpfs; max_size = 1MiB }\n"
#define NFS(rest) "profile n { class = nfs4; server = 10.0.0.1; export = /e; " rest " }\n"
#define DISK(rest) "profile d { class = block; fstype = ext4; trust = trusted; by_id = x; " rest " }\n"

static const struct refusal {
	const char *text;
	const char *message; /* NULL: it is none */
} refusals[] = {
	/* the file */
	{"", "p:1: no agent"},
	{"# nothing\n\n", "p:3: no agent"},
	{"agent 995 {\n", "p:2: expected a key or }"},
	{"hello\n", "p:1: expected: agent UID {"},
	{"= 3\n", "p:1: expected: agent UID {"},
	{"agent {\n}", "p:1: expected a name after the keyword"},
	{"agent x {\n}", "p:1: agent x: must be a new uid"},
	{"agent 0 {\n}", "p:1: agent 0: must be a new uid"},
	{"agent 4294967295 {\n}", "p:1: agent 4294967295: must be a new uid"},
	{"agent -1 {\n}", "p:1: agent -1: must be a new uid"},
	{"agent 995\n{\n}", "p:1: expected { after the name"},
	{"agent 995 {\n}\n", "p:1: agent 995 has no cluster"},
	{BLOCK("") "}\n", "p:12: expected: agent UID {"},
	{BLOCK("") BLOCK(""), "p:12: agent 995: must be a new uid"},
	{"a\tb\n\x80\n", "p:2: byte 0x80"},
	{"\r\n", "p:1: byte 0x0d"},
	{"\x7f", "p:1: byte 0x7f"},
	/* statements */
	{BLOCK("hello = 1\n"), "p:11: unknown key 'hello' in agent 995 (not of a profile)"},
	{BLOCK("node = n2\n"), "p:11: node is given more than 1 times"},
	{BLOCK("container\n"), "p:11: expected = after the key"},
	{BLOCK("container = \n"), "p:11: expected a value after ="},
	{BLOCK("container = yes no\n"), "p:11: expected the end of the line or ;"},
	{BLOCK("container = = yes\n"), "p:11: expected a value after ="},
	{BLOCK("{\n}\n"), "p:11: expected a key or }"},
	{BLOCK("container = maybe\n"), "p:11: container = maybe: must be yes or no"},
	{BLOCK("allow_detach = 1\n"), "p:11: allow_detach = 1: must be yes or no"},
	{BLOCK("ticket = no\n"), "p:11: ticket is given more than 1 times"},
	{BLOCK("ticket_key = 00\n"), "p:11: ticket_key = 00: must be 64 hex digits"},
	{BLOCK("ticket_key = " KEY "; ticket_key = " KEY "; ticket_key = " KEY "\n"),
	 "p:11: ticket_key is given more than 2 times"},
	{BLOCK("max_staged = 0\n"), "p:11: max_staged = 0: must be 1 to 4096"},
	{BLOCK("max_staged = 4097\n"), "p:11: max_staged = 4097: must be 1 to 4096"},
	{BLOCK("max_published = 32769\n"), "p:11: max_published = 32769: must be"},
	{BLOCK("max_per_alloc = 33\n"), "p:11: max_per_alloc = 33: must be 1 to 32"},
	{BLOCK("ops_per_second = 8001\n"), "p:11: ops_per_second = 8001: must be 1 to 8000"},
	{BLOCK("burst = 0\n"), "p:11: burst = 0: must be"},
	{BLOCK("max_tmpfs_total = 4095\n"), "p:11: max_tmpfs_total = 4095: must be a size"},
	/* the agent as a whole */
	{"agent 994 {\ncluster = demo\nnode = n\nhelper_uid = 994\nhelper_gid = 1\nstage_base = /s\n"
	 "publish_base = /p\nlog = /l\nlock_dir = /k\nticket = optional\n}\n",
	 "p:1: agent 994: helper_uid must differ"},
	{"agent 995 {\ncluster = demo\nnode = n\nhelper_uid = 994\nhelper_gid = 1\nstage_base = /s\n"
	 "publish_base = /p\nlog = /l\nlock_dir = /k\n}\n",
	 "p:1: agent 995: ticket = required needs a ticket_key"},
	{"agent 995 {\ncluster = demo\nnode = n\nhelper_uid = 994\nhelper_gid = 1\nstage_base = /s\n"
	 "publish_base = /s/p\nlog = /l\nlock_dir = /k\nticket = optional\n}\n",
	 "p:1: a stage_base, publish_base, log, lock_dir or path of a hostvol contains another"},
	{"agent 995 {\ncluster = demo\nnode = n\nhelper_uid = 994\nhelper_gid = 1\nstage_base = /s\n"
	 "publish_base = /p\nlog = /s\nlock_dir = /k\nticket = optional\n}\n",
	 "p:1: a stage_base, publish_base, log, lock_dir or path of a hostvol contains another"},
	{AGENT("995", "a", "") AGENT("996", "a", ""),
	 "p:12: a stage_base, publish_base, log, lock_dir or path"},
	{AGENT("995", "a", "") AGENT("996", "a/log", ""), "p:12: a stage_base, publish_base"},
	{AGENT("995", "a", "") AGENT("994", "b", ""), "p:12: agent 994: helper_uid must differ"},
	/* each of two agents against the other's helper */
	{AGENT_WITH("995", "994", "a", "") AGENT_WITH("994", "993", "b", ""),
	 "p:12: agent 994: an agent has the uid of another agent's helper"},
	{AGENT_WITH("995", "994", "a", "") AGENT_WITH("996", "995", "b", ""),
	 "p:12: agent 996: an agent has the uid of another agent's helper"},
	{"agent 995 {\ncluster = de.mo\n", "p:2: cluster = de.mo: must be a name"},
	{"agent 995 {\nhelper_uid = 0\n", "p:2: helper_uid = 0: must be 1 to 4294967294"},
	{"agent 995 {\nhelper_gid = 4294967295\n", "p:2: helper_gid = 4294967295: must be 1 to 4294967294"},
	{"agent 995 {\nstage_base = srv\n", "p:2: stage_base = srv: must be an absolute path"},
	{"agent 995 {\nstage_base = /\n", "p:2: stage_base = /: must be an absolute path"},
	{"agent 995 {\nstage_base = /a/../b\n", "p:2: stage_base = /a/../b: must be an absolute path"},
	{"agent 995 {\nstage_base = /a//b\n", "p:2: stage_base = /a//b: must be"},
	{"agent 995 {\nstage_base = /a/\n", "p:2: stage_base = /a/: must be"},
	/* profiles */
	{BLOCK("profile {\n}\n"), "p:11: expected a name after the keyword"},
	{BLOCK("profile A {\n}\n"), "p:11: profile A: must be a new name"},
	{BLOCK("profile .csi { class = csi }\n"), "p:11: profile .csi: must be a new name"},
	{BLOCK("profile .. { class = csi }\n"), "p:11: profile ..: must be a new name"},
	{BLOCK("profile a..b { class = csi }\n"), "p:11: profile a..b: must be a new name"},
	{BLOCK("profile a.b { class = tmpfs; fstype = tmpfs; max_size = 1MiB }\n"),
	 "only the name of a profile of class csi"},
	{BLOCK("hostvol a.b { path = /data; owner_uid = 1 }\n"), "only the name of a profile of class csi"},
	{BLOCK("profile a\n{\n}\n"), "p:11: expected { after the name"},
	{BLOCK("profile a {\n}\n"), "p:11: profile a has no class"},
	{BLOCK("profile a { class = block; trust = trusted; by_id = x }\n"), "p:11: profile a has no fstype"},
	{BLOCK(TMPFS TMPFS), "p:12: profile m: must be a new name"},
	{BLOCK("profile a { profile b {\n} }\n"),
	 "p:11: unknown key 'profile' in profile a (its class must come first)"},
	{BLOCK("profile a { node = x\n}\n"),
	 "p:11: unknown key 'node' in profile a (its class must come first)"},
	{BLOCK("profile a { class = bind\n}\n"), "p:11: class = bind: must be block, tmpfs, nfs4 or csi"},
	{BLOCK("profile a { class = block; fstype = btrfs\n}\n"), "p:11: fstype = btrfs: must be"},
	{BLOCK("profile a { class = block; fstype = tmpfs; trust = trusted; by_id = x }\n"),
	 "p:11: profile a: class and fstype do not"},
	{BLOCK("profile a { class = tmpfs; fstype = ext4; max_size = 4KiB }\n"),
	 "p:11: profile a: class and fstype do not"},
	{BLOCK("profile a { class = block; fstype = ext4; by_id = x }\n"), "p:11: profile a has no trust"},
	{BLOCK("profile a { class = block; fstype = ext4; trust = trusted }\n"),
	 "p:11: profile a has no by_id"},
	{BLOCK("profile a { class = tmpfs; fstype = tmpfs }\n"), "p:11: profile a has no max_size"},
	{BLOCK("profile a { class = tmpfs; fstype = tmpfs; max_size = 1M; by_id = x }\n"),
	 "p:11: unknown key 'by_id' in profile a (tmpfs)"},
	{BLOCK(DISK("max_size = 1M")), "p:11: unknown key 'max_size' in profile d (block)"},
	{BLOCK("profile a { class = block; fstype = squashfs; trust = trusted; by_id = x }\n"),
	 "needs ro = yes"},
	{BLOCK("profile a { class = block; fstype = ext4; trust = untrusted; ro = yes; by_id = x }\n"),
	 "trust = untrusted needs fstype"},
	ROW(BLOCK("profile a { class = block; fstype = erofs; trust = untrusted; ro = yes; exec = yes; by_id "
		  "= x }\n"),
	    "trust = untrusted forbids exec and shared"),
	ROW(BLOCK("profile a { class = block; fstype = erofs; trust = untrusted; ro = yes; shared = yes; "
		  "by_id = x }\n"),
	    "trust = untrusted forbids exec and shared"),
	{BLOCK("profile a { class = block; fstype = ext4; trust = both\n}\n"),
	 "trust = both: must be trusted or"},
	{BLOCK(DISK("options = suid")), "p:11: options = suid: must be of"},
	/* nothing that names another device */
	{BLOCK(DISK("options = journal_dev")), "options = journal_dev: must be of"},
	{BLOCK(DISK("options = journal_dev=2049")), "must be of"},
	{BLOCK(DISK("options = journal_path=/dev/sda1")), "must be of"},
	{BLOCK(DISK("options = logdev=/dev/sda1")), "must be of"},
	{BLOCK(DISK("options = rtdev=/dev/sda1")), "must be of"},
	{BLOCK(DISK("options = device=/dev/sda1")), "must be of"},
	{BLOCK(DISK("options = discard,discard")), "options = discard,discard: must be of noatime"},
	{BLOCK(DISK("options = discard,")), "options = discard,: must be of"},
	{BLOCK(DISK("options = nouuid")), "profile d: options has one that this fstype does not know"},
	{BLOCK(DISK("by_id = .x")), "by_id = .x: must be at most 128"},
	{BLOCK(DISK("by_id = a/b")), "by_id = a/b: must be at most 128"},
	{BLOCK(DISK("by_id = exact:")), "by_id = exact:: must be at most 128"},
	ROW(BLOCK(DISK("by_id = a; by_id = a; by_id = a; by_id = a; by_id = a; by_id = a; by_id = a; by_id = "
		       "a")),
	    "p:11: by_id is given more than 8 times"),
	{BLOCK("profile m { class = tmpfs; fstype = tmpfs; max_size = 4095 }\n"),
	 "max_size = 4095: must be a size"},
	{BLOCK("profile m { class = tmpfs; fstype = tmpfs; max_inodes = 2147483649 }\n"),
	 "max_inodes = 2147483649"},
	{BLOCK("profile m { class = tmpfs; fstype = tmpfs; max_size = 1M } x\n"),
	 "p:11: expected the end of the line or ; after }"},
	/* nfs4 */
	{BLOCK(NFS("")), NULL},
	ROW(BLOCK(NFS("server = 10.0.0.0/8; server = 10.1.2.3/32; server = fd00::/8; server = ::1/128\n"
		      "server = 0.0.0.0/0; server = ::/0; server = 10.255.255.255")),
	    NULL),
	ROW(BLOCK(NFS("sec = krb5p; vers = 4.1; fstype = nfs4; options = noatime\n"
		      "selinux_context = system_u:object_r:nfs_t:s0:c0.c1023,c5")),
	    "options has one that this fstype does not know"),
	{BLOCK(NFS("sec = krb5p; vers = 4.1; fstype = nfs4; trust = untrusted; ro = yes")), NULL},
	{BLOCK("profile n { class = nfs4; server = 10.0.0.1 }\n"), "p:11: profile n has no export"},
	{BLOCK("profile n { class = nfs4; export = /e }\n"), "p:11: profile n has no server"},
	{BLOCK(NFS("server = 10.0.0.1/31")), "server = 10.0.0.1/31: must be ADDRESS"},
	{BLOCK(NFS("server = 10.0.0.1/33")), "server = 10.0.0.1/33: must be ADDRESS"},
	{BLOCK(NFS("server = fd00::1/127")), "server = fd00::1/127: must be ADDRESS"},
	{BLOCK(NFS("server = fd00::/129")), "server = fd00::/129: must be ADDRESS"},
	{BLOCK(NFS("server = nas.example")), "server = nas.example: must be ADDRESS"},
	{BLOCK(NFS("server = 10.0.0.0/")), "server = 10.0.0.0/: must be ADDRESS"},
	{BLOCK(NFS("export = a")), "export = a: must be an absolute path"},
	{BLOCK(NFS("export = /a/")), "export = /a/: must be an absolute path"},
	{BLOCK(NFS("export = /a/../b")), "export = /a/../b: must be an absolute path"},
	{BLOCK(NFS("export = /a,b")), "export = /a,b: must be an absolute path"},
	ROW(BLOCK(NFS(
		    "export = /1; export = /2; export = /3; export = /4; export = /5; export = /6; export = "
		    "/7")),
	    NULL),
	ROW(BLOCK(NFS("export = /1; export = /2; export = /3; export = /4; export = /5; export = /6; export "
		      "= /7\n"
		      "export = /8")),
	    "p:12: export is given more than 8 times"),
	{BLOCK(NFS("sec = none")), "sec = none: must be sys, krb5, krb5i or krb5p"},
	{BLOCK(NFS("vers = 4.0")), "vers = 4.0: must be 4.1 or 4.2"},
	{BLOCK(NFS("fstype = ext4")), "p:11: profile n: class and fstype do not go together"},
	{BLOCK(NFS("fstype = nfs")), "fstype = nfs: must be"},
	{BLOCK(NFS("by_id = x")), "unknown key 'by_id' in profile n (nfs4)"},
	{BLOCK(NFS("trust = untrusted; shared = yes")), "trust = untrusted forbids exec and shared"},
	{BLOCK(NFS("selinux_context = a b")),
	 "p:11: expected the end of the line or ; after selinux_context"},
	{BLOCK(NFS("selinux_context = :u:r:t")), "selinux_context = :u:r:t: must be USER:ROLE:TYPE"},
	{BLOCK(NFS("selinux_context = u:r:t\"x")), "must be USER:ROLE:TYPE"},
	{BLOCK(DISK("server = 10.0.0.1")), "unknown key 'server' in profile d (block)"},
	/* csi */
	{BLOCK("profile p { class = csi }\n"), NULL},
	{BLOCK("profile p { class = csi; shared = yes; exec = yes; ro = yes; trust = trusted }\n"), NULL},
	{BLOCK("profile p { class = csi; fstype = ext4 }\n"), "unknown key 'fstype' in profile p (csi)"},
	{BLOCK("profile p { class = csi; options = noatime }\n"), "unknown key 'options' in profile p (csi)"},
	{BLOCK("profile p { class = csi; selinux_context = u:r:t }\n"), "unknown key 'selinux_context'"},
	{BLOCK("profile p { ro = yes; class = csi }\n"),
	 "unknown key 'ro' in profile p (its class must come first)"},
	{BLOCK("profile p { class = csi; class = csi }\n"), "class is given more than 1 times"},
	{BLOCK("profile m { class = tmpfs; max_size = 1GiB }\n"), NULL},
	{BLOCK("profile m { class = tmpfs; max_size = 1073741825 }\n"),
	 "p:1: agent 995: a profile's max_size is above max_tmpfs_total"},
	{BLOCK("profile m { class = tmpfs; trust = trusted; max_size = 1M }\n"), NULL},
	{BLOCK("profile m { class = tmpfs; trust = untrusted; max_size = 1M }\n"),
	 "trust = untrusted needs fstype"},
	/* host volumes */
	{BLOCK("hostvol h { path = /data; owner_uid = 0 }\n"), NULL},
	ROW(BLOCK("hostvol h { path = /data; owner_uid = 4294967294; ro = yes; exec = yes; shared = yes }\n"
		  "hostvol i { path = /data/i; owner_uid = 5; trust = untrusted }\n"),
	    NULL),
	{BLOCK("hostvol h { path = /data; owner_uid = 1; mount = required }\n"), NULL},
	{BLOCK("hostvol h { path = /data; owner_uid = 1; mount = optional }\n"), NULL},
	{BLOCK("hostvol h { path = /data; owner_uid = 1; uuid = 0e7a1c3b-5d29-4f68-8a0b-2c4d6e8f1a35 }\n"),
	 NULL},
	{BLOCK("hostvol h { path = /data; owner_uid = 1; uuid = ../../sda }\n"),
	 "uuid = ../../sda: must be the UUID of an ext4 or xfs, in small letters"},
	{BLOCK("profile b { class = block; fstype = ext4; trust = trusted; uuid = 0e7a1c3b }\n"),
	 "unknown key 'uuid'"},
	{BLOCK("hostvol h { path = /data; owner_uid = 1; mount = yes }\n"),
	 "mount = yes: must be required or optional"},
	{BLOCK("hostvol h { path = /data }\n"), "p:11: hostvol h has no owner_uid"},
	{BLOCK("hostvol h { owner_uid = 1 }\n"), "p:11: hostvol h has no path"},
	{BLOCK("hostvol h { path = /; owner_uid = 1 }\n"), "path = /: must be an absolute path"},
	{BLOCK("hostvol h { path = /data; owner_uid = 4294967295 }\n"),
	 "owner_uid = 4294967295: must be 0 to"},
	{BLOCK("hostvol h { class = bind; path = /data; owner_uid = 1 }\n"),
	 "unknown key 'class' in hostvol h (host volume)"},
	{BLOCK("hostvol h { path = /data; owner_uid = 1; by_id = x }\n"), "unknown key 'by_id' in hostvol h"},
	{BLOCK("hostvol h { path = /data; owner_uid = 1; trust = untrusted; exec = yes }\n"),
	 "p:11: hostvol h: trust = untrusted forbids exec and shared"},
	{BLOCK("hostvol m { path = /data; owner_uid = 1 }\n" TMPFS), "p:12: profile m: must be a new name"},
	{BLOCK("hostvol h { path = /a; owner_uid = 1 }\n"), "p:11: a stage_base, publish_base, log"},
	{BLOCK("hostvol h { path = /a/stage/x; owner_uid = 1 }\n"), "p:11: a stage_base"},
	{BLOCK("hostvol h { path = /a/log; owner_uid = 1 }\n"), "p:11: a stage_base"},
	{BLOCK("hostvol h { path = /a/lock/x; owner_uid = 1 }\n"), "p:11: a stage_base"},
	{BLOCK("hostvol h { path = /a/stagex; owner_uid = 1 }\n"), NULL},
	{BLOCK("hostvol h { path = " HOLDFAST_POLICY_PATH "s; owner_uid = 1 }\n"), NULL},
	{BLOCK("hostvol h { path = /b/publish; owner_uid = 1 }\n") AGENT("996", "b", ""),
	 "p:13: a stage_base, publish_base"},
	/* the agent's other keys */
	{BLOCK("audit = optional; trail_sync = batch; starts_per_minute = 6000; nfs_timeout = 600\n"), NULL},
	{BLOCK("audit = required; trail_sync = always; starts_per_minute = 1; nfs_timeout = 1\n"), NULL},
	{BLOCK("audit = no\n"), "audit = no: must be required or optional"},
	{BLOCK("trail_sync = never\n"), "trail_sync = never: must be always or batch"},
	{BLOCK("starts_per_minute = 0\n"), "starts_per_minute = 0: must be 1 to 6000"},
	{BLOCK("starts_per_minute = 6001\n"), "starts_per_minute = 6001: must be 1 to 6000"},
	{BLOCK("nfs_timeout = 0\n"), "nfs_timeout = 0: must be 1 to 600"},
	{BLOCK("nfs_timeout = 601\n"), "nfs_timeout = 601: must be 1 to 600"},
	{BLOCK("fstype = ext4\n"), "unknown key 'fstype' in agent 995 (not of a profile)"},
	{BLOCK("a-name-of-more-than-all-the-keys-have = 1\n"), "unknown key 'a-name"},
	{"agent 00000000000000000000000000000000000000000000000000000000000000995 {\n}\n",
	 "the name must have at most 63 bytes"},
};

TEST(mistakes_are_refused_with_their_line_and_neighbours_are_not)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct error err = {.msg = ""};
		enum status status = parse(refusals[i].text, strlen(refusals[i].text), &policy, &line, &err);

		if (!refusals[i].message) {
			assert_msg(status == STATUS_OK, "row %zu: %s", i, err.msg);
			continue;
		}
		assert_msg(status == STATUS_INVALID_ARGUMENT && strstr(err.msg, refusals[i].message),
			   "row %zu: status %d, said \"%s\", should say \"%s\"", i, (int)status, err.msg,
			   refusals[i].message);
		assert_msg(strtoul(err.msg + 2, NULL, 10) == line && strncmp(err.msg, "p:", 2) == 0,
			   "row %zu is told at line %u, but says %s", i, line, err.msg);
	}
}

TEST(a_host_volume_that_contains_the_policy_is_refused)
{
	char path[] = HOLDFAST_POLICY_PATH, text[1024];

	for (; path[0] != '\0'; *strrchr(path, '/') = '\0') {
		struct error err = {.msg = ""};

		assert_true(str_format(text, sizeof(text),
				       BLOCK("hostvol h { path = %s; owner_uid = 1; ro = yes }\n"),
				       path) > 0);
		assert_int_equal(parse(text, strlen(text), &policy, &line, &err), STATUS_INVALID_ARGUMENT);
		assert_non_null(strstr(err.msg,
				       "p:11: hostvol h: its path contains the mount helper's "
				       "policy (" HOLDFAST_POLICY_PATH "), and the helper refuses "));
	}
}

TEST(every_key_is_required_or_has_a_default)
{
	static const char *const required[] = {"cluster", "node",	"helper_uid",	"helper_gid",
					       "log",	  "stage_base", "publish_base", "lock_dir"};
	static const char text[] = BLOCK("");

	for (size_t i = 0; i < ARRAY_SIZE(required); i++) {
		struct error err = {.msg = ""};
		cleanup_free char *copy = strdup(text);
		char *at = NON_NULL(strstr(copy, required[i]));

		at[0] = '#';
		assert_int_equal(parse(copy, strlen(copy), &policy, &line, &err), STATUS_INVALID_ARGUMENT);
		assert_string_equal(err.msg + strlen("p:1: agent 995 has no "), required[i]);
	}
	assert_int_equal(parse(text, sizeof(text) - 1, &policy, &line, NULL), STATUS_OK);
}

TEST(limits_hold_exactly)
{
	static char text[POLICY_TEXT_MAX + 2];
	const size_t n = strlen(fixture_policy_text(""));
	char word[BLOCK_WORD_MAX + 64];
	struct error err = {.msg = ""};

	memset(text, '\n', sizeof(text));
	memcpy(text, fixture_policy_text(""), n);
	assert_int_equal(parse(text, POLICY_TEXT_MAX, &policy, &line, NULL), STATUS_OK);
	assert_int_equal(parse(text, POLICY_TEXT_MAX + 1, &policy, &line, &err), STATUS_INVALID_ARGUMENT);
	memset(word, 'a', sizeof(word));
	assert_int_equal(parse(word, BLOCK_WORD_MAX, &policy, &line, &err), STATUS_INVALID_ARGUMENT);
	assert_non_null(strstr(err.msg, "expected: agent"));
	assert_int_equal(parse(word, BLOCK_WORD_MAX + 1, &policy, &line, &err), STATUS_INVALID_ARGUMENT);
	assert_non_null(strstr(err.msg, "a word of 256 bytes"));
}

/* So many blocks of each kind in one agent's block. */
static size_t many(char *text, size_t size, int n_profiles, int n_hostvols)
{
	int used = str_format(text, size, "%s", BLOCK(""));

	used -= 2; /* the closing brace */
	for (int i = 0; i < n_profiles; i++)
		used += str_format(text + used, size - (size_t)used, "profile p%d { class = csi }\n", i);
	for (int i = 0; i < n_hostvols; i++)
		used += str_format(text + used, size - (size_t)used,
				   "hostvol h%d { path = /data; owner_uid = 1 }\n", i);
	used += str_format(text + used, size - (size_t)used, "}\n");
	return (size_t)used;
}

TEST(numbers_of_profiles_and_agents_are_bounded)
{
	static char text[POLICY_TEXT_MAX];
	struct error err = {.msg = ""};
	size_t n = many(text, sizeof(text), POLICY_PROFILE_MAX, POLICY_PROFILE_MAX);
	int used = 0;

	assert_int_equal(parse(text, n, &policy, &line, NULL), STATUS_OK);
	assert_int_equal(policy.n_profiles, 2 * POLICY_PROFILE_MAX);
	n = many(text, sizeof(text), 0, POLICY_PROFILE_MAX + 1);
	assert_int_equal(parse(text, n, &policy, &line, &err), STATUS_INVALID_ARGUMENT);
	assert_non_null(strstr(err.msg, "p:75: hostvol h64: more than 64 of its kind"));
	n = many(text, sizeof(text), POLICY_PROFILE_MAX + 1, 0);
	assert_int_equal(parse(text, n, &policy, &line, &err), STATUS_INVALID_ARGUMENT);
	assert_non_null(strstr(err.msg, "p:75: profile p64: more than 64 of its kind"));
	for (int i = 0; i <= POLICY_AGENT_MAX; i++) {
		used += str_format(
			text + used, sizeof(text) - (size_t)used,
			"agent %d { cluster = d; node = n; helper_uid = 9; helper_gid = 9; ticket = "
			"optional\n"
			"stage_base = /%d/s; publish_base = /%d/p; log = /%d/l; lock_dir = /%d/k }\n",
			1000 + i, i, i, i, i);
		assert_int_equal(parse(text, (size_t)used, &policy, &line, &err),
				 i < POLICY_AGENT_MAX ? STATUS_OK : STATUS_INVALID_ARGUMENT);
	}
	assert_non_null(strstr(err.msg, "p:33: agent 1016: more than 16 agents"));
}

TEST(paths_of_255_bytes_fit_and_longer_ones_do_not)
{
	char text[1024], path[MH_PATH_SIZE + 1];
	struct error err = {.msg = ""};
	int n;

	memset(path, 'a', sizeof(path));
	for (size_t i = 0; i < sizeof(path); i += 64)
		path[i] = '/';
	path[MH_PATH_SIZE - 1] = '\0';
	n = str_format(text, sizeof(text),
		       "agent 9 { cluster = d; node = n; helper_uid = 8; helper_gid = 8; ticket = optional\n"
		       "stage_base = /s; publish_base = %s; log = /l; lock_dir = /k }\n",
		       path);
	assert_int_equal(parse(text, (size_t)n, &policy, &line, &err), STATUS_OK);
	path[MH_PATH_SIZE - 1] = 'a';
	path[MH_PATH_SIZE] = '\0';
	n = str_format(text, sizeof(text), "agent 9 {\npublish_base = %s\n", path);
	assert_int_equal(parse(text, (size_t)n, &policy, &line, &err), STATUS_INVALID_ARGUMENT);
	assert_non_null(strstr(err.msg, "p:2: a word of 256 bytes"));
}

TEST(a_policy_cut_anywhere_is_refused)
{
	char text[4096];
	size_t n;

	(void)str_copy(text, sizeof(text), fixture_policy_text(""));
	n = strlen(text) - 2; /* without the closing brace */
	for (size_t i = 0; i <= n; i++) {
		char *exact = malloc(i + 1); /* so that a sanitizer sees a read beyond */

		memcpy(exact, text, i);
		assert_int_equal(parse(exact, i, &policy, &line, NULL), STATUS_INVALID_ARGUMENT);
		free(exact);
	}
}

static bool allows_by_id(const struct profile *profile, const char *by_id)
{
	struct mh_source source = {.class = MH_CLASS_BLOCK};

	(void)str_copy(source.u.block.by_id, sizeof(source.u.block.by_id), by_id);
	return profile_admit_source(profile, &source) == REASON_NONE;
}

TEST(by_id_rules_match_prefixes_and_whole_names)
{
	const struct agent_policy *agent;
	const struct profile *prefix, *exact;

	fixture_policy("", &policy);
	agent = policy_agent(&policy, FIXTURE_UID);
	prefix = policy_profile(agent, "db");
	exact = policy_profile(agent, "ro");
	assert_true(allows_by_id(prefix, "holdfast-demo-1"));
	assert_true(allows_by_id(prefix, "holdfast-demo-"));
	assert_false(allows_by_id(prefix, "holdfast-demo"));
	assert_false(allows_by_id(prefix, "xholdfast-demo-1"));
	assert_true(allows_by_id(exact, "holdfast-demo-1"));
	assert_false(allows_by_id(exact, "holdfast-demo-11"));
}
