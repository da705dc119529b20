/* SPDX-License-Identifier: Apache-2.0 */
#include "podman_spec.h"
#include "unit.h"

#include "base/cleanup.h"

#include <string.h>

/* Reads JSON with ' for ". */
static json_t *load(const char *text)
{
	cleanup_free char *own = strdup(text);
	json_t *json;

	for (char *quote = own; (quote = strchr(quote, '\''));)
		*quote = '"';
	json = json_loads(own, 0, NULL);
	assert_msg(json != NULL, "%s", text);
	return json;
}

static json_t *translate(const char *text)
{
	cleanup(json_decrefp) json_t *body = load(text);

	return podman_spec_of(body, "web", "/srv/app");
}

#define HOST(text) "{'HostConfig': {" text "}}"
#define BIND(more) "{'Type': 'bind', 'Source': '/s', 'Target': '/t', 'ReadOnly': false" more "}"
#define PRIVATE ", 'BindOptions': {'Propagation': 'rprivate'}"
#define TMPFS(path)                                                  \
	"{'type': 'tmpfs', 'source': 'tmpfs', 'destination': '" path \
	"', 'options': ['rw', 'rprivate', 'nosuid', 'nodev', 'tmpcopyup']}"

/* podman makes the folder of a request that has none, so each has one. */
TEST(a_request_leaves_no_choice_to_podman)
{
	static const char expected[] = "{'name': 'web', 'work_dir': '/srv/app', 'create_working_dir': false, "
				       "'manage_password': false, "
				       "'mounts': [], 'oom_score_adj': 0, 'image_volume_mode': 'anonymous', "
				       "'base_hosts_file': 'none', 'systemd': 'false'}";
	cleanup(json_decrefp) json_t *wanted = load(expected), *body = json_object();
	cleanup(json_decrefp) json_t *found = podman_spec_of(body, "web", "/srv/app");
	const char *const none[] = {NULL, ""};

	assert_true(json_equal(wanted, found));
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		cleanup(json_decrefp) json_t *bare = podman_spec_of(body, "web", none[i]);

		assert_string_equal(json_string_value(json_object_get(bare, "work_dir")), "/");
	}
}

TEST(each_member_is_translated)
{
	static const struct {
		const char *body, *key, *value;
	} rows[] = {
		{"{'Image': 'localhost/bb:1'}", "image", "'localhost/bb:1'"},
		{"{'User': '1000'}", "user", "'1000'"},
		{"{'Hostname': 'h'}", "hostname", "'h'"},
		{"{'WorkingDir': '/own'}", "work_dir", "'/own'"},
		{"{'Entrypoint': ['/bin/sh', '-c']}", "entrypoint", "['/bin/sh', '-c']"},
		{"{'Cmd': []}", "command", "[]"},
		{"{'Env': ['A=1', 'B=', 'C=x=y']}", "env", "{'A': '1', 'B': '', 'C': 'x=y'}"},
		{"{'Labels': {'a': 'b'}}", "labels", "{'a': 'b'}"},
		{"{'StopSignal': 'SIGKILL'}", "stop_signal", "9"},
		{"{'StopSignal': 'SIGUSR1'}", "stop_signal", "10"},
		{"{'StopTimeout': 5}", "stop_timeout", "5"},
		{"{'Healthcheck': {'Test': ['NONE']}}", "healthconfig", "{'Test': ['NONE']}"},
		{HOST("'SecurityOpt': ['no-new-privileges']"), "no_new_privileges", "true"},
		{HOST("'CapDrop': ['ALL']"), "cap_drop", "['ALL']"},
		{HOST("'CapAdd': ['CAP_NET_RAW']"), "cap_add", "['CAP_NET_RAW']"},
		{HOST("'Privileged': false"), "privileged", "false"},
		{HOST("'NetworkMode': 'none'"), "netns", "{'nsmode': 'none'}"},
		{HOST("'NetworkMode': 'host'"), "netns", "{'nsmode': 'host'}"},
		{HOST("'NetworkMode': 'container:n'"), "netns", "{'nsmode': 'container', 'value': 'n'}"},
		{HOST("'RestartPolicy': {'Name': 'no'}"), "restart_policy", "'no'"},
		{HOST("'LogConfig': {'Type': 'none'}"), "log_configuration", "{'driver': 'none'}"},
		{HOST("'ReadonlyRootfs': false"), "read_only_filesystem", "false"},
		{HOST("'Init': true"), "init", "true"},
		{HOST("'Ulimits': [{'Name': 'nofile', 'Soft': 1, 'Hard': 2}]"), "r_limits",
		 "[{'type': 'nofile', 'soft': 1, 'hard': 2}]"},
		{HOST("'CpuShares': 2, 'NanoCpus': 1500000000"), "resource_limits",
		 "{'cpu': {'shares': 2, 'quota': 150000, 'period': 100000}}"},
		{HOST("'Memory': 10, 'MemorySwap': 20, 'PidsLimit': 7"), "resource_limits",
		 "{'memory': {'limit': 10, 'swap': 20}, 'pids': {'limit': 7}}"},
		{HOST("'Mounts': [" BIND(PRIVATE) "]"), "mounts",
		 "[{'type': 'bind', 'source': '/s', 'destination': '/t', 'options': ['bind', 'rw', "
		 "'rprivate']}]"},
		{HOST("'Mounts': [{'Type': 'bind', 'Source': '/s', 'Target': '/t', 'ReadOnly': true, "
		      "'BindOptions': {'Propagation': 'rslave', 'NonRecursive': true}}]"),
		 "mounts",
		 "[{'type': 'bind', 'source': '/s', 'destination': '/t', 'options': ['bind', 'ro', "
		 "'rslave']}]"},
		{HOST("'ReadonlyRootfs': true"), "read_write_tmpfs", "true"},
		{HOST("'ReadonlyRootfs': true"), "mounts",
		 "[" TMPFS("/tmp") ", " TMPFS("/var/tmp") ", " TMPFS("/run") "]"},
		{HOST("'ReadonlyRootfs': true, 'Mounts': [{'Type': 'bind', 'Source': '/s', 'Target': '/tmp', "
		      "'ReadOnly': false" PRIVATE "}]"),
		 "mounts",
		 "[{'type': 'bind', 'source': '/s', 'destination': '/tmp', 'options': ['bind', 'rw', "
		 "'rprivate']}, " TMPFS("/var/tmp") ", " TMPFS("/run") "]"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup(json_decrefp) json_t *spec = translate(rows[i].body);
		char text[1024];
		cleanup(json_decrefp) json_t *wanted = NULL;
		json_t *found = json_object_get(spec, rows[i].key);

		(void)snprintf(text, sizeof(text), "[%s]", rows[i].value);
		wanted = load(text);
		assert_msg(json_equal(found, json_array_get(wanted, 0)), "%s", rows[i].body);
	}
}

/* Else the container would be made without it. */
TEST(an_unknown_member_is_refused)
{
	static const char *const unknown[] = {
		"{'Tty': true}",
		"{'Memory': 1}",
		"{'Env': ['A']}",
		"{'Env': [1]}",
		"{'StopSignal': 'SIGRTMIN'}",
		"{'StopSignal': 9}",
		"{'Healthcheck': {'Test': ['NONE'], 'Interval': 1}}",
		"{'Healthcheck': {'Test': ['CMD']}}",
		HOST("'Binds': []"),
		HOST("'IpcMode': 'host'"),
		HOST("'Image': 'x'"),
		HOST("'HostConfig': {}"),
		HOST("'SecurityOpt': []"),
		HOST("'SecurityOpt': ['seccomp=unconfined']"),
		HOST("'SecurityOpt': ['no-new-privileges', 'label=disable']"),
		HOST("'NetworkMode': 'bridge'"),
		HOST("'NetworkMode': 1"),
		HOST("'RestartPolicy': {'Name': 'no', 'MaximumRetryCount': 1}"),
		HOST("'LogConfig': {'Type': 'none', 'Config': {}}"),
		HOST("'Ulimits': [{'Name': 'nofile', 'Soft': 1}]"),
		HOST("'Ulimits': [{'Name': 'nofile', 'Soft': 1, 'Hard': 2, 'More': 1}]"),
		HOST("'Mounts': [" BIND("") "]"),
		HOST("'Mounts': [" BIND(PRIVATE ", 'Consistency': 'default'") "]"),
		HOST("'Mounts': [" BIND(
			", 'BindOptions': {'Propagation': 'rprivate', 'CreateMountpoint': true}") "]"),
		HOST("'Mounts': [{'Type': 'volume', 'Source': '/s', 'Target': '/t', 'ReadOnly': false" PRIVATE
		     "}]"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		cleanup(json_decrefp) json_t *spec = translate(unknown[i]);

		assert_msg(!spec, "%s", unknown[i]);
	}
}
