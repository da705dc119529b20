/* SPDX-License-Identifier: Apache-2.0 */
/* An engine that lies: in each row one field of what it made differs from what it was asked for. */
#include "folder.h"
#include "readback.h"
#include "unit.h"

#include "base/fd.h"

#include <sys/stat.h>

#define PUBLISH "/run/publish"
#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Slot 0 is read-only, slot 1 is not; /srv is a folder of the root file system. */
static const char host_table[] =
	"20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
	"21 20 0:6 / /dev rw,nosuid - devtmpfs udev rw\n"
	"24 21 0:7 / /dev/shm rw - tmpfs shm rw\n"
	"22 20 8:2 /stage/a " PUBLISH "/A/0 ro,nosuid,nodev,noexec master:4 - ext4 /dev/sdb rw\n"
	"23 20 8:3 / " PUBLISH "/A/1 rw,nosuid,nodev - ext4 /dev/sdc rw\n";

static const char asked_text[] =
	"{\"User\":\"1000\",\"WorkingDir\":\"/srv/"
	"app\",\"Hostname\":\"db\",\"Env\":[\"A=1\"],\"Labels\":{\"dev.holdfast.alloc\":\"A\"},"
	"\"HostConfig\":{\"Privileged\":false,\"ReadonlyRootfs\":false,\"SecurityOpt\":[\"no-new-"
	"privileges\"],\"CapAdd\":[\"CAP_NET_RAW\"],\"NetworkMode\":\"none\",\"Memory\":67108864,"
	"\"MemorySwap\":100663296,\"NanoCpus\":290000000,\"CpuShares\":512,"
	"\"PidsLimit\":100,\"Mounts\":[{\"Type\":\"bind\",\"Source\":\"" PUBLISH "/A/0\",\"Target\":\"/"
	"ro\",\"ReadOnly\":true,\"BindOptions\":{\"Propagation\":\"rslave\"}},{\"Type\":\"bind\",\"Source\":"
	"\"" PUBLISH "/A/1\",\"Target\":\"/"
	"rw\",\"ReadOnly\":false,\"BindOptions\":{\"Propagation\":\"rprivate\"}},{\"Type\":\"bind\","
	"\"Source\":\"/srv\",\"Target\":\"/"
	"host\",\"ReadOnly\":true,\"BindOptions\":{\"Propagation\":\"rprivate\",\"NonRecursive\":true}}]}}";

#define MOUNT(source, target, rw, propagation)                                                   \
	"{\"Type\":\"bind\",\"Source\":\"" source "\",\"Destination\":\"" target "\",\"RW\":" rw \
	",\"Propagation\":\"" propagation "\"}"

static const char answer_text[] =
	"{\"Config\":{\"Healthcheck\":{\"Test\":[\"NONE\"]},\"User\":\"1000\",\"WorkingDir\":\"/srv/"
	"app\",\"Hostname\":\"db\",\"Env\":[\"PATH=/"
	"bin\",\"A=1\"],\"Labels\":{\"dev.holdfast.alloc\":\"A\",\"of.image\":\"x\"}},\"HostConfig\":{"
	"\"Privileged\":false,\"ReadonlyRootfs\":false,\"SecurityOpt\":[\"no-new-privileges\"],\"CapAdd\":["
	"\"CAP_NET_RAW\"],\"NetworkMode\":\"none\",\"Memory\":67108864,\"PidsLimit\":100,\"Devices\":[],"
	"\"MemorySwap\":100663296,\"NanoCpus\":289990000,\"CpuShares\":512,\"OomKillDisable\":null,"
	"\"MaskedPaths\":[\"/proc/keys\"],\"ReadonlyPaths\":[\"/proc/sys\"],"
	"\"RestartPolicy\":{\"Name\":\"no\",\"MaximumRetryCount\":0},\"AutoRemove\":false,"
	"\"PidMode\":\"private\",\"IpcMode\":\"shareable\",\"UTSMode\":\"\",\"UsernsMode\":\"\"},\"Mounts\":"
	"[" MOUNT(PUBLISH "/A/0", "/ro", "false", "rslave") "," MOUNT(
		PUBLISH "/A/1", "/rw", "true",
		"rprivate") "," MOUNT("/srv", "/host", "false",
				      "rprivate") ",{\"Type\":\"volume\",\"Name\":\"" HEX64
						  "\",\"Destination\":\"/var/cache\",\"RW\":true}]}";

static const char inside_table[] =
	"40 1 0:50 / / rw - overlay overlay rw\n"
	"41 40 0:51 / /proc rw,nosuid - proc proc rw\n"
	"42 40 0:52 / /dev rw,nosuid - tmpfs tmpfs rw\n"
	"43 42 0:53 / /dev/pts rw - devpts devpts rw\n"
	"44 41 0:6 /null /proc/keys ro - devtmpfs udev rw\n"
	"45 40 8:2 /stage/a /ro ro,nosuid,nodev,noexec master:9 - ext4 /dev/sdb rw\n"
	"46 40 8:3 / /rw rw,nosuid,nodev - ext4 /dev/sdc rw\n"
	"47 40 8:1 /srv /host ro - ext4 /dev/sda1 rw\n"
	"48 40 8:1 /var/engine/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
	"49 40 8:1 /var/engine/volumes/x/_data /var/cache rw - ext4 /dev/sda1 rw\n";

#define STATUS_OF_IDS(uid, gid, groups, inh, prm, eff, bnd, amb, nnp)                                       \
	"Name:\tsh\nState:\tS (sleeping)\nUid:\t" uid "\nGid:\t" gid "\nGroups:\t" groups "\nCapInh:\t" inh \
	"\nCapPrm:\t" prm "\nCapEff:\t" eff "\nCapBnd:\t" bnd "\nCapAmb:\t" amb "\nNoNewPrivs:\t" nnp       \
	"\nSeccomp:\t2\n"
#define STATUS_OF(uid, inh, prm, eff, bnd, amb, nnp) \
	STATUS_OF_IDS(uid, UIDS("0"), "", inh, prm, eff, bnd, amb, nnp)
#define UIDS(n) n "\t" n "\t" n "\t" n
#define NO_CAPS "0000000000000000"
#define RAW "0000000000002000"

struct fixture {
	char folder[FOLDER_SIZE], host[FOLDER_SIZE + 16], inside[FOLDER_SIZE + 16];
	struct readback *readback;
};

static void put(const char *path, const char *text)
{
	assert_int_equal(file_write_atomic(path, 0600, text, strlen(text)), 0);
}

static struct readback *read_asked(const char *host, const char *text, bool drops_flags)
{
	struct readback *readback = NULL;
	cleanup(json_decrefp) json_t *asked = json_loads(text, 0, NULL);
	struct error err;

	assert_non_null(asked);
	assert_succeeds(readback_new(host, PUBLISH, asked, drops_flags, &readback, &err), err);
	return readback;
}

static int begin(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	folder_make(f->folder);
	(void)snprintf(f->host, sizeof(f->host), "%s/host", f->folder);
	(void)snprintf(f->inside, sizeof(f->inside), "%s/inside", f->folder);
	put(f->host, host_table);
	put(f->inside, inside_table);
	f->readback = read_asked(f->host, asked_text, false);
	*state = f;
	return 0;
}

UNIT_TEARDOWN(end, struct fixture, f)
{
	readback_free(f->readback);
	folder_remove(f->folder);
}

/* @text with the first @old in it replaced. Owned by the caller. */
static char *replaced(const char *text, const char *old, const char *new)
{
	const char *at = strstr(text, old);
	char *ret = malloc(strlen(text) + strlen(new) + 1);

	assert_msg(at, "'%s' is not there", old);
	(void)sprintf(ret, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
	return ret;
}

static bool inspect(struct fixture *f, const char *text, struct readback_fault *fault)
{
	cleanup(json_decrefp) json_t *json = json_loads(text, 0, NULL);
	bool is_same;

	assert_msg(json, "no JSON: %s", text);
	is_same = readback_inspect(f->readback, json, fault);
	return is_same;
}

/* As podman's own API describes the container; /host is no volume. */
static const char podman_text[] =
	"{\"Mounts\":[{\"Destination\":\"/ro\",\"Options\":[\"rbind\","
	"\"nosuid\",\"nodev\",\"noexec\"],\"RW\":false},{\"Destination\":\"/rw\",\"Options\":[\"rbind\","
	"\"nodev\",\"nosuid\"],\"RW\":true},{\"Destination\":\"/host\",\"Options\":[],\"RW\":true}]}";

static bool has_options(struct fixture *f, const char *text, struct readback_fault *fault)
{
	cleanup(json_decrefp) json_t *json = json_loads(text, 0, NULL);

	assert_non_null(json);
	return readback_options(f->readback, json, fault);
}

#define CASE(name) TEST_ON(name, struct fixture, f, begin, end)

CASE(each_field_that_an_engine_describes_otherwise_is_found)
{
	static const struct {
		const char *old, *new, *field;
	} rows[] = {
		{"\"User\":\"1000\"", "\"User\":\"0\"", "user"},
		{"\"User\":\"1000\"", "\"User\":\"\"", "user"},
		{"/srv/app", "/", "work_dir"},
		{"\"Hostname\":\"db\"", "\"Hostname\":\"x\"", "hostname"},
		{"\"A=1\"", "\"A=2\"", "env"},
		{"\"dev.holdfast.alloc\":\"A\"", "\"dev.holdfast.alloc\":\"B\"", "labels"},
		{"\"dev.holdfast.alloc\":\"A\",", "", "labels"},
		{"\"Privileged\":false", "\"Privileged\":true", "privileged"},
		{"\"ReadonlyRootfs\":false", "\"ReadonlyRootfs\":true", "read_only_root"},
		{"\"no-new-privileges\"", "\"label=disable\"", "no_new_privileges"},
		{"[\"CAP_NET_RAW\"]", "[\"CAP_NET_RAW\",\"CAP_SYS_ADMIN\"]", "capabilities"},
		{"\"Devices\":[]", "\"GroupAdd\":[\"6\"]", "groups"},
		{"\"NetworkMode\":\"none\"", "\"NetworkMode\":\"host\"", "network"},
		{"\"NetworkMode\":\"none\"", "\"NetworkMode\":\"container:x\"", "network"},
		{"\"Devices\":[]", "\"Devices\":[{\"PathOnHost\":\"/dev/sda\"}]", "devices"},
		{"\"Devices\":[]", "\"DeviceRequests\":[{}]", "devices"},
		{"\"Devices\":[]", "\"DeviceCgroupRules\":[\"a *:* rwm\"]", "devices"},
		{"\"PidMode\":\"private\"", "\"PidMode\":\"host\"", "pid_namespace"},
		{"\"IpcMode\":\"shareable\"", "\"IpcMode\":\"host\"", "ipc_namespace"},
		{"\"IpcMode\":\"shareable\"", "\"IpcMode\":\"container:x\"", "ipc_namespace"},
		{"\"UTSMode\":\"\"", "\"UTSMode\":\"host\"", "uts_namespace"},
		{"\"UsernsMode\":\"\"", "\"UsernsMode\":\"host\"", "user_namespace"},
		{"\"Memory\":67108864", "\"Memory\":0", "memory"},
		{"\"Memory\":67108864", "\"Memory\":67108865", "memory"},
		{"\"PidsLimit\":100", "\"PidsLimit\":null", "pids"},
		{"\"MemorySwap\":100663296", "\"MemorySwap\":-1", "memory_swap"},
		{"\"NanoCpus\":289990000", "\"NanoCpus\":0", "cpu"},
		{"\"NanoCpus\":289990000", "\"NanoCpus\":290010000", "cpu"},
		{"\"NanoCpus\":289990000", "\"NanoCpus\":289000000", "cpu"},
		{"\"NanoCpus\":289990000", "\"NanoCpus\":-9223372036854775807", "cpu"},
		{"\"CpuShares\":512", "\"CpuShares\":1024", "cpu_shares"},
		{"\"OomKillDisable\":null", "\"OomKillDisable\":true", "oom_kill"},
		{"[\"no-new-privileges\"]", "[\"no-new-privileges\",\"seccomp=unconfined\"]", "security"},
		{"[\"no-new-privileges\"]", "[\"no-new-privileges\",\"apparmor:unconfined\"]", "security"},
		{"[\"no-new-privileges\"]", "[\"no-new-privileges\",\"label=disable\"]", "security"},
		{"[\"no-new-privileges\"]", "[\"no-new-privileges\",\"unmask=all\"]", "security"},
		{"[\"/proc/keys\"]", "[]", "kernel_paths"},
		{"[\"/proc/sys\"]", "[]", "kernel_paths"},
		{"\"Name\":\"no\"", "\"Name\":\"always\"", "restart_policy"},
		{"\"AutoRemove\":false", "\"AutoRemove\":true", "auto_remove"},
		{PUBLISH "/A/0", "/srv/secret", "mount_source"},
		{PUBLISH "/A/1", PUBLISH "/B/1", "mount_source"},
		{"\"/ro\",\"RW\":false", "\"/ro\",\"RW\":true", "mount_rw"},
		{"\"/rw\",\"RW\":true", "\"/rw\",\"RW\":false", "mount_rw"},
		{"rslave", "rshared", "mount_propagation"},
		{"\"CAP_NET_RAW\"", "\"CAP_SYS_ADMIN\"", "capabilities"},
		{"\"CAP_NET_RAW\"", "\"SYS_ADMIN\"", "capabilities"},
		{"\"/host\"", "\"/etc\"", "mount"},
		{MOUNT("/srv", "/host", "false", "rprivate") ",", "", "mount"},
		{HEX64, "db", "mount"},
		{HEX64, HEX64 "-db", "mount"}, /* a volume of somebody's, called so */
		{"\"Type\":\"volume\"", "\"Type\":\"tmpfs\"", "mount"},
		{"/var/cache", "/proc", "mount"}, /* of the image */
		{"/var/cache", "/sys/fs/cgroup", "mount"},
		{"/var/cache", "/dev/shm", "mount"},
		{"/var/cache", "/var/../proc", "mount"},
		{"/var/cache", "/", "mount"},
		{"[\"NONE\"]", "[\"CMD\",\"x\"]", "healthcheck"},
		{"[\"NONE\"]", "[]", "healthcheck"},
		{"\"Healthcheck\":{\"Test\":[\"NONE\"]},", "", "healthcheck"},
	};
	struct readback_fault fault;

	assert_msg(inspect(f, answer_text, &fault), "%s: '%s' instead of '%s'", fault.field, fault.found,
		   fault.ordered);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup_free char *text = replaced(answer_text, rows[i].old, rows[i].new);

		assert_msg(!inspect(f, text, &fault), "row %zu, %s, was taken", i, rows[i].field);
		assert_string_equal(fault.field, rows[i].field);
	}
}

CASE(limits_below_the_order_and_names_without_cap_are_accepted)
{
	static const struct {
		const char *old, *new;
	} rows[] = {
		{"\"Memory\":67108864", "\"Memory\":33554432"},
		{"\"MemorySwap\":100663296", "\"MemorySwap\":67108864"},
		{"\"PidsLimit\":100", "\"PidsLimit\":10"},
		{"\"CAP_NET_RAW\"", "\"NET_RAW\""}, /* as podman describes it */
	};
	struct readback_fault fault;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup_free char *text = replaced(answer_text, rows[i].old, rows[i].new);

		assert_msg(inspect(f, text, &fault), "row %zu: %s", i, fault.field);
	}
}

CASE(each_mount_that_the_kernel_has_otherwise_is_found)
{
	static const struct {
		const char *old, *new, *field;
	} rows[] = {
		{"8:2 /stage/a /ro", "8:9 /stage/a /ro", "mount_source"}, /* another device */
		{"8:2 /stage/a /ro", "8:2 /stage/b /ro", "mount_source"}, /* another volume of it */
		{"8:2 /stage/a /ro", "8:2 / /ro", "mount_source"},
		{"/ro ro,nosuid,nodev,noexec", "/ro rw,nosuid,nodev,noexec", "mount_flags"},
		{"/ro ro,nosuid,nodev,noexec", "/ro ro,nodev,noexec", "mount_flags"},
		{"/ro ro,nosuid,nodev,noexec", "/ro ro,nosuid,noexec", "mount_flags"},
		{"/ro ro,nosuid,nodev,noexec", "/ro ro,nosuid,nodev", "mount_flags"},
		{"/rw rw,nosuid,nodev", "/rw rw,nosuid", "mount_flags"},
		{"/host ro", "/host rw", "mount_flags"},
		{"master:9", "shared:9", "mount_propagation"},
		{"master:9 ", "", "mount_propagation"},
		{"/rw rw,nosuid,nodev -", "/rw rw,nosuid,nodev shared:1 -", "mount_propagation"},
		{"/rw rw,nosuid,nodev -", "/rw rw,nosuid,nodev master:1 -", "mount_propagation"},
		{"46 40 8:3 / /rw rw,nosuid,nodev - ext4 /dev/sdc rw\n", "", "mount"},
		{"8:1 /var/engine/hosts /etc/hosts", "8:1 /etc/shadow /etc/hosts", "mount"},
		{"8:1 /var/engine/hosts /etc/hosts", "8:1 /var/engine/hosts /root", "mount"},
		{"8:1 /var/engine/volumes/x/_data", "8:1 /root", "mount"},
		{"/var/cache", "/var/other", "mount"},
		{"0:51 / /proc rw,nosuid - proc", "8:1 /root /proc rw,nosuid - ext4", "mount"},
		{"0:52 / /dev rw,nosuid - tmpfs", "0:6 / /dev rw,nosuid - devtmpfs", "devices"},
		{"0:53 / /dev/pts rw - devpts", "0:6 /sda /dev/sda rw - devtmpfs", "devices"},
		{"0:53 / /dev/pts rw - devpts", "0:7 / /dev/shm rw - tmpfs", "ipc_namespace"},
		{"0:50 / / rw - overlay", "8:1 / / rw - ext4", "mount"},
		{"48 40", "50 47 8:7 / /host/below rw - ext4 /dev/sdd rw\n48 40", "mount"},
		{"48 40", "50 45 8:9 / /ro rw - ext4 /dev/sdd rw\n48 40", "mount_source"}, /* over it */
	};
	struct readback_fault fault;

	assert_true(inspect(f, answer_text, &fault));
	assert_msg(readback_mounts(f->readback, f->inside, f->host, &fault), "%s: '%s' instead of '%s'",
		   fault.field, fault.found, fault.ordered);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup_free char *text = replaced(inside_table, rows[i].old, rows[i].new);

		put(f->inside, text);
		assert_msg(!readback_mounts(f->readback, f->inside, f->host, &fault),
			   "row %zu, %s, was taken", i, rows[i].field);
		assert_msg(str_eq(fault.field, rows[i].field), "row %zu: %s instead of %s", i, fault.field,
			   rows[i].field);
	}
	assert_false(readback_mounts(f->readback, "/nonexistent", f->host, &fault));
}

/* A default that the engine does not describe. */
CASE(a_field_that_an_engine_leaves_out_is_its_default)
{
	cleanup_free char *masked = replaced(answer_text, "\"MaskedPaths\":[\"/proc/keys\"],", "");
	cleanup_free char *named = replaced(masked, "[\"no-new-privileges\"]",
					    "[\"no-new-privileges\",\"apparmor=containers-default\"]");
	cleanup_free char *policy = replaced(named, "\"Name\":\"no\",", "");
	struct readback_fault fault;

	assert_msg(inspect(f, policy, &fault), "%s: '%s'", fault.field, fault.found);
}

static void make_folder(struct fixture *f, const char *name)
{
	char path[FOLDER_SIZE + 32];

	(void)snprintf(path, sizeof(path), "%s/%s", f->folder, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

/* The files of /proc and /sys that a machine has; another one lacks some. */
static void make_root(struct fixture *f)
{
	static const char *const names[] = {"proc", "proc/keys", "proc/sys", "sys", "sys/firmware"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		make_folder(f, names[i]);
}

static const char kernel_table[] = "40 1 0:50 / / rw - overlay overlay rw\n"
				   "41 40 0:51 / /proc rw,nosuid - proc proc rw\n"
				   "42 41 0:6 /null /proc/keys rw,nosuid - tmpfs tmpfs rw\n"
				   "43 41 0:51 /sys /proc/sys ro,nosuid - proc proc rw\n"
				   "44 40 0:52 / /sys ro,nosuid - sysfs sysfs rw\n"
				   "45 44 0:53 / /sys/firmware ro - tmpfs tmpfs rw\n"
				   "46 44 0:54 /x /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n";

CASE(each_setting_of_the_kernel_that_is_not_hidden_or_protected_is_found)
{
	static const struct {
		const char *old, *new, *found;
	} rows[] = {
		{"42 41 0:6 /null /proc/keys rw,nosuid - tmpfs tmpfs rw\n", "", "/proc/keys"},
		{"0:6 /null /proc/keys rw,nosuid - tmpfs", "0:51 /keys /proc/keys ro - proc", "/proc/keys"},
		{"43 41 0:51 /sys /proc/sys ro,nosuid - proc proc rw\n", "", "/proc/sys"},
		{"/proc/sys ro", "/proc/sys rw", "/proc/sys"},
		{"44 40", "47 43 0:51 /sys /proc/sys rw - proc proc rw\n44 40", "/proc/sys"}, /* over it */
		{"/sys ro,nosuid - sysfs", "/sys rw,nosuid - sysfs", "/sys"},
		{"45 44 0:53 / /sys/firmware ro - tmpfs tmpfs rw\n", "", "/sys/firmware"},
		{"/sys/fs/cgroup ro", "/sys/fs/cgroup rw", "/sys/fs/cgroup"},
	};
	struct readback_fault fault;

	make_root(f);
	put(f->inside, kernel_table);
	assert_msg(readback_kernel(f->readback, f->inside, f->folder, &fault), "%s", fault.found);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup_free char *text = replaced(kernel_table, rows[i].old, rows[i].new);

		put(f->inside, text);
		assert_msg(!readback_kernel(f->readback, f->inside, f->folder, &fault), "row %zu was taken",
			   i);
		assert_string_equal(fault.field, "kernel_paths");
		assert_string_equal(fault.found, rows[i].found);
	}
	assert_false(readback_kernel(f->readback, "/nonexistent", f->folder, &fault));
	put(f->inside, "40 1 0:50 / / rw - overlay overlay rw\n"); /* a machine without any of them */
	assert_true(readback_kernel(f->readback, f->inside, "/nonexistent", &fault));
}

/* A runtime takes its settings, such as sockets of the host, from the annotations of an image. */
CASE(each_annotation_that_a_runtime_may_obey_is_found)
{
	static const struct {
		const char *text;
		bool is_right;
	} rows[] = {
		{"{\"Config\":{}}", true},
		{"{\"Config\":{\"Annotations\":null}}", true},
		{"{\"Config\":{\"Annotations\":{\"io.podman.annotations.init\":\"FALSE\","
		 "\"org.opencontainers.image.created\":\"2026\"}}}",
		 true},
		{"{}", false},
		{"{\"Config\":{\"Annotations\":{\"org.opencontainers.image.title\":\"a\","
		 "\"run.oci.pidfd_receiver\":\"/run/x\"}}}",
		 false},
		{"{\"Config\":{\"Annotations\":{\"org.systemd.property.SuccessAction\":\"'reboot'\"}}}",
		 false},
		{"{\"Config\":{\"Annotations\":{\"io.podman.annotations.cid-file\":\"/etc/x\"}}}", false},
		{"{\"Config\":{\"Annotations\":{\"io.podman.annotations.initial\":\"x\"}}}", false},
		{"{\"Config\":{\"Annotations\":{\"org.opencontainers.images\":\"x\"}}}", false},
		{"{\"Config\":{\"Annotations\":{\"\":\"x\"}}}", false},
	};
	struct readback_fault fault;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup(json_decrefp) json_t *json = json_loads(rows[i].text, 0, NULL);

		assert_non_null(json);
		assert_msg(readback_annotations(json, &fault) == rows[i].is_right, "row %zu", i);
		assert_true(rows[i].is_right || str_eq(fault.field, "annotations"));
	}
}

/* Podman reads the flags of a source when it makes the container, and sets them at each start. */
CASE(a_volume_whose_flags_podman_did_not_read_is_not_started)
{
	static const struct {
		const char *old, *new, *found;
	} rows[] = {
		{"\"nosuid\"", "\"suid\"", "ro,nodev,noexec"},
		{"\"nodev\"", "\"dev\"", "ro,nosuid,noexec"},
		{"\"noexec\"", "\"exec\"", "ro,nosuid,nodev"},
		{"\"RW\":false", "\"RW\":true", "rw,nosuid,nodev,noexec"},
		{"\"/ro\"", "\"/other\"", "rw"},
	};
	struct readback_fault fault;

	assert_true(has_options(f, podman_text, &fault));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup_free char *text = replaced(podman_text, rows[i].old, rows[i].new);

		assert_msg(!has_options(f, text, &fault), "row %zu", i);
		assert_string_equal(fault.field, "mount_flags");
		assert_string_equal(fault.ordered, "ro,nosuid,nodev,noexec");
		assert_string_equal(fault.found, rows[i].found);
	}
}

/* /var/run/x is /run/x in an image where /var/run is a link. */
CASE(a_mount_behind_an_image_symlink_is_found_by_identity)
{
	cleanup_free char *text = replaced(inside_table, "/rw rw,nosuid", "/run/rw rw,nosuid");
	cleanup_free char *other = replaced(inside_table, "/rw rw,nosuid", "/proc/rw rw,nosuid");
	struct readback_fault fault;

	assert_true(inspect(f, answer_text, &fault));
	put(f->inside, text);
	assert_true(readback_mounts(f->readback, f->inside, f->host, &fault));
	put(f->inside, other);
	assert_false(readback_mounts(f->readback, f->inside, f->host, &fault));
}

/* The engine's answer has a volume of the image at /var/cache. */
CASE(a_read_only_root_has_no_volume_of_the_image)
{
	cleanup_free char *answer =
		replaced(answer_text, "\"ReadonlyRootfs\":false", "\"ReadonlyRootfs\":true");
	struct readback_fault fault;

	assert_true(inspect(f, answer_text, &fault));
	(void)json_object_set_new(json_object_get(readback_asked(f->readback), "HostConfig"),
				  "ReadonlyRootfs", json_true());
	assert_false(inspect(f, answer, &fault));
	assert_string_equal(fault.field, "read_only_root");
	assert_string_equal(fault.found, "/var/cache");
}

/* The engine would mount it on the host, within the shared mount or by a link in another one. */
CASE(a_volume_of_the_image_is_within_no_mount_beside_a_shared_one)
{
	static const struct {
		const char *propagation, *target;
		bool is_taken;
	} rows[] = {
		{"rslave", "/rw/sub", true},  {"rshared", "/rw/sub", false}, {"rshared", "/ro/sub", false},
		{"rshared", "/var/rw", true}, {"rshared", "/rw", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup_free char *asked = replaced(asked_text, "rslave", rows[i].propagation);
		cleanup_free char *shared = replaced(answer_text, "rslave", rows[i].propagation);
		cleanup_free char *answer = replaced(shared, "/var/cache", rows[i].target);
		struct readback_fault fault;

		readback_free(f->readback);
		f->readback = read_asked(f->host, asked, false);
		assert_msg(inspect(f, answer, &fault) == rows[i].is_taken, "row %zu", i);
		if (!rows[i].is_taken)
			assert_string_equal(fault.ordered, "no volume of the image there");
	}
}

/* podman binds files of its own if its request lets it add the user to those of the image. */
CASE(a_file_of_accounts_is_not_asked_for)
{
	struct readback_fault fault;
	char text[4096];

	assert_true(inspect(f, answer_text, &fault));
	(void)json_object_set_new(json_object_get(readback_asked(f->readback), "HostConfig"),
				  "ReadonlyRootfs", json_true());
	(void)snprintf(text, sizeof(text), "%s%s", inside_table,
		       "50 40 8:1 /engine/userdata/passwd /etc/passwd rw - ext4 /dev/sda1 rw\n");
	put(f->inside, text);
	assert_false(readback_mounts(f->readback, f->inside, f->host, &fault));
}

CASE(a_swapped_source_is_found_before_the_start)
{
	static const struct {
		const char *old, *new;
	} rows[] = {
		{"8:2 /stage/a", "8:2 /stage/b"},
		{"8:3 / ", "8:4 / "},
		{"ro,nosuid,nodev,noexec master:4", "rw,nosuid,nodev,noexec master:4"},
		{"23 20 8:3 / " PUBLISH "/A/1 rw,nosuid,nodev - ext4 /dev/sdc rw\n",
		 ""}, /* an empty folder */
		{"8:1 / /", "8:9 / /"},
	};
	struct readback_fault fault;

	assert_true(readback_sources(f->readback, f->host, &fault));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup_free char *text = replaced(host_table, rows[i].old, rows[i].new);

		put(f->host, text);
		assert_false(readback_sources(f->readback, f->host, &fault));
		assert_string_equal(fault.field, "source");
	}
	assert_false(readback_sources(f->readback, "/nonexistent", &fault));
}

#define SLOT_1 "23 20 8:3 / " PUBLISH "/A/1 rw,nosuid,nodev - ext4 /dev/sdc rw\n"

/* UNPUBLISH and PUBLISH leave the helper's own folder there for a moment, and the engine may have bound it.
 */
CASE(a_folder_where_no_volume_is_mounted_is_no_volume)
{
	cleanup_free char *bare = replaced(host_table, SLOT_1, "");
	cleanup_free char *bound =
		replaced(inside_table, "8:3 / /rw rw,nosuid,nodev", "8:1 " PUBLISH "/A/1 /rw rw");
	struct readback_fault fault;

	readback_free(f->readback);
	put(f->host, bare);
	put(f->inside, bound);
	f->readback = read_asked(f->host, asked_text, false);
	assert_true(inspect(f, answer_text, &fault));
	assert_false(readback_sources(f->readback, f->host, &fault));
	assert_string_equal(fault.field, "source");
	assert_string_equal(fault.ordered, "a mounted volume");
	assert_false(readback_mounts(f->readback, f->inside, f->host, &fault));
	assert_string_equal(fault.field, "mount_source");
	assert_string_equal(fault.ordered, "a mounted volume");
	assert_string_equal(fault.found, "8:1" PUBLISH "/A/1");
}

/* As of a host volume that is that folder: the same files, and no mount. */
CASE(a_volume_that_is_no_longer_mounted_is_no_longer_there)
{
	cleanup_free char *bare = replaced(host_table, SLOT_1, "");
	cleanup_free char *own = replaced(host_table, "8:3 / " PUBLISH "/A/1 rw,nosuid,nodev",
					  "8:1 " PUBLISH "/A/1 " PUBLISH "/A/1 rw");
	struct readback_fault fault;

	readback_free(f->readback);
	put(f->host, own);
	f->readback = read_asked(f->host, asked_text, false);
	assert_true(readback_sources(f->readback, f->host, &fault));
	put(f->host, bare);
	assert_false(readback_sources(f->readback, f->host, &fault));
	assert_string_equal(fault.found, "not there");
	readback_free(f->readback);
	f->readback = read_asked(f->host, asked_text, false);
	put(f->host, own);
	assert_false(readback_sources(f->readback, f->host, &fault));
	assert_string_equal(fault.ordered, "a mounted volume");
}

/* Docker drops the flags of what it makes read-only: what is so already is asked for as it is. */
TEST_ON(flags_of_a_source_are_kept_by_not_asking_twice, struct fixture, f, begin, end)
{
	struct readback *kept = read_asked(f->host, asked_text, true);
	const json_t *mounts = json_object_get(json_object_get(readback_asked(kept), "HostConfig"), "Mounts");
	struct readback_fault fault;

	assert_true(json_is_false(json_object_get(json_array_get(mounts, 0), "ReadOnly")));
	assert_true(json_is_true(json_object_get(json_array_get(mounts, 2), "ReadOnly")));
	mounts = json_object_get(json_object_get(readback_asked(f->readback), "HostConfig"), "Mounts");
	assert_true(json_is_true(json_object_get(json_array_get(mounts, 0), "ReadOnly")));
	readback_free(f->readback);
	f->readback = kept;
	{
		cleanup_free char *answer =
			replaced(answer_text, "\"/ro\",\"RW\":false", "\"/ro\",\"RW\":true");
		cleanup_free char *writable = replaced(inside_table, "/ro ro,", "/ro rw,");

		assert_true(inspect(f, answer, &fault));
		assert_true(readback_mounts(f->readback, f->inside, f->host, &fault));
		put(f->inside, writable);
		assert_false(readback_mounts(f->readback, f->inside, f->host, &fault));
	}
}

/* Docker loses those of a path of the host that is not read-only itself: holdfast-driver-container.hcl(5). */
TEST_ON(flags_of_a_path_of_the_host_are_kept, struct fixture, f, begin, end)
{
	static const struct {
		bool is_docker;
		const char *host, *inside;
		bool is_same;
	} rows[] = {
		{false, "rw,nosuid", "ro", false},	 {false, "rw,nosuid", "ro,nosuid", true},
		{false, "ro,nosuid", "ro", false},	 {true, "rw,nosuid", "ro", true},
		{true, "ro,nosuid", "ro", false},	 {true, "ro,nosuid", "ro,nosuid", true},
		{true, "ro,nosuid", "rw,nosuid", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup_free char *inside = NULL;
		struct readback_fault fault;
		char text[64], host[1024];

		(void)snprintf(host, sizeof(host), "%s25 20 8:1 /srv /srv %s - ext4 /dev/sda1 rw\n",
			       host_table, rows[i].host);
		(void)snprintf(text, sizeof(text), "/srv /host %s -", rows[i].inside);
		inside = replaced(inside_table, "/srv /host ro -", text);
		*strstr(inside, "49 40") = '\0'; /* without the image's volume */
		put(f->host, host);
		put(f->inside, inside);
		readback_free(f->readback);
		f->readback = read_asked(f->host, asked_text, rows[i].is_docker);
		assert_msg(readback_mounts(f->readback, f->inside, f->host, &fault) == rows[i].is_same,
			   "row %zu: %s", i, fault.found);
		free(inside);
		inside = replaced(inside_table, "/rw rw,nosuid", "/rw rw"); /* a volume keeps its flags */
		put(f->inside, inside);
		assert_false(readback_mounts(f->readback, f->inside, f->host, &fault));
		assert_string_equal(fault.found, "rw,nodev");
	}
}

CASE(each_right_that_the_kernel_has_otherwise_is_found)
{
	static const struct {
		const char *status, *field;
	} rows[] = {
		{STATUS_OF(UIDS("1000"), NO_CAPS, NO_CAPS, NO_CAPS, RAW, NO_CAPS, "1"), NULL},
		{STATUS_OF(UIDS("1000"), NO_CAPS, RAW, RAW, RAW, NO_CAPS, "1"), NULL},
		{STATUS_OF(UIDS("1000"), NO_CAPS, RAW, RAW, RAW, NO_CAPS, "0"), "no_new_privileges"},
		{STATUS_OF(UIDS("1000"), NO_CAPS, NO_CAPS, NO_CAPS, "0000000000202000", NO_CAPS, "1"),
		 "capabilities"},
		{STATUS_OF(UIDS("1000"), NO_CAPS, NO_CAPS, "0000000000000001", RAW, NO_CAPS, "1"),
		 "capabilities"},
		{STATUS_OF(UIDS("1000"), NO_CAPS, "0000000000000001", NO_CAPS, RAW, NO_CAPS, "1"),
		 "capabilities"},
		{STATUS_OF(UIDS("1000"), "0000000000000001", NO_CAPS, NO_CAPS, RAW, NO_CAPS, "1"),
		 "capabilities"},
		{STATUS_OF(UIDS("1000"), NO_CAPS, NO_CAPS, NO_CAPS, RAW, "0000000000000001", "1"),
		 "capabilities"},
		{STATUS_OF(UIDS("0"), NO_CAPS, NO_CAPS, NO_CAPS, RAW, NO_CAPS, "1"), "user"},
		{STATUS_OF("1000\t0\t1000\t1000", NO_CAPS, NO_CAPS, NO_CAPS, RAW, NO_CAPS, "1"), "user"},
		{STATUS_OF("1000\t1000\t0\t1000", NO_CAPS, NO_CAPS, NO_CAPS, RAW, NO_CAPS, "1"), "user"},
		{"Name:\tsh\n", "no_new_privileges"},
		{"NoNewPrivs:\t1\n", "capabilities"},
	};
	const struct readback_users users = {.n = 0};
	struct readback_fault fault;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool is_same = readback_rights(f->readback, rows[i].status, &users, &fault);

		if (is_same != !rows[i].field || (rows[i].field && !str_eq(fault.field, rows[i].field)))
			fail_msg("row %zu: %s", i, is_same ? "was taken" : fault.field);
	}
}

/* By name, by number and as the image says; 0 is reached by its own names alone. */
CASE(no_task_runs_as_root_or_as_the_helper_by_another_name)
{
	static const struct {
		const char *asked, *uid;
		bool is_root_named, is_right;
	} rows[] = {
		{"1000", "1000", false, true},	  {"1000:0", "1000", false, true},
		{"1000", "1001", false, false},	  {"web", "33", false, true},
		{"web", "0", false, false},	  {"web", "0", true, false},
		{"root", "0", true, true},	  {"0", "0", true, true},
		{"0:0", "0", true, true},	  {"", "33", false, true},
		{"", "0", false, false},	  {"", "0", true, true},
		{"64997", "64997", false, false}, {"web", "64997", false, false},
		{"", "64998", true, false},	  {"root", "33", true, true},
	};
	struct readback_fault fault;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct readback_users users = {
			.never = {64997, 64998}, .n = 2, .is_root_named = rows[i].is_root_named};
		char status[512];

		(void)json_object_set_new(readback_asked(f->readback), "User", json_string(rows[i].asked));
		(void)snprintf(status, sizeof(status),
			       STATUS_OF("%s\t%s\t%s\t%s", NO_CAPS, NO_CAPS, NO_CAPS, NO_CAPS, NO_CAPS, "1"),
			       rows[i].uid, rows[i].uid, rows[i].uid, rows[i].uid);
		assert_msg(readback_rights(f->readback, status, &users, &fault) == rows[i].is_right,
			   "row %zu: '%s' as %s", i, rows[i].asked, rows[i].uid);
	}
}

/* Before the start, by the description: engines read a number with a sign or zeros, too. */
CASE(an_image_that_would_run_as_root_or_as_an_account_of_ours_is_found)
{
	static const struct {
		const char *asked, *described;
		bool is_root_named, is_right;
	} rows[] = {
		{"", "", false, false},		 {"", "0", false, false},
		{"", "root", false, false},	 {"", "00:50", false, false},
		{"", "+0", false, false},	 {"", "-0", false, false},
		{"", ":50", false, false},	 {"", "", true, true},
		{"", "root:root", true, true},	 {"", "1000", false, true},
		{"", "1000:1000", false, true},	 {"", "rooted", false, true},
		{"", "64998", true, false},	 {"", "064998:1", true, false},
		{"", "1000:64997", true, false}, {"", "web:64997", true, false},
		{"1000", "1000", false, true},	 {"root", "root", true, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct readback_users users = {.never = {64997, 64998},
						     .n = 2,
						     .never_groups = {64997},
						     .n_groups = 1,
						     .is_root_named = rows[i].is_root_named};
		cleanup(json_decrefp) json_t *inspected =
			json_pack("{s:{s:s}}", "Config", "User", rows[i].described);
		struct readback_fault fault;

		(void)json_object_set_new(readback_asked(f->readback), "User", json_string(rows[i].asked));
		assert_msg(readback_image_user(f->readback, inspected, &users, &fault) == rows[i].is_right,
			   "row %zu: '%s'", i, rows[i].described);
		if (!rows[i].is_right)
			assert_string_equal(fault.field, "user");
	}
}

#define GROUPS_OF(gid, groups) \
	STATUS_OF_IDS(UIDS("1000"), gid, groups, NO_CAPS, NO_CAPS, NO_CAPS, NO_CAPS, NO_CAPS, "1")

/* A group that is named is the only one; without it the image decides, but for the groups of our accounts. */
CASE(each_group_that_the_kernel_has_otherwise_is_found)
{
	static const struct {
		const char *asked, *status, *field;
	} rows[] = {
		{"1000:50", GROUPS_OF(UIDS("50"), ""), NULL},
		{"1000:50", GROUPS_OF(UIDS("50"), "50 "), NULL},
		{"1000:50", GROUPS_OF(UIDS("51"), ""), "group"},
		{"1000:50", GROUPS_OF(UIDS("0"), "50 "), "group"},
		{"1000:50", GROUPS_OF("50\t0\t50\t50", ""), "group"},
		{"1000:50", GROUPS_OF("50\t50\t0\t50", ""), "group"},
		{"1000:50", GROUPS_OF("50\t50\t50\t0", ""), "group"},
		{"1000:50", GROUPS_OF(UIDS("50"), "0 "), "groups"},
		{"1000:50", GROUPS_OF(UIDS("50"), "50 6 "), "groups"},
		{"1000:0", GROUPS_OF(UIDS("0"), "0 "), NULL},
		{"1000:0", GROUPS_OF(UIDS("6"), ""), "group"},
		{"1000:web", GROUPS_OF(UIDS("33"), "33 "), NULL},
		{"1000:web", GROUPS_OF(UIDS("33"), "6 "), "groups"},
		{"1000:web", GROUPS_OF(UIDS("0"), ""), "group"},
		{"1000:root", GROUPS_OF(UIDS("0"), ""), NULL},
		{"1000", GROUPS_OF(UIDS("0"), "0 6 "), NULL},
		{"1000", GROUPS_OF(UIDS("33"), "33 6 50 "), NULL},
		{"1000", GROUPS_OF(UIDS("64997"), ""), "group"},
		{"1000", GROUPS_OF(UIDS("33"), "33 64998 "), "groups"},
		{"1000:64997", GROUPS_OF(UIDS("64997"), ""), "group"},
		{"1000",
		 "Uid:\t" UIDS("1000") "\nNoNewPrivs:\t1\nCapInh:\t0\nCapPrm:\t0\nCapEff:\t0\nCapBnd:\t0\n"
				       "CapAmb:\t0\nGroups:\t\n",
		 "group"},
		{"1000",
		 "Uid:\t" UIDS("1000") "\nNoNewPrivs:\t1\nCapInh:\t0\nCapPrm:\t0\nCapEff:\t0\nCapBnd:\t0\n"
				       "CapAmb:\t0\nGid:\t" UIDS("0") "\n",
		 "groups"},
	};
	const struct readback_users users = {.never_groups = {64997, 64998}, .n_groups = 2};
	struct readback_fault fault;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool is_same;

		(void)json_object_set_new(readback_asked(f->readback), "User", json_string(rows[i].asked));
		is_same = readback_rights(f->readback, rows[i].status, &users, &fault);
		if (is_same != !rows[i].field || (rows[i].field && !str_eq(fault.field, rows[i].field)))
			fail_msg("row %zu: %s", i, is_same ? "was taken" : fault.field);
	}
}

#define TITLES "Inter-|   Receive |  Transmit\n face |bytes |bytes\n"
#define LO TITLES "    lo:       0 0\n"

CASE(each_network_that_is_another_one_is_found)
{
	static const struct {
		const char *mode;
		struct readback_networks networks;
		bool is_right;
	} rows[] = {
		{"none", {7, 1, 0, LO}, true},
		{"none", {7, 1, 0, LO " tunl0:       0 0\n  sit0:       0 0\n"}, true},
		{"none", {7, 1, 0, LO "  eth0:       0 0\n"}, false}, /* of a bridge */
		{"none", {7, 1, 0, LO "lo1: 0 0\n"}, false},
		{"none", {7, 1, 0, TITLES "eth0: 0 0\n    lo:       0 0\n"}, false},
		{"none", {7, 1, 0, NULL}, false},
		{"none", {1, 1, 0, LO}, false},
		{"none", {0, 1, 0, LO}, false},
		{"none", {7, 0, 0, LO}, false},
		{"host", {1, 1, 0, NULL}, true},
		{"host", {7, 1, 0, LO}, false},
		{"container:n", {7, 1, 7, LO "  eth0:       0 0\n"}, true},
		{"container:n", {7, 1, 8, LO}, false},
		{"container:n", {7, 1, 0, LO}, false},
		{"container:n", {1, 1, 1, LO}, false},
	};
	struct readback_fault fault;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)json_object_set_new(json_object_get(readback_asked(f->readback), "HostConfig"),
					  "NetworkMode", json_string(rows[i].mode));
		assert_msg(readback_network(f->readback, &rows[i].networks, &fault) == rows[i].is_right,
			   "row %zu", i);
	}
}

TEST_ON(each_limit_that_is_not_kept_is_found, struct fixture, f, begin, end)
{
	struct readback_fault fault;

	assert_true(readback_limit(f->readback, "Memory", "67108864\n", &fault));
	assert_true(readback_limit(f->readback, "CpuShares", "max\n", &fault)); /* not asked for */
	assert_false(readback_limit(f->readback, "Memory", "max\n", &fault));
	assert_string_equal(fault.field, "memory");
	assert_false(readback_limit(f->readback, "Memory", "67108865\n", &fault));
	assert_false(readback_limit(f->readback, "PidsLimit", "101\n", &fault));
	assert_string_equal(fault.field, "pids");
	assert_true(readback_limit(f->readback, "MemorySwap", "33554432\n", &fault)); /* without the memory */
	assert_false(readback_limit(f->readback, "MemorySwap", "33554433\n", &fault));
	assert_false(readback_limit(f->readback, "MemorySwap", "max\n", &fault));
	assert_string_equal(fault.field, "memory_swap");
	assert_true(readback_limit(f->readback, "NanoCpus", "29000 100000\n", &fault));
	assert_true(readback_limit(f->readback, "NanoCpus", "300000 1000000\n", &fault)); /* of systemd */
	assert_false(readback_limit(f->readback, "NanoCpus", "31000 100000\n", &fault));
	assert_false(readback_limit(f->readback, "NanoCpus", "max 100000\n", &fault));
	assert_false(readback_limit(f->readback, "NanoCpus", "29000 0\n", &fault));
	assert_false(readback_limit(f->readback, "NanoCpus", "29000\n", &fault));
	assert_string_equal(fault.field, "cpu");
}

static void put_limit(struct fixture *f, const char *file, const char *text)
{
	char path[FOLDER_SIZE + 64];

	(void)snprintf(path, sizeof(path), "%s/%s", f->folder, file);
	put(path, text);
}

/* Of the cgroup itself, or of one above it. */
TEST_ON(each_limit_is_in_force_in_a_cgroup_of_the_process, struct fixture, f, begin, end)
{
	static const char cgroup[] = "1:name=systemd:/x\n0::/a.scope/container\n";
	static const struct {
		const char *file, *right, *wrong, *field;
	} rows[] = {{"memory.max", "67108864\n", "67108865\n", "memory"},
		    {"memory.swap.max", "33554432\n", "max\n", "memory_swap"},
		    {"cpu.max", "29000 100000\n", "max 100000\n", "cpu"},
		    {"pids.max", "100\n", "max\n", "pids"}};
	struct readback_fault fault;
	char path[64];

	make_folder(f, "a.scope");
	make_folder(f, "a.scope/container");
	assert_true(readback_limits(f->readback, f->folder, cgroup, &fault)); /* nothing is visible */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		put_limit(f, rows[i].file, rows[i].right); /* the root of all cgroups has no limits */
		(void)snprintf(path, sizeof(path), "a.scope/container/%s", rows[i].file);
		put_limit(f, path, rows[i].wrong);
		assert_false(readback_limits(f->readback, f->folder, cgroup, &fault));
		assert_string_equal(fault.field, rows[i].field);
		(void)snprintf(path, sizeof(path), "a.scope/%s", rows[i].file);
		put_limit(f, path, rows[i].wrong);
		assert_false(readback_limits(f->readback, f->folder, cgroup, &fault));
		put_limit(f, path, rows[i].right);
		assert_true(readback_limits(f->readback, f->folder, cgroup, &fault));
	}
	assert_true(readback_limits(f->readback, f->folder, "1:memory:/a\n", &fault));
}

/* A privileged container has the devices, all capabilities, and nothing else that was not asked for. */
CASE(privileged_widens_devices_and_capabilities_alone)
{
	cleanup_free char *asked = replaced(asked_text, "\"Privileged\":false", "\"Privileged\":true");
	cleanup_free char *right = replaced(answer_text, "\"Privileged\":false", "\"Privileged\":true");
	cleanup_free char *answer =
		replaced(right, "[\"no-new-privileges\"]", "[\"no-new-privileges\",\"label=disable\"]");
	cleanup_free char *devices =
		replaced(inside_table, "0:52 / /dev rw,nosuid - tmpfs", "0:6 / /dev rw,nosuid - devtmpfs");
	const struct readback_users users = {.n = 0};
	struct readback_fault fault;

	readback_free(f->readback);
	f->readback = read_asked(f->host, asked, false);
	assert_true(inspect(f, answer, &fault));
	assert_false(inspect(f, answer_text, &fault));
	put(f->inside, devices);
	assert_true(readback_mounts(f->readback, f->inside, f->host, &fault));
	put(f->inside, "40 1 0:50 / /sys rw - sysfs sysfs rw\n");
	assert_true(readback_kernel(f->readback, f->inside, "", &fault));
	assert_true(readback_rights(f->readback,
				    STATUS_OF(UIDS("1000"), NO_CAPS, "000001ffffffffff", "000001ffffffffff",
					      "000001ffffffffff", NO_CAPS, "1"),
				    &users, &fault));
}
