/* SPDX-License-Identifier: Apache-2.0 */
/* What root's file allows, what the mount table grants, and what is asked of the engine then. */
#include "container.h"
#include "folder.h"
#include "frames.h"
#include "offer.h"
#include "plugin_folder.h"
#include "policy.h"
#include "publish.h"
#include "settings.h"
#include "task_spec.h"
#include "unit.h"

#include "base/fd.h"
#include "model/task_limits.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define ID "0123456789abcdef"
#define ALLOC "0190a6f2-0000-7000-8000-000000000001"
#define KEY "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
#define BASE                                                              \
	"cluster = \"prod\"\nnode_id = \"node-1\"\nticket_keys = [\"" KEY \
	"\"]\nengine = \"/run/engine.sock\"\n"                            \
	"publish_dir = \"/run/holdfast/publish\"\n"

#define USERS "users = [\"1000\"]\n"

static const struct container_order order = {.nonce = "00ff",
					     .boot_id = "0190a6f2-0000-7000-8000-0000000000b0"};

static struct settings read_settings(const char *more)
{
	struct settings settings;
	struct error err;
	char text[2048];

	(void)snprintf(text, sizeof(text), "%s%s%s", BASE,
		       strstr(more, "users") ? "" : "users = [\"image\", \"1000\"]\n", more);
	assert_int_equal(settings_parse(text, "driver.hcl", &settings, &err), STATUS_OK);
	return settings;
}

TEST(wrong_settings_are_named_with_their_line)
{
	static const struct {
		const char *text, *said;
	} wrong[] = {
		{"", "users"}, /* as whom tasks run is never left to the image by silence */
		{USERS "privilegd = true\n", "privileged"},
		{USERS "host_paths = [\"srv\"]\n", "host_paths"},
		{USERS "host_paths = [\"/\"]\n", "host_paths"},
		{USERS "networks = [\"bridge\"]\n", "networks"},
		{USERS "old_runc = \"allow\"\n", "neither refuse nor accept"},
		{USERS "old_runc = \"\"\n", "old_runc"},
		{USERS "capabilities = [\"NET_ADMIN\"]\n", "CAP_NET_BIND_SERVICE"},
		{USERS "infra {\n}\n", "image"},
		{USERS "images = [\"localhost/a\", \"alpine*\"]\n", "alpine.example.net"},
		{USERS "images = [\"registry.example.org:50*\"]\n", "images"},
		{USERS "csi_plugin \"ebs\" {\n  images = [\"alpine*\"]\n}\n", "images"},
	};
	struct settings settings;
	struct error err;
	char text[2048];

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		(void)snprintf(text, sizeof(text), "%s%s", BASE, wrong[i].text);
		assert_int_equal(settings_parse(text, "driver.hcl", &settings, &err),
				 STATUS_INVALID_ARGUMENT);
		assert_msg(strstr(err.msg, wrong[i].said), "%s", err.msg);
		assert_true(str_starts_with(err.msg, "driver.hcl:"));
	}
	assert_int_equal(
		settings_parse("cluster = \"c\"\nnode_id = \"n\"\nticket_keys = [\"12\"]\nengine = \"/e\"\n",
			       "driver.hcl", &settings, &err),
		STATUS_INVALID_ARGUMENT);
}

TEST(an_old_runc_is_accepted_only_by_roots_file)
{
	assert_string_equal(read_settings("").old_runc, "refuse");
	assert_string_equal(read_settings("old_runc = \"refuse\"\n").old_runc, "refuse");
	assert_string_equal(read_settings("old_runc = \"accept\"\n").old_runc, "accept");
}

/* A task with one of each. */
struct sample {
	Holdfast__Driver__V1__TaskConfig task;
	Holdfast__Driver__V1__ConfigValue value[4], *config[4];
	Holdfast__Driver__V1__VolumeMount volume, *volumes[1];
	Holdfast__Driver__V1__KeyValue path, *paths[1];
	char *caps[1];
};

static void fill(struct sample *s)
{
	static const char *const keys[] = {"image", "cap_add", "host_paths", "privileged"};

	*s = (struct sample){.task = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT,
			     .volume = HOLDFAST__DRIVER__V1__VOLUME_MOUNT__INIT,
			     .path = HOLDFAST__DRIVER__V1__KEY_VALUE__INIT};
	s->task.alloc_id = strdup(ALLOC);
	s->task.task = strdup("web");
	s->task.driver = (char *)(uintptr_t) "container";
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		holdfast__driver__v1__config_value__init(&s->value[i]);
		s->value[i].key = TEXT(keys[i]);
		s->config[i] = &s->value[i];
	}
	s->value[0].text = (char *)(uintptr_t) "localhost/bb:1";
	s->caps[0] = (char *)(uintptr_t) "CAP_NET_RAW";
	s->value[1].n_list = 1;
	s->value[1].list = s->caps;
	s->path.key = (char *)(uintptr_t) "/srv/data";
	s->path.value = (char *)(uintptr_t) "/data";
	s->paths[0] = &s->path;
	s->value[2].n_map = 1;
	s->value[2].map = s->paths;
	s->value[3].flag = true;
	s->task.config = s->config;
	s->task.n_config = 1; /* the image alone */
	s->volume.destination = (char *)(uintptr_t) "/vol";
	s->volume.volume = (char *)(uintptr_t) "vol";
	s->volumes[0] = &s->volume;
	s->task.volumes = s->volumes;
}

static void empty(struct sample *s)
{
	free(s->task.alloc_id);
	free(s->task.task);
}

/* The offer and root's file agree on every task: a server that reads the offer places nothing that is
 * refused. */
static void expect_offer(const struct settings *settings, const struct sample *s, bool is_allowed)
{
	static struct offer offer;
	char forbidden[TASK_LIMITS_TEXT_SIZE] = "";
	bool is_offered;

	offer_fill(&offer, settings);
	is_offered = (offer.response.csi_plugins || !s->task.csi_plugin) &&
		     !task_limits_find_forbidden(&s->task, s->task.network,
						 s->task.csi_plugin ? s->task.csi_plugin->id : NULL,
						 &offer.response, forbidden);
	assert_msg(is_offered == is_allowed, "offered %d, allowed %d: %s", is_offered, is_allowed, forbidden);
}

static void expect(const char *more, const struct sample *s, enum status status, const char *reason)
{
	struct settings settings = read_settings(more);
	struct task_spec spec;
	struct error err;
	const char *said = "";

	assert_int_equal(task_spec_read(&s->task, &spec, &err), STATUS_OK);
	assert_int_equal(policy_check_task(&settings, &spec, &said, &err), status);
	assert_string_equal(said, reason);
	expect_offer(&settings, s, status == STATUS_OK);
}

/* Also of a task that asks for none: a task is never without what root's file limits. */
TEST(no_task_has_more_memory_or_processes_than_root_allows)
{
	static const struct {
		const char *more;
		uint64_t memory, swap, pids;
		const char *expected;
	} rows[] = {
		{"", 0, 0, 0, "[0, 0, 0]"},
		{"", 10, 20, 7, "[10, 20, 7]"},
		{"max_memory = \"64MiB\"\nmax_pids = 100\n", 0, 0, 0, "[64, 0, 100]"},
		{"max_memory = \"64MiB\"\nmax_pids = 100\n", 10, 20, 7, "[10, 20, 7]"},
		{"max_memory = \"64MiB\"\nmax_pids = 100\n", 65, 129, 101, "[64, 128, 100]"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct settings settings = read_settings(rows[i].more);
		Holdfast__Driver__V1__Resources resources =
			PB(holdfast__driver__v1__resources, .memory_bytes = rows[i].memory << 20,
			   .memory_swap_bytes = rows[i].swap << 20, .pids = rows[i].pids);
		struct task_spec spec;
		struct sample s;
		json_t *body, *host;
		char found[128];

		fill(&s);
		s.task.resources = i == 0 ? NULL : &resources;
		assert_int_equal(task_spec_read(&s.task, &spec, NULL), STATUS_OK);
		body = container_of_task(&settings, &spec, &order, NULL);
		host = json_object_get(body, "HostConfig");
		(void)snprintf(found, sizeof(found), "[%lld, %lld, %lld]",
			       (long long)json_integer_value(json_object_get(host, "Memory")) >> 20,
			       (long long)json_integer_value(json_object_get(host, "MemorySwap")) >> 20,
			       (long long)json_integer_value(json_object_get(host, "PidsLimit")));
		assert_string_equal(found, rows[i].expected);
		json_decref(body);
		empty(&s);
	}
}

TEST(nothing_is_allowed_that_root_does_not_name)
{
#define IMAGE "images = [\"localhost/*\"]\n"
	struct sample s;

	fill(&s);
	expect("", &s, STATUS_PERMISSION_DENIED, "images");
	expect("images = [\"localhost/bb\"]\n", &s, STATUS_PERMISSION_DENIED, "images");
	expect("images = [\"localhost/bb:1\"]\n", &s, STATUS_OK, "");
	expect(IMAGE, &s, STATUS_OK, "");
	expect(IMAGE "users = [\"1000\"]\n", &s, STATUS_PERMISSION_DENIED, "users");
	s.task.user = (char *)(uintptr_t) "1000";
	expect(IMAGE "users = [\"1000\"]\n", &s, STATUS_OK, "");
	expect(IMAGE "users = [\"1001\", \"image\"]\n", &s, STATUS_PERMISSION_DENIED, "users");
	s.task.user = (char *)(uintptr_t) "image"; /* a word of root's, no account */
	expect(IMAGE "users = [\"image\"]\n", &s, STATUS_PERMISSION_DENIED, "users");
	s.task.user = (char *)(uintptr_t) "";
	expect(IMAGE "users = [\"image\"]\n", &s, STATUS_OK, "");
	expect(IMAGE "users = []\n", &s, STATUS_PERMISSION_DENIED, "users");
	s.task.user = (char *)(uintptr_t) "1000";
	s.task.network = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_HOST;
	expect(IMAGE, &s, STATUS_PERMISSION_DENIED, "networks");
	expect(IMAGE "networks = [\"host\"]\n", &s, STATUS_OK, "");
	s.task.network = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
	expect(IMAGE, &s, STATUS_PERMISSION_DENIED, "infra");
	s.task.network = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_NONE;
	s.task.n_config = 2;
	expect(IMAGE, &s, STATUS_PERMISSION_DENIED, "capabilities");
	expect(IMAGE "capabilities = [\"CAP_NET_RAW\"]\n", &s, STATUS_OK, "");
	s.task.n_config = 3;
	expect(IMAGE "capabilities = [\"CAP_NET_RAW\"]\n", &s, STATUS_PERMISSION_DENIED, "host_paths");
	expect(IMAGE "capabilities = [\"CAP_NET_RAW\"]\nhost_paths = [\"/srv/data\"]\n", &s, STATUS_OK, "");
	s.task.n_config = 4;
	expect(IMAGE "capabilities = [\"CAP_NET_RAW\"]\nhost_paths = [\"/srv/data\"]\n", &s,
	       STATUS_PERMISSION_DENIED, "privileged");
	empty(&s);
}

/* Engines take the CMD if they get neither an entry point nor arguments. */
TEST(the_cmd_of_an_image_replaces_no_empty_list)
{
	static const struct {
		int n_command, n_args; /* -1: not given */
		bool is_plugin, has_cmd, replaces;
	} rows[] = {
		{-1, -1, false, true, false}, {0, -1, false, true, true},  {-1, 0, false, true, true},
		{0, 0, false, true, true},    {1, 0, false, true, false},  {1, -1, false, true, false},
		{0, 1, false, true, false},   {-1, 1, false, true, false}, {0, 0, true, true, false},
		{0, 0, false, false, false},
	};
	Holdfast__Driver__V1__CsiPluginMount plugin = HOLDFAST__DRIVER__V1__CSI_PLUGIN_MOUNT__INIT;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		Holdfast__Driver__V1__TaskConfig task = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT;
		Holdfast__Driver__V1__ConfigValue lists[2];
		const struct task_spec spec = {.task = &task,
					       .command = rows[i].n_command < 0 ? NULL : &lists[0],
					       .args = rows[i].n_args < 0 ? NULL : &lists[1]};
		json_t *image = json_pack("{s:{s:[]}}", "Config", "Cmd");

		if (rows[i].has_cmd)
			(void)json_array_append_new(json_object_get(json_object_get(image, "Config"), "Cmd"),
						    json_string("x"));
		lists[0].n_list = (size_t)rows[i].n_command;
		lists[1].n_list = (size_t)rows[i].n_args;
		task.csi_plugin = rows[i].is_plugin ? &plugin : NULL;
		assert_msg(container_image_cmd_replaces_list(image, &spec) == rows[i].replaces, "row %zu", i);
		json_decref(image);
	}
}

/* A beginning never ends within the name of a registry. */
TEST(no_image_of_another_registry_is_allowed)
{
	static const struct {
		const char *allowed, *image;
		bool is_right;
	} rows[] = {
		{"alpine:*", "alpine:3", true},
		{"alpine:*", "alpine", false},
		{"alpine:*", "alpine:5000/x", false},
		{"alpine@*", "alpine@sha256:00", true},
		{"alpine/*", "alpine.evil.example/x", false},
		{"registry.example.org/web-*", "registry.example.org/web-a/b:1", true},
		{"registry.example.org/web-*", "registry.example.org/web", false},
		{"registry.example.org/*", "registry.example.org.evil.example/x", false},
		{"*", "evil.example:5000/x", true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *reason = "";
		struct settings settings;
		struct task_spec spec;
		struct error err;
		struct sample s;
		char text[128];

		fill(&s);
		s.value[0].text = TEXT(rows[i].image);
		(void)snprintf(text, sizeof(text), "images = [\"%s\"]\n", rows[i].allowed);
		settings = read_settings(text);
		assert_ok(task_spec_read(&s.task, &spec, &err));
		assert_msg((policy_check_task(&settings, &spec, &reason, &err) == STATUS_OK) ==
				   rows[i].is_right,
			   "%s with %s", rows[i].image, rows[i].allowed);
		expect_offer(&settings, &s, rows[i].is_right);
		empty(&s);
	}
}

TEST(an_ambiguous_request_is_refused)
{
	static const char *const images[] = {"", "/etc", "-v", "a b", "../x", "a//b", "a?b=c", "a\nb"};
	Holdfast__Driver__V1__RestartPolicy restart = HOLDFAST__DRIVER__V1__RESTART_POLICY__INIT;
	static const char *const places[] = {"", "/", "vol", "/proc/x", "/sys", "/dev/shm", "/a/../b", "/a/"};
	struct task_spec spec;
	struct sample s;
	struct error err;

	fill(&s);
	for (size_t i = 0; i < ARRAY_SIZE(images); i++) {
		s.value[0].text = TEXT(images[i]);
		assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_INVALID_ARGUMENT);
	}
	s.value[0].text = (char *)(uintptr_t) "localhost/bb:1";
	s.task.n_volumes = 1;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		s.volume.destination = TEXT(places[i]);
		assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_INVALID_ARGUMENT);
	}
	s.task.n_volumes = 0;
	s.value[0].flag = true; /* a text that is a truth, too */
	assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_INVALID_ARGUMENT);
	s.value[0].flag = false;
	s.value[1].key = (char *)(uintptr_t) "image";
	s.task.n_config = 2;
	assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_INVALID_ARGUMENT);
	s.value[1].key = (char *)(uintptr_t) "cap_drop";
	assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_INVALID_ARGUMENT);
	s.task.n_config = 0;
	assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_INVALID_ARGUMENT);
	s.task.n_config = 1;
	assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_OK);
	s.task.restart = &restart;
	restart.attempts = 3;
	assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_OK);
	restart.attempts = 1001;
	assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_INVALID_ARGUMENT);
	restart.attempts = 3;
	restart.mode = (Holdfast__Driver__V1__RestartMode)4;
	assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_INVALID_ARGUMENT);
	empty(&s);
}

/* Each of them is a text that one engine or another would split, or that leads elsewhere. */
TEST(a_text_that_an_engine_could_split_is_refused)
{
	static char long_path[4097];
	const char *const texts[] = {"/data,source=/srv/secret",
				     "/data,U=true",
				     "/a:b",
				     "/a=b",
				     "/a\"b",
				     "/a'b",
				     "/a\nb",
				     "/a\rb",
				     "/a b",
				     "/a\tb",
				     "/a\\b",
				     "/a\x7f",
				     "/a\x01",
				     "/a\xc3\xa4",
				     "/a\xff",
				     "/a/../b",
				     "/a/./b",
				     long_path,
				     "/a*b",
				     "/a$b",
				     "/a%b"};
	struct task_spec spec;
	struct sample s;
	struct error err;

	memset(long_path, 'a', sizeof(long_path) - 1);
	long_path[0] = '/';
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char *bad = TEXT(texts[i]);
		Holdfast__Driver__V1__KeyValue env = HOLDFAST__DRIVER__V1__KEY_VALUE__INIT;
		Holdfast__Driver__V1__KeyValue *envs[] = {&env};
		Holdfast__Driver__V1__CsiPluginMount plugin = HOLDFAST__DRIVER__V1__CSI_PLUGIN_MOUNT__INIT;

		for (size_t field = 0; field < 11; field++) {
			fill(&s);
			s.task.n_config = 3;
			s.value[1].key = (char *)(uintptr_t) "work_dir";
			s.value[1].n_list = 0;
			s.value[1].text = (char *)(uintptr_t) "/srv/app";
			s.task.n_volumes = 1;
			plugin.id = (char *)(uintptr_t) "ebs";
			plugin.socket = (char *)(uintptr_t) "csi.sock";
			plugin.destination = (char *)(uintptr_t) "/csi";
			s.task.csi_plugin = &plugin;
			env.key = (char *)(uintptr_t) "KEY";
			s.task.env = envs;
			s.task.n_env = 1;
			assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_OK);
			char **const fields[] = {&s.volume.destination, &s.path.key,	  &s.path.value,
						 &s.value[1].text,	&s.value[0].text, &plugin.socket,
						 &plugin.destination,	&env.key,	  &s.task.user,
						 &s.task.stop_signal,	&s.value[1].text};
			if (field == 10) {
				s.value[1].key = (char *)(uintptr_t) "hostname";
				s.value[1].text = (char *)(uintptr_t) "db-1.example";
				assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_OK);
			}
			*fields[field] = bad;
			assert_msg(task_spec_read(&s.task, &spec, &err) == STATUS_INVALID_ARGUMENT,
				   "field %zu took '%.64s'", field, bad);
			empty(&s);
		}
	}
}

TEST(a_work_dir_in_the_kernels_trees_is_refused)
{
	static const char *const places[] = {"/proc/self/fd/7", "/proc", "/sys/fs", "/dev",
					     "relative",	"/a/"};
	struct task_spec spec;
	struct sample s;
	struct error err;

	fill(&s);
	s.task.n_config = 2;
	s.value[1].key = (char *)(uintptr_t) "work_dir";
	s.value[1].n_list = 0;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		s.value[1].text = TEXT(places[i]);
		assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_INVALID_ARGUMENT);
	}
	s.value[1].text = (char *)(uintptr_t) "/process";
	assert_int_equal(task_spec_read(&s.task, &spec, &err), STATUS_OK);
	empty(&s);
}

TEST(no_container_is_without_the_floor)
{
	struct settings settings = read_settings(IMAGE);
	struct task_spec spec;
	const json_t *mount, *host;
	struct sample s;
	cleanup(json_decrefp) json_t *body = NULL;

	fill(&s);
	s.task.n_volumes = 1;
	s.volume.slot = 2;
	s.volume.read_only = true;
	s.volume.propagation = HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_HOST_TO_TASK;
	assert_int_equal(task_spec_read(&s.task, &spec, NULL), STATUS_OK);
	body = container_of_task(&settings, &spec, &order, NULL);
	host = json_object_get(body, "HostConfig");
	assert_string_equal(json_string_value(json_array_get(json_object_get(host, "SecurityOpt"), 0)),
			    "no-new-privileges");
	assert_string_equal(json_string_value(json_array_get(json_object_get(host, "CapDrop"), 0)), "ALL");
	assert_true(json_is_false(json_object_get(host, "Privileged")));
	assert_string_equal(json_string_value(json_object_get(host, "NetworkMode")), "none");
	assert_string_equal(json_string_value(json_array_get(
				    json_object_get(json_object_get(body, "Healthcheck"), "Test"), 0)),
			    "NONE");
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(body, "Labels"), "dev.holdfast.boot")),
		order.boot_id);
	assert_string_equal(json_string_value(json_object_get(json_object_get(body, "Labels"),
							      "dev.holdfast.csi_plugin")),
			    ""); /* an image may have one of that name */
	assert_string_equal(json_string_value(json_object_get(json_object_get(body, "Labels"),
							      "io.containers.autoupdate")),
			    "disabled");
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(body, "Labels"), "dev.holdfast.namespace")),
		"");
	mount = json_array_get(json_object_get(host, "Mounts"), 0);
	assert_string_equal(json_string_value(json_object_get(mount, "Source")),
			    "/run/holdfast/publish/" ALLOC "/2");
	assert_true(json_is_true(json_object_get(mount, "ReadOnly")));
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(mount, "BindOptions"), "Propagation")),
		"rslave");
	empty(&s);
}

#define DIGITS_63 "012345678901234567890123456789012345678901234567890123456789012"

TEST(an_engine_gets_each_image_with_its_registry)
{
	static const struct {
		const char *image, *registry;
	} rows[] = {
		{"bb", "docker.io/library/"},
		{"bb:1.36", "docker.io/library/"},
		{"localhost", "docker.io/library/"},
		{"bb@sha256:" DIGITS_63 "a", "docker.io/library/"},
		{"0123456789ab", "docker.io/library/"}, /* no beginning of an image's id */
		{DIGITS_63 "a", "docker.io/library/"},
		{"sha256:" DIGITS_63 "g", "docker.io/library/"},
		{"sha256:" DIGITS_63, "docker.io/library/"},
		{"sha256:" DIGITS_63 "ab", "docker.io/library/"},
		{"team/bb:1.36", "docker.io/"},
		{"team/a.b", "docker.io/"},
		{"localhosts/bb", "docker.io/"},
		{"localhost/bb:1", ""},
		{"docker.io/library/bb", ""},
		{"registry:5000/bb", ""},
		{"REG/team/bb", ""},
		{"sha256:" DIGITS_63 "a", ""},
	};
	struct settings settings = read_settings(IMAGE);
	Holdfast__Driver__V1__NetworkConfig network =
		PB(holdfast__driver__v1__network_config, .alloc_id = TEXT(ALLOC), .hostname = TEXT("h"));
	char whole[128];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup(json_decrefp) json_t *task = NULL, *infra = NULL;
		struct task_spec spec;
		struct sample s;

		fill(&s);
		s.value[0].text = TEXT(rows[i].image);
		assert_ok(task_spec_read(&s.task, &spec, NULL));
		(void)snprintf(whole, sizeof(whole), "%s%s", rows[i].registry, rows[i].image);
		task = container_of_task(&settings, &spec, &order, NULL);
		assert_string_equal(json_string_value(json_object_get(task, "Image")), whole);
		(void)str_copy(settings.infra_image, sizeof(settings.infra_image), rows[i].image);
		infra = container_of_network(&settings, &network, "team-a", &order);
		assert_string_equal(json_string_value(json_object_get(infra, "Image")), whole);
		assert_string_equal(json_string_value(json_object_get(json_object_get(infra, "Labels"),
								      "dev.holdfast.namespace")),
				    "team-a");
		assert_string_equal(container_image_registry(rows[i].image), rows[i].registry);
		empty(&s);
	}
}

/* Docker describes its hub's images without the registry, podman with it. */
TEST(an_image_is_taken_by_its_digest_under_its_own_name_alone)
{
#define DIGEST "@sha256:" DIGITS_63 "a"
	const struct {
		const char *image, *described;
		bool is_named;
	} rows[] = {
		{"reg.net/a/x" DIGEST, "{'RepoDigests': ['reg.net/a/x" DIGEST "']}", true},
		{"reg.net/a/x" DIGEST, "{'RepoDigests': [null, 'y', 'reg.net/a/x" DIGEST "']}", true},
		{"reg.net/a/x:1" DIGEST, "{'RepoDigests': ['reg.net/a/x" DIGEST "']}", true},
		{"reg:5000/x" DIGEST, "{'RepoDigests': ['reg:5000/x" DIGEST "']}", true},
		{"bb" DIGEST, "{'RepoDigests': ['docker.io/library/bb" DIGEST "']}", true},
		{"bb:1" DIGEST, "{'RepoDigests': ['bb" DIGEST "']}", true},
		{"docker.io/bb" DIGEST, "{'RepoDigests': ['bb" DIGEST "']}", true},
		{"docker.io/library/bb" DIGEST, "{'RepoDigests': ['bb" DIGEST "']}", true},
		{"team/web" DIGEST, "{'RepoDigests': ['docker.io/team/web" DIGEST "']}", true},
		{"docker.io/team/web" DIGEST, "{'RepoDigests': ['team/web" DIGEST "']}", true},
		{"localhost/bb" DIGEST, "{'RepoDigests': ['localhost/bb" DIGEST "']}", true},
		{"reg.net/a/x:1", "{}", true},
		{"sha256:" DIGITS_63 "a", "{}", true},
		{"reg.net/a/x" DIGEST, "{'RepoDigests': ['reg.net/b/private" DIGEST "']}", false},
		{"reg.net/a/x" DIGEST, "{'RepoDigests': ['reg.net/a/x@sha256:" DIGITS_63 "b']}", false},
		{"reg.net/a/x" DIGEST, "{'RepoTags': ['reg.net/a/x:1']}", false},
		{"reg.net/a/x" DIGEST, "{'RepoDigests': null}", false},
		{"reg.net/a/x" DIGEST, "{'RepoDigests': []}", false},
		{"bb" DIGEST, "{'RepoDigests': ['localhost/bb" DIGEST "']}", false},
		{"docker.io/bb" DIGEST, "{'RepoDigests': ['docker.io/team/bb" DIGEST "']}", false},
		{"docker.io/reg.net/x" DIGEST, "{'RepoDigests': ['reg.net/x" DIGEST "']}", false},
		{"docker.eu/bb" DIGEST, "{'RepoDigests': ['docker.eu/library/bb" DIGEST "']}", false},
		{"reg:5000/x" DIGEST, "{'RepoDigests': ['reg:5000/y" DIGEST "']}", false},
		{"reg.net/a" DIGEST "/x" DIGEST, "{'RepoDigests': ['reg.net/a" DIGEST "']}", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[256];
		cleanup(json_decrefp) json_t *described = NULL;

		(void)str_copy(text, sizeof(text), rows[i].described);
		for (char *quote = text; (quote = strchr(quote, '\''));)
			*quote = '"';
		described = json_loads(text, 0, NULL);
		assert_non_null(described);
		assert_msg(container_image_is_named(described, rows[i].image) == rows[i].is_named,
			   "%s with %s", rows[i].image, text);
	}
}

static void expect_mounts(const char *more, const struct sample *s, enum status status, const char *reason)
{
	struct settings settings = read_settings(more);
	struct task_spec spec;
	struct error err;
	const char *said = "";

	assert_int_equal(task_spec_read(&s->task, &spec, &err), STATUS_OK);
	assert_int_equal(policy_check_task(&settings, &spec, &said, &err), status);
	assert_string_equal(said, reason);
}

TEST(no_mount_is_within_one_that_the_host_keeps)
{
#define ALL IMAGE "capabilities = [\"CAP_NET_RAW\", \"CAP_SYS_ADMIN\"]\nhost_paths = [\"/srv/data\"]\n"
#define EBS "csi_plugin \"ebs\" {\n  images = [\"localhost/*\"]\n}\n"
#define STAGE "/run/holdfast-mount/stage/.csi/ebs"
	Holdfast__Driver__V1__CsiPluginMount plugin = HOLDFAST__DRIVER__V1__CSI_PLUGIN_MOUNT__INIT;
	struct sample s;

	fill(&s);
	s.task.n_volumes = 1;
	s.task.n_config = 3;
	s.volume.destination = TEXT("/data"); /* as the host path's */
	expect_mounts(ALL, &s, STATUS_OK, "");
	s.volume.propagation = HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_BIDIRECTIONAL;
	s.caps[0] = TEXT("CAP_SYS_ADMIN");
	expect_mounts(ALL, &s, STATUS_INVALID_ARGUMENT, "propagation");
	s.volume.destination = TEXT("/vol");
	expect_mounts(ALL, &s, STATUS_OK, "");
	s.caps[0] = TEXT("CAP_NET_RAW");
	expect_mounts(ALL, &s, STATUS_INVALID_ARGUMENT, "propagation");
	s.caps[0] = TEXT("CAP_SYS_ADMIN");
	plugin.id = TEXT("ebs");
	plugin.socket = TEXT("csi.sock");
	plugin.destination = TEXT("/csi");
	plugin.mounts = true;
	s.task.csi_plugin = &plugin;
	expect_mounts(ALL EBS, &s, STATUS_OK, "");
	s.volume.destination = TEXT("/run/holdfast-mount/stage/.csi");
	expect_mounts(ALL EBS, &s, STATUS_INVALID_ARGUMENT, "propagation");
	s.volume.propagation = HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_PRIVATE;
	expect_mounts(ALL EBS, &s, STATUS_OK, "");
	s.volume.destination = TEXT(STAGE "/a");
	expect_mounts(ALL EBS, &s, STATUS_INVALID_ARGUMENT, "propagation");
	plugin.mounts = false;
	expect_mounts(ALL EBS, &s, STATUS_OK, "");
	s.volume.destination = TEXT("/csi/a");
	expect_mounts(ALL EBS, &s, STATUS_OK, "");
	plugin.mounts =
		true; /* a link in its folder of sockets, or in a volume, could lead into its stages */
	expect_mounts(ALL EBS, &s, STATUS_INVALID_ARGUMENT, "propagation");
	s.volume.destination = TEXT("/data"); /* as the host path's */
	expect_mounts(ALL EBS, &s, STATUS_INVALID_ARGUMENT, "propagation");
	s.volume.destination = TEXT("/vol");
	expect_mounts(ALL EBS, &s, STATUS_OK, "");
	s.volume.destination = TEXT("/data/deep/x"); /* within the host path's */
	expect_mounts(ALL EBS, &s, STATUS_INVALID_ARGUMENT, "propagation");
	empty(&s);
}

/* What is bound at @target of a container; NULL: nothing. */
static const json_t *bound_at(const json_t *body, const char *target)
{
	const json_t *mounts = json_object_get(json_object_get(body, "HostConfig"), "Mounts");
	const json_t *mount;
	size_t i;

	json_array_foreach (mounts, i, mount)
		if (str_eq(json_string_value(json_object_get(mount, "Target")), target))
			return mount;
	return NULL;
}

static void expect_bound(const json_t *body, const char *target, const char *source, const char *propagation)
{
	const json_t *mount = NON_NULL(bound_at(body, target));

	assert_string_equal(json_string_value(json_object_get(mount, "Source")), source);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(mount, "BindOptions"), "Propagation")),
		propagation);
}

static void as_plugin(struct sample *s, Holdfast__Driver__V1__CsiPluginMount *plugin)
{
	holdfast__driver__v1__csi_plugin_mount__init(plugin);
	plugin->id = (char *)(uintptr_t) "ebs";
	plugin->socket = (char *)(uintptr_t) "csi.sock";
	plugin->destination = (char *)(uintptr_t) "/csi";
	plugin->mounts = true;
	s->task.csi_plugin = plugin;
}

#define PLUGIN(more) "csi_plugin \"ebs\" {\n  images = [\"localhost/bb:*\"]\n" more "}\n"

TEST(a_network_that_root_does_not_allow_is_not_offered)
{
	static struct offer offer;
	struct settings settings = read_settings("networks = [\"none\", \"isolated\"]\n");

	offer_fill(&offer, &settings);
	assert_int_equal(offer.response.n_network_modes, 1); /* isolated needs an infra block */
	assert_int_equal(offer.response.network_modes[0],
			 HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_NONE);
	settings = read_settings("networks = [\"host\"]\n");
	offer_fill(&offer, &settings);
	assert_int_equal(offer.response.n_network_modes, 1);
	assert_int_equal(offer.response.network_modes[0],
			 HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_HOST);
	assert_false(offer.response.csi_plugins);
}

/* The agent keeps 64 KiB of an answer: a file of many long lists is checked by the driver alone. */
TEST(limits_that_are_too_large_are_left_out)
{
	static struct settings settings;
	static struct offer offer;

	for (size_t i = 0; i < ARRAY_SIZE(settings.images); i++)
		(void)memset(settings.images[i], 'i', SETTINGS_TEXT_SIZE - 1);
	offer_fill(&offer, &settings);
	assert_int_equal(offer.response.n_limits, OFFER_LIMITS);
	for (size_t i = 0; i < SETTINGS_PLUGINS_MAX; i++) {
		(void)memset(settings.csi_plugins[i].id, 'p', SETTINGS_USER_SIZE - 1);
		for (size_t k = 0; k < SETTINGS_PLUGIN_IMAGES_MAX; k++)
			(void)memset(settings.csi_plugins[i].images[k], 'i', SETTINGS_TEXT_SIZE - 1);
	}
	offer_fill(&offer, &settings);
	assert_int_equal(offer.response.n_limits, 0);
	assert_int_equal(offer.response.n_plugin_limits, 0);
	assert_true(offer.response.csi_plugins);
}

TEST(only_a_plugin_gets_the_rights_of_a_plugin)
{
	Holdfast__Driver__V1__CsiPluginMount plugin;
	struct sample s;

	fill(&s);
	expect(PLUGIN(""), &s, STATUS_PERMISSION_DENIED, "images"); /* which is none */
	as_plugin(&s, &plugin);
	expect("images = [\"*\"]\nprivileged = true\n", &s, STATUS_PERMISSION_DENIED, "csi_plugin");
	expect("csi_plugin \"ebs\" {\n}\nimages = [\"*\"]\n", &s, STATUS_PERMISSION_DENIED, "images");
	expect(PLUGIN(""), &s, STATUS_OK, "");
	plugin.id = (char *)(uintptr_t) "nfs";
	expect(PLUGIN("") "csi_plugin \"nfs\" {\n}\n", &s, STATUS_PERMISSION_DENIED, "images");
	plugin.id = (char *)(uintptr_t) "ebs";
	s.task.n_config = 2;
	expect(PLUGIN(""), &s, STATUS_PERMISSION_DENIED, "capabilities");
	expect(PLUGIN("capabilities = [\"CAP_NET_RAW\"]\n"), &s, STATUS_OK, "");
	s.config[1] = &s.value[3];
	expect(PLUGIN(""), &s, STATUS_PERMISSION_DENIED, "privileged");
	expect(PLUGIN("privileged = true\n"), &s, STATUS_OK, "");
	s.task.csi_plugin = NULL;
	expect("images = [\"*\"]\n" PLUGIN("privileged = true\n"), &s, STATUS_PERMISSION_DENIED,
	       "privileged");
	s.config[1] = &s.value[1];
	empty(&s);
}

TEST(a_plugin_gets_its_sockets_folder_its_staging_folder_and_a_umask)
{
	struct settings settings = read_settings("plugin_dir = \"/run/p\"\nstage_dir = \"/run/s\"\n");
	json_t *image =
		json_pack("{s:{s:[s], s:[s,s]}}", "Config", "Entrypoint", "/driver", "Cmd", "-v", "1");
	Holdfast__Driver__V1__KeyValue own =
		PB(holdfast__driver__v1__key_value, .key = (char *)(uintptr_t) "CSI_ENDPOINT",
		   .value = (char *)(uintptr_t) "unix://x");
	Holdfast__Driver__V1__KeyValue *env[] = {&own};
	Holdfast__Driver__V1__CsiPluginMount plugin;
	struct task_spec spec;
	struct container container;
	struct error err;
	struct sample s;
	json_t *body;

	fill(&s);
	as_plugin(&s, &plugin);
	assert_int_equal(task_spec_read(&s.task, &spec, NULL), STATUS_OK);
	body = container_of_task(&settings, &spec, &order, image);
	expect_bound(body, "/csi", "/run/p/ebs", "rprivate");
	expect_bound(body, "/run/s/.csi/ebs", "/run/s/.csi/ebs", "rshared");
	assert_null(bound_at(body, "/run/s"));
	assert_null(bound_at(body, "/run/s/.csi"));
	assert_null(bound_at(body, "/dev"));
	assert_int_equal(json_array_size(json_object_get(body, "Entrypoint")), 2);
	assert_string_equal(json_string_value(json_array_get(json_object_get(body, "Entrypoint"), 1)),
			    "/driver");
	assert_non_null(
		bound_at(body, json_string_value(json_array_get(json_object_get(body, "Entrypoint"), 0))));
	assert_int_equal(json_array_size(json_object_get(body, "Cmd")), 2);
	assert_string_equal(json_string_value(json_array_get(json_object_get(body, "Env"), 0)),
			    "CSI_ENDPOINT=unix:///csi/csi.sock");
	assert_int_equal(json_object_set_new(body, "Id", json_string(ID)), 0);
	assert_int_equal(json_object_set_new(body, "State", json_object()), 0);
	assert_int_equal(json_object_set_new(body, "Config",
					     json_pack("{s:O}", "Labels", json_object_get(body, "Labels"))),
			 0);
	assert_int_equal(container_read(&settings, body, ALLOC, "web", &container, &err), STATUS_OK);
	assert_string_equal(container.plugin, "ebs");
	assert_string_equal(container.plugin_socket, "csi.sock");
	json_decref(body);
	s.task.env = env;
	s.task.n_env = 1;
	s.task.n_config = 2;
	s.config[1] = &s.value[3];
	assert_int_equal(task_spec_read(&s.task, &spec, NULL), STATUS_OK);
	body = container_of_task(&settings, &spec, &order, image);
	expect_bound(body, "/dev", "/dev", "rprivate");
	assert_int_equal(json_array_size(json_object_get(body, "Env")), 1);
	json_decref(body);
	plugin.mounts = false; /* only a controller */
	body = container_of_task(&settings, &spec, &order, image);
	expect_bound(body, "/csi", "/run/p/ebs", "rprivate");
	assert_null(bound_at(body, "/run/s/.csi/ebs"));
	json_decref(body);
	json_decref(image);
	s.config[1] = &s.value[1];
	empty(&s);
}

TEST(a_plugin_of_no_proper_name_is_refused)
{
	static const struct {
		const char *id, *socket, *destination;
		enum status status;
	} rows[] = {
		{"ebs", "csi.sock", "/csi", STATUS_OK},
		{"../ebs", "csi.sock", "/csi", STATUS_INVALID_ARGUMENT},
		{"ebs", "../csi.sock", "/csi", STATUS_INVALID_ARGUMENT},
		{"ebs", ".sock", "/csi", STATUS_INVALID_ARGUMENT},
		{"ebs", "csi", "/csi", STATUS_INVALID_ARGUMENT},
		{"ebs", "csi.sock", "csi", STATUS_INVALID_ARGUMENT},
		{"ebs", "csi.sock", "/dev/csi", STATUS_INVALID_ARGUMENT},
		{"ebs", "csi.sock", "/vol", STATUS_INVALID_ARGUMENT}, /* a volume's */
	};
	Holdfast__Driver__V1__CsiPluginMount plugin;
	struct task_spec spec;
	struct sample s;

	fill(&s);
	as_plugin(&s, &plugin);
	s.task.n_volumes = 1;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		plugin.id = TEXT(rows[i].id);
		plugin.socket = TEXT(rows[i].socket);
		plugin.destination = TEXT(rows[i].destination);
		assert_int_equal(task_spec_read(&s.task, &spec, NULL), rows[i].status);
	}
	empty(&s);
}

TEST(a_plugins_folder_is_made_and_an_orphaned_socket_removed)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char folder[FOLDER_SIZE], path[2 * FOLDER_SIZE];
	struct error err;
	struct stat st;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	folder_make(folder);
	assert_int_equal(plugin_folder_make(folder, "ebs", "csi.sock", &err), STATUS_OK);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/ebs/csi.sock", folder);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_error(plugin_folder_make(folder, "ebs", "csi.sock", &err), STATUS_FAILED_PRECONDITION, err,
		     "is served at");
	assert_int_equal(plugin_folder_make(folder, "ebs", "other.sock", &err), STATUS_OK);
	assert_int_equal(plugin_folder_clear(folder, "ebs", "csi.sock", &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(stat(address.sun_path, &st), 0);
	(void)snprintf(path, sizeof(path), "%s/ebs/link.sock", folder);
	assert_int_equal(symlink(address.sun_path, path), 0);
	assert_int_equal(plugin_folder_clear(folder, "ebs", "link.sock", &err), STATUS_OK);
	assert_int_equal(lstat(path, &st), -1);
	assert_int_equal(stat(address.sun_path, &st), 0);
	(void)close(fd);
	assert_int_equal(plugin_folder_make(folder, "ebs", "csi.sock", &err), STATUS_OK);
	assert_int_equal(stat(address.sun_path, &st), -1);
	assert_int_equal(plugin_folder_clear(folder, "gone", "csi.sock", &err), STATUS_OK);
	(void)snprintf(path, sizeof(path), "%s/ebs", folder);
	assert_int_equal(rmdir(path), 0);
	(void)snprintf(path, sizeof(path), "%s/link", folder);
	assert_int_equal(symlink("/tmp", path), 0);
	assert_int_equal(plugin_folder_make(folder, "link", "csi.sock", &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(plugin_folder_make("/nonexistent", "ebs", "csi.sock", &err),
			 STATUS_FAILED_PRECONDITION);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
}

/* podman makes a folder at the path of a mount that is missing. */
TEST(the_program_of_plugins_is_a_file_that_every_user_may_run)
{
	static const mode_t modes[] = {0755, 0744, 0001, 0644};
	char folder[FOLDER_SIZE], path[FOLDER_SIZE + 16];
	struct error err;

	folder_make(folder);
	(void)snprintf(path, sizeof(path), "%s/csi-umask", folder);
	assert_error(plugin_program_check(path, &err), STATUS_FAILED_PRECONDITION, err, path);
	assert_contains(err.msg, "package holdfast-driver-container");
	assert_int_equal(mkdir(path, 0755), 0);
	assert_error(plugin_program_check(path, &err), STATUS_FAILED_PRECONDITION, err, path);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(close(creat(path, 0700)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		assert_int_equal(chmod(path, modes[i]), 0);
		assert_int_equal(plugin_program_check(path, &err),
				 modes[i] & S_IXOTH ? STATUS_OK : STATUS_FAILED_PRECONDITION);
	}
	folder_remove(folder);
}

/* Output is kept by it, and places are shared. It is a part of a path. */
TEST(a_container_has_the_namespace_of_its_task)
{
	static const struct {
		const char *label, *namespace;
	} rows[] = {{"team-a", "team-a"}, {"", ""}, {"../..", ""}, {"a.b", ""}};
	struct settings settings = read_settings(IMAGE);
	cleanup(json_decrefp) json_t *body = NULL;
	struct container container;
	struct task_spec spec;
	struct sample s;

	fill(&s);
	s.task.namespace_ = TEXT("team-a");
	assert_ok(task_spec_read(&s.task, &spec, NULL));
	body = container_of_task(&settings, &spec, &order, NULL);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(body, "Labels"), "dev.holdfast.namespace")),
		"team-a");
	empty(&s);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup(json_decrefp) json_t *json =
			json_pack("{s:s, s:{s:s}, s:{s:{s:s, s:s, s:s, s:s, s:s}}}", "Id", ID, "State",
				  "Status", "running", "Config", "Labels", "dev.holdfast.alloc", ALLOC,
				  "dev.holdfast.task", "web", "dev.holdfast.node", "prod/node-1",
				  "dev.holdfast.order", "00ff", "dev.holdfast.namespace", rows[i].label);

		assert_ok(container_read(&settings, json, ALLOC, "web", &container, NULL));
		assert_string_equal(container.namespace, rows[i].namespace);
	}
}

/* As the mount helper leaves them, at slots 0 to 2. */
static void make_marks(int fd)
{
	char name[128];

	assert_int_equal(mkdirat(fd, ALLOC, 0755), 0);
	for (unsigned int slot = 0; slot < 3; slot++) {
		(void)snprintf(name, sizeof(name), ALLOC "/.%u", slot);
		assert_int_equal(mkdirat(fd, name, 0755), 0);
		(void)snprintf(name, sizeof(name), ALLOC "/.%u/vol", slot);
		assert_int_equal(mkdirat(fd, name, 0755), 0);
	}
}

static void remove_marks(int fd)
{
	char name[128];

	for (unsigned int slot = 0; slot < 3; slot++) {
		(void)snprintf(name, sizeof(name), ALLOC "/.%u/vol", slot);
		(void)unlinkat(fd, name, AT_REMOVEDIR);
		(void)snprintf(name, sizeof(name), ALLOC "/.%u", slot);
		(void)unlinkat(fd, name, AT_REMOVEDIR);
	}
	(void)unlinkat(fd, ALLOC, AT_REMOVEDIR);
}

TEST(a_request_is_granted_whole_or_refused)
{
	struct settings settings = read_settings(IMAGE);
	char *bad[] = {(char *)(uintptr_t) "\xff"};
	Holdfast__Driver__V1__HealthCheck health =
		PB(holdfast__driver__v1__health_check, .n_argv = 1, .argv = bad);
	struct task_spec spec;
	const json_t *mount;
	struct sample s;
	json_t *body;

	fill(&s);
	s.task.n_config = 3;
	assert_int_equal(task_spec_read(&s.task, &spec, NULL), STATUS_OK);
	body = container_of_task(&settings, &spec, &order, NULL);
	mount = json_array_get(json_object_get(json_object_get(body, "HostConfig"), "Mounts"), 0);
	assert_true(json_is_true(json_object_get(mount, "ReadOnly")));
	assert_true(json_is_true(json_object_get(json_object_get(mount, "BindOptions"), "NonRecursive")));
	json_decref(body);
	s.paths[0]->value = bad[0];
	assert_null(container_of_task(&settings, &spec, &order, NULL));
	s.paths[0]->value = (char *)(uintptr_t) "/data";
	s.value[1].list = bad;
	assert_null(container_of_task(&settings, &spec, &order, NULL));
	s.value[1].list = s.caps;
	s.task.health = &health;
	assert_null(container_of_task(&settings, &spec, &order, NULL));
	s.task.health = NULL;
	body = NON_NULL(container_of_task(&settings, &spec, &order, NULL));
	json_decref(body);
	empty(&s);
}

TEST(no_task_has_more_time_to_stop_than_root_allows)
{
	static const struct {
		const char *more;
		uint32_t asked_ms, seconds;
	} rows[] = {
		{"", 0, 10},
		{"", 2500, 3},
		{"", 3600000, 3600},
		{"max_stop_timeout = \"30s\"\n", 2500, 3},
		{"max_stop_timeout = \"30s\"\n", 3600000, 30},
		{"max_stop_timeout = \"5s\"\n", 0, 5},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct settings settings = read_settings(rows[i].more);
		struct task_spec spec;
		struct sample s;
		json_t *body;

		fill(&s);
		s.task.stop_timeout_ms = rows[i].asked_ms;
		assert_int_equal(task_spec_read(&s.task, &spec, NULL), STATUS_OK);
		body = container_of_task(&settings, &spec, &order, NULL);
		assert_int_equal(json_integer_value(json_object_get(body, "StopTimeout")), rows[i].seconds);
		json_decref(body);
		empty(&s);
	}
}

TEST(a_task_has_its_own_time_to_stop)
{
	static const struct {
		const char *label;
		uint32_t ms;
	} rows[] = {{"2500", 2500}, {"0", 0}, {"x", 10000}};
	const struct settings settings = read_settings(IMAGE);
	struct container container;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		json_t *json = json_pack("{s:s, s:{s:s}, s:{s:{s:s, s:s, s:s, s:s, s:s}}}", "Id", ID, "State",
					 "Status", "running", "Config", "Labels", "dev.holdfast.alloc", ALLOC,
					 "dev.holdfast.node", "prod/node-1", "dev.holdfast.task", "web",
					 "dev.holdfast.order", "00ff", "dev.holdfast.stop_ms", rows[i].label);

		assert_int_equal(container_read(&settings, json, ALLOC, "web", &container, &err), STATUS_OK);
		assert_int_equal(container.stop_ms, rows[i].ms);
		json_decref(json);
	}
}

TEST(propagation_is_that_of_the_grant)
{
#define ROOT_LINE "20 1 8:1 / / rw - ext4 d rw\n"
#define LINE(slot, tag) "3" slot " 20 0:5 / /run/holdfast/publish/" ALLOC "/" slot " rw " tag "- tmpfs t rw\n"
	static const char table[] = ROOT_LINE LINE("0", "") LINE("1", "master:7 ") LINE("2", "shared:8 ");
	static const enum status expected[4][3] = {
		{STATUS_OK, STATUS_PERMISSION_DENIED, STATUS_PERMISSION_DENIED},
		{STATUS_OK, STATUS_OK, STATUS_PERMISSION_DENIED},
		{STATUS_OK, STATUS_OK, STATUS_OK},
		{STATUS_FAILED_PRECONDITION, STATUS_FAILED_PRECONDITION, STATUS_FAILED_PRECONDITION},
	};
	cleanup_close int fd = -EBADF;
	char folder[FOLDER_SIZE], path[FOLDER_SIZE + 16];
	const char *reason;
	struct sample s;

	folder_make(folder);
	fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	make_marks(fd);
	(void)snprintf(path, sizeof(path), "%s/mountinfo", folder);
	assert_int_equal(file_write_atomic(path, 0600, table, strlen(table)), 0);
	fill(&s);
	s.task.n_volumes = 1;
	for (uint32_t slot = 0; slot < 4; slot++)
		for (unsigned int p = 0; p < 3; p++) {
			s.volume.slot = slot;
			s.volume.propagation = (Holdfast__Driver__V1__MountPropagation)p;
			assert_int_equal(
				publish_check(path, fd, "/run/holdfast/publish", &s.task, &reason, NULL),
				expected[slot][p]);
		}
	s.volume.propagation = HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_PRIVATE;
	for (uint32_t slot = 0; slot < 3; slot++) {
		s.volume.slot = slot;
		s.volume.volume = (char *)(uintptr_t)(slot == 2 ? "vol" : "another");
		assert_int_equal(publish_check(path, fd, "/run/holdfast/publish", &s.task, &reason, NULL),
				 slot == 2 ? STATUS_OK : STATUS_PERMISSION_DENIED);
		if (slot < 2)
			assert_string_equal(reason, "volume");
	}
	empty(&s);
	remove_marks(fd);
	(void)unlink(path);
	(void)rmdir(folder);
}

#define TREES "/run/hf/publish", "/run/hf/stage"

TEST(a_path_of_the_host_has_nothing_mounted_below_it)
{
	static const char table[] =
		ROOT_LINE "30 20 0:5 / /srv/data rw - tmpfs t rw\n31 20 0:5 / /srv/data2 rw - tmpfs t rw\n"
			  "32 20 0:5 / /srv/web/a\\040b rw - tmpfs t rw\n";
	char folder[FOLDER_SIZE], path[FOLDER_SIZE + 16];
	struct error err;

	folder_make(folder);
	(void)snprintf(path, sizeof(path), "%s/mountinfo", folder);
	assert_int_equal(file_write_atomic(path, 0600, table, strlen(table)), 0);
	assert_int_equal(publish_check_host_path(path, TREES, "/srv/data", &err), STATUS_OK);
	assert_int_equal(publish_check_host_path(path, TREES, "/srv/other", &err), STATUS_OK);
	assert_error(publish_check_host_path(path, TREES, "/srv/web", &err), STATUS_FAILED_PRECONDITION, err,
		     "/srv/web/a b");
	assert_int_equal(publish_check_host_path(path, TREES, "/srv", &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(publish_check_host_path("/nonexistent", TREES, "/srv", &err), STATUS_INTERNAL);
	(void)unlink(path);
	(void)rmdir(folder);
}

/* Makes a table of @n mounts: the root, and at /srv one over the other. The last is read-only. */
static void put_stack(const char *path, unsigned int n)
{
	char table[8192] = ROOT_LINE;

	for (unsigned int i = 1; i < n; i++) {
		size_t at = strlen(table);

		(void)snprintf(table + at, sizeof(table) - at, "%u %u 8:1 /srv /srv %s - ext4 d rw\n", 20 + i,
			       19 + i, i + 1 == n ? "ro" : "rw");
	}
	assert_int_equal(file_write_atomic(path, 0600, table, strlen(table)), 0);
}

TEST(a_path_of_the_host_is_read_only_itself_for_podman)
{
	static const char table[] =
		"27 20 8:4 / / rw - ext4 d rw\n"
		"20 20 8:1 / / rw - ext4 d ro\n21 20 8:1 /srv/a /srv/a ro,nosuid - ext4 d rw\n"
		"22 20 8:1 /srv/b /srv/b ro - ext4 d rw\n"
		"23 22 8:1 /srv/b /srv/b rw - ext4 d rw\n"
		"24 20 8:2 / /mnt/c/d ro - ext4 d rw\n25 20 8:3 / /mnt/c rw - ext4 d rw\n"
		"26 29 8:2 / /opt/e/f ro - ext4 d rw\n29 20 8:3 / /opt/e rw - ext4 d rw\n"
		"28 27 8:4 / /srv/a rw - ext4 d rw\n";
	static const struct {
		const char *path;
		enum status status;
	} rows[] = {
		{"/srv/a", STATUS_OK},
		{"/srv/a/b", STATUS_OK},
		{"/srv/ab", STATUS_FAILED_PRECONDITION},
		{"/srv/b", STATUS_FAILED_PRECONDITION},	  /* covered */
		{"/mnt/c/d", STATUS_FAILED_PRECONDITION}, /* a later mount above hides its own */
		{"/opt/e/f", STATUS_OK},		  /* an older one, moved into a later one */
		{"/srv", STATUS_FAILED_PRECONDITION},
	};
	char folder[FOLDER_SIZE], path[FOLDER_SIZE + 16], longest[PATH_MAX + 64];
	struct error err;

	folder_make(folder);
	(void)snprintf(path, sizeof(path), "%s/mountinfo", folder);
	assert_int_equal(file_write_atomic(path, 0600, table, strlen(table)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(publish_check_read_only(path, rows[i].path, &err), rows[i].status);
	assert_contains(err.msg, "Next: mount --bind -o ro /srv /srv, and see host_paths");
	assert_int_equal(publish_check_read_only("/nonexistent", "/srv/a", &err), STATUS_INTERNAL);
	assert_int_equal(file_write_atomic(path, 0600, "", 0), 0);
	assert_int_equal(publish_check_read_only(path, "/srv/a", &err), STATUS_FAILED_PRECONDITION);
	put_stack(path, 64);
	assert_int_equal(publish_check_read_only(path, "/srv/a", &err), STATUS_OK);
	put_stack(path, 65);
	assert_error(publish_check_read_only(path, "/srv/a", &err), STATUS_INTERNAL, err, "too long");
	(void)snprintf(longest, sizeof(longest), "20 1 8:1 /%0*d / ro - ext4 d rw\n", PATH_MAX - 10, 0);
	assert_int_equal(file_write_atomic(path, 0600, longest, strlen(longest)), 0);
	assert_int_equal(publish_check_read_only(path, "/srv", &err), STATUS_OK);
	assert_int_equal(publish_check_read_only(path, "/srv/longer", &err), STATUS_FAILED_PRECONDITION);
	(void)unlink(path);
	(void)rmdir(folder);
}

TEST(a_path_of_the_host_below_a_volume_is_refused)
{
	static const char table[] = "21 20 8:2 / /data rw - ext4 d rw\n"
				    "22 20 8:2 /vol/deep /mnt/bind rw - ext4 d rw\n"
				    "23 20 8:1 / /over rw - ext4 d rw\n"
				    "24 23 8:3 / /over rw - ext4 d rw\n"
				    "25 20 8:3 / /srv/v/disk rw - ext4 d rw\n"
				    "26 20 8:4 / /whole rw - ext4 d rw\n"
				    "27 20 8:1 / /srv/far rw - ext4 d rw\n"
				    "30 20 8:1 /srv/v /run/hf/stage/s1 rw - ext4 d rw\n"
				    "31 20 8:2 /vol /run/hf/publish/a/0 rw - ext4 d rw\n"
				    "32 20 9:1 /m /run/hf/publish/a/1 rw - ext4 d rw\n"
				    "33 20 8:4 / /run/hf/publish/a/2 rw - ext4 d rw\n"
				    "34 20 8:1 net:[1] /run/hf/stage/s2 rw - nsfs n rw\n"
				    "35 20 8:1 /home /run/hf/published rw - ext4 d rw\n"
				    "20 1 8:1 / / rw - ext4 d rw\n";
	static const struct {
		const char *path;
		enum status status;
	} rows[] = {
		{"/srv/v/sub", STATUS_PERMISSION_DENIED},
		{"/srv/v/sub/deep", STATUS_PERMISSION_DENIED},
		{"/srv/v2", STATUS_OK},
		{"/srv/w/v", STATUS_OK},
		{"/data/vol", STATUS_OK}, /* the volume's folder itself */
		{"/data/vol/logs", STATUS_PERMISSION_DENIED},
		{"/data/volume", STATUS_OK},
		{"/data", STATUS_OK},	   /* above the volume */
		{"/vol/logs", STATUS_OK},  /* of another device: the minor number */
		{"/m/logs", STATUS_OK},	   /* the major one */
		{"/home/logs", STATUS_OK}, /* in no tree */
		{"/mnt/bind", STATUS_PERMISSION_DENIED},
		{"/mnt/bind/x", STATUS_PERMISSION_DENIED},
		{"/over/srv/v/sub", STATUS_OK}, /* covered */
		{"/srv/far/srv/v/sub", STATUS_PERMISSION_DENIED},
		{"/srv/v/disk", STATUS_PERMISSION_DENIED}, /* its mount point */
		{"/srv/v/disk/x", STATUS_PERMISSION_DENIED},
		{"/whole", STATUS_OK},
		{"/whole/x", STATUS_PERMISSION_DENIED},
	};
	char folder[FOLDER_SIZE], path[FOLDER_SIZE + 16], longest[PATH_MAX + 64];
	struct error err;

	folder_make(folder);
	(void)snprintf(path, sizeof(path), "%s/mountinfo", folder);
	assert_int_equal(file_write_atomic(path, 0600, table, strlen(table)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(publish_check_host_path(path, TREES, rows[i].path, &err), rows[i].status);
	(void)snprintf(longest, sizeof(longest), "20 1 8:1 /%0*d / rw - ext4 d rw\n", PATH_MAX - 10, 0);
	assert_int_equal(file_write_atomic(path, 0600, longest, strlen(longest)), 0);
	assert_int_equal(publish_check_host_path(path, TREES, "/srv", &err), STATUS_OK);
	assert_int_equal(publish_check_host_path(path, TREES, "/srv/longer", &err),
			 STATUS_FAILED_PRECONDITION);
	assert_int_equal(file_write_atomic(path, 0600, "", 0), 0);
	assert_int_equal(publish_check_host_path(path, TREES, "/srv", &err), STATUS_FAILED_PRECONDITION);
	(void)unlink(path);
	(void)rmdir(folder);
}

/* Whoever owns a folder above puts a link in its place. */
TEST(a_path_of_the_host_is_where_root_alone_could_put_it)
{
	char folder[FOLDER_SIZE], link[FOLDER_SIZE + 16];
	struct error err;

	folder_make(folder);
	(void)snprintf(link, sizeof(link), "%s/link", folder);
	assert_int_equal(symlink("/etc", link), 0);
	assert_int_equal(publish_walk_host_path("/etc", &err), STATUS_OK);
	assert_int_equal(publish_walk_host_path("/etc/passwd", &err), STATUS_OK);
	assert_int_equal(publish_walk_host_path(link, &err), STATUS_PERMISSION_DENIED);
	assert_int_equal(publish_walk_host_path(folder, &err), STATUS_PERMISSION_DENIED); /* in anyone's */
	assert_int_equal(publish_walk_host_path("/proc/mounts", &err), STATUS_PERMISSION_DENIED); /* a link */
	assert_int_equal(publish_walk_host_path("/proc/self/cwd", &err), STATUS_PERMISSION_DENIED);
	assert_int_equal(publish_walk_host_path("/etc/mtab/x", &err), STATUS_PERMISSION_DENIED);
	assert_int_equal(publish_walk_host_path("/etc/none", &err), STATUS_FAILED_PRECONDITION);
	(void)unlink(link);
	(void)rmdir(folder);
}

TEST(a_writer_is_refused_where_the_publish_is_read_only)
{
	static const char table[] =
		ROOT_LINE "30 20 0:5 / /run/holdfast/publish/" ALLOC "/0 ro - tmpfs t rw\n";
	cleanup_close int fd = -EBADF;
	char folder[FOLDER_SIZE], path[FOLDER_SIZE + 16];
	const char *reason = "";
	struct sample s;

	folder_make(folder);
	fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	make_marks(fd);
	(void)snprintf(path, sizeof(path), "%s/mountinfo", folder);
	assert_int_equal(file_write_atomic(path, 0600, table, strlen(table)), 0);
	fill(&s);
	s.task.n_volumes = 1;
	s.volume.read_only = true;
	assert_int_equal(publish_check(path, fd, "/run/holdfast/publish", &s.task, &reason, NULL), STATUS_OK);
	if (chown(folder, 1, (gid_t)-1) == 0) { /* as root: the marks are another account's */
		assert_int_equal(publish_check(path, fd, "/run/holdfast/publish", &s.task, &reason, NULL),
				 STATUS_PERMISSION_DENIED);
		assert_string_equal(reason, "volume");
		assert_int_equal(chown(folder, 0, (gid_t)-1), 0);
	}
	s.volume.read_only = false;
	assert_int_equal(publish_check(path, fd, "/run/holdfast/publish", &s.task, &reason, NULL),
			 STATUS_PERMISSION_DENIED);
	assert_string_equal(reason, "read_only");
	empty(&s);
	remove_marks(fd);
	(void)unlink(path);
	(void)rmdir(folder);
}

TEST(marks_count_only_where_the_agent_cannot_make_them)
{
	cleanup_close int fd = -EBADF;

	assert_int_equal(publish_open("/etc", 1, &fd, NULL), STATUS_OK);
	close_fdp(&fd);
	fd = -EBADF;
	assert_int_equal(publish_open("/etc", 0, &fd, NULL), STATUS_PERMISSION_DENIED); /* the agent's own */
	assert_int_equal(publish_open("/tmp", 1, &fd, NULL), STATUS_PERMISSION_DENIED); /* anyone's */
	assert_int_equal(publish_open("/tmp/x", 1, &fd, NULL), STATUS_PERMISSION_DENIED);
	assert_int_equal(publish_open("/etc/none", 1, &fd, NULL), STATUS_FAILED_PRECONDITION);
}

TEST(frames_are_read_however_they_are_cut)
{
	static const uint8_t wire[] = {1, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c', 2, 0,   0,  0,
				       0, 0, 0, 0, 2, 0, 0, 0, 0,   0,	 0,   2, 'x', 'y'};
	static const uint8_t nonsense[][8] = {{0}, {3}, {1, 1}, {'H', 'T', 'T', 'P'}};

	for (size_t cut = 1; cut <= sizeof(wire); cut++) {
		struct frames frames = {.left = 0};
		char out[3][8] = {""};

		for (size_t at = 0; at < sizeof(wire);) {
			size_t n = sizeof(wire) - at < cut ? sizeof(wire) - at : cut;
			const uint8_t *bytes;
			unsigned int stream;
			size_t n_bytes, used;

			assert_ok(frames_next(&frames, wire + at, n, &used, &stream, &bytes, &n_bytes, NULL));
			if (n_bytes > 0)
				(void)strncat(out[stream], (const char *)bytes, n_bytes);
			at += used;
		}
		assert_string_equal(out[1], "abc");
		assert_string_equal(out[2], "xy");
	}
	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++) {
		struct frames frames = {.left = 0};
		const uint8_t *bytes;
		unsigned int stream;
		size_t n_bytes, used;

		assert_int_equal(frames_next(&frames, nonsense[i], 8, &used, &stream, &bytes, &n_bytes, NULL),
				 STATUS_INTERNAL);
	}
}

TEST(pieces_of_one_stream_are_joined_however_they_are_cut)
{
	static const uint8_t wire[] = {1, 0, 0,	  0, 0, 0, 0, 2, 'a', 'b', 1, 0,   0,	0,   0,	  0,
				       0, 1, 'c', 2, 0, 0, 0, 0, 0,   0,   3, 'x', 'y', 'z', 1,	  0,
				       0, 0, 0,	  0, 0, 0, 1, 0, 0,   0,   0, 0,   0,	1,   'd', 9};
	size_t n_runs = 0;

	for (size_t cut = 1; cut <= sizeof(wire); cut++) {
		uint8_t bytes[sizeof(wire)];
		struct frames frames = {.left = 0};
		char out[3][8] = {""};

		memcpy(bytes, wire, sizeof(wire));
		n_runs = 0;
		for (size_t at = 0; at < sizeof(wire) - 1;) {
			size_t n = sizeof(wire) - at < cut ? sizeof(wire) - at : cut;
			struct frames_run run = {.n = 0};
			size_t used;

			assert_int_equal(frames_join(&frames, bytes + at, n, &used, &run, NULL), STATUS_OK);
			if (run.n > 0) {
				(void)strncat(out[run.stream], (const char *)run.bytes, run.n);
				n_runs++;
			}
			at += used;
		}
		assert_string_equal(out[1], "abcd");
		assert_string_equal(out[2], "xyz");
	}
	assert_int_equal(n_runs,
			 3); /* of all at once; the last byte begins no frame, and is looked at last */
}

TEST(times_of_engines_are_read)
{
	assert_int_equal(container_time("0001-01-01T00:00:00Z"), 0);
	assert_int_equal(container_time("1970-01-02T00:00:00.123456789Z"), 86400123);
	assert_int_equal(container_time("1970-01-02T02:00:00.5+02:00"), 86400500);
	assert_int_equal(container_time("soon"), 0);
	assert_int_equal(container_time(NULL), 0);
}

/* Only what says that another boot made it, and for which task. */
TEST(containers_of_an_earlier_boot_are_leftovers)
{
#define LABELS(boot, alloc, task)                                                            \
	"{\"Names\":[\"/holdfast-" alloc "-" task "\",\"/holdfast-net-" alloc                \
	"\"],\"Labels\":{\"dev.holdfast.alloc\":\"" alloc "\",\"dev.holdfast.task\":\"" task \
	"\",\"dev.holdfast.boot\":\"" boot "\"}}"
	static const struct {
		const char *json;
		bool is_leftover;
	} rows[] = {
		{LABELS("0190a6f2-0000-7000-8000-0000000000b1", ALLOC, "web"), true},
		{LABELS("0190a6f2-0000-7000-8000-0000000000b1", ALLOC, ""), true}, /* a network */
		{LABELS("0190a6f2-0000-7000-8000-0000000000b0", ALLOC, "web"), false},
		{LABELS("", ALLOC, "web"), false},
		{LABELS("0190a6f2-0000-7000-8000-0000000000b1", "../x", "web"), false},
		{LABELS("0190a6f2-0000-7000-8000-0000000000b1", ALLOC, "a/b"), false},
		{"{\"Labels\":{\"dev.holdfast.alloc\":\"" ALLOC "\"}}", false},
		{"{\"Names\":[\"/mine\"],\"Labels\":{\"dev.holdfast.alloc\":\"" ALLOC
		 "\",\"dev.holdfast.task\":\"web\",\"dev.holdfast.boot\":\"0190a6f2-0000-7000-8000-"
		 "0000000000b1\"}}",
		 false}, /* by its image */
		{"{\"Labels\":null}", false},
		{"[]", false},
	};
	struct settings settings = read_settings(IMAGE);
	cleanup(json_decrefp) json_t *filters = container_filters(&settings, true, NULL);
	const char *alloc, *task;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup(json_decrefp) json_t *listed = NON_NULL(json_loads(rows[i].json, 0, NULL));

		assert_int_equal(container_is_leftover(listed, order.boot_id, &alloc, &task),
				 rows[i].is_leftover);
	}
	assert_string_equal(json_string_value(json_array_get(json_object_get(filters, "label"), 0)),
			    "dev.holdfast.node=prod/node-1");
}

TEST(a_check_counts_for_the_namespace_of_its_task)
{
	char *argv[] = {TEXT("true")};
	Holdfast__Driver__V1__HealthCheck health = PB(holdfast__driver__v1__health_check, .n_argv = 1,
						      .argv = argv, .interval_ms = 1000, .timeout_ms = 1000);
	struct settings settings = read_settings(IMAGE);
	cleanup(json_decrefp) json_t *body = NULL;
	struct task_spec spec;
	struct sample s;

	fill(&s);
	s.task.namespace_ = TEXT("team-a");
	s.task.health = &health;
	assert_ok(task_spec_read(&s.task, &spec, NULL));
	body = container_of_task(&settings, &spec, &order, NULL);
	assert_contains(
		json_string_value(json_object_get(json_object_get(body, "Labels"), "dev.holdfast.health")),
		"\"namespace\":\"team-a\"");
	empty(&s);
}
