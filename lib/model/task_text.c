/* SPDX-License-Identifier: Apache-2.0 */
/* The closed alphabets of a task's texts for a container engine. */
#include "model/task_text.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/str.h"

#include <string.h>

enum { VALUE_MAX = 32 << 10 };

typedef Holdfast__Driver__V1__TaskConfig task_t;
typedef Holdfast__Driver__V1__ConfigValue value_t;

static bool is_plain_path(const char *s)
{
	return path_is_normal(s);
}

static bool is_outside_of_kernel(const char *s)
{
	static const char *const kernels[] = {"/proc", "/sys", "/dev"};

	for (size_t i = 0; i < ARRAY_SIZE(kernels); i++)
		if (path_is_normal(s) && path_is_within(s, kernels[i]))
			return false;
	return path_is_normal(s);
}

static bool is_destination(const char *s)
{
	return is_outside_of_kernel(s) && !str_eq(s, "/");
}

static bool is_image(const char *s)
{
	return s[0] != '/' && s[0] != '-' && s[0] != '.' && !strstr(s, "..") && !strstr(s, "//");
}

/* USER or USER:GROUP, or nothing. */
static bool is_user(const char *s)
{
	const char *colon = strchr(s, ':');

	return s[0] == '\0' ||
	       (s[0] != '-' && s[0] != ':' && (!colon || (colon[1] != '\0' && !strchr(colon + 1, ':'))));
}

static bool is_env_name(const char *s)
{
	return s[0] < '0' || s[0] > '9';
}

static bool is_capability(const char *s)
{
	return str_starts_with(s, "CAP_") && s[4] != '\0';
}

static bool is_socket_name(const char *s)
{
	size_t n = strlen(s);

	return n > 5 && str_eq(s + n - 5, ".sock") && s[0] != '.';
}

static bool is_free(const char *s)
{
	return true;
}

/* @more characters in addition to letters and digits; NULL: any, the text is never split. */
static const struct {
	const char *more;
	size_t min;
	size_t max;
	bool (*is_right)(const char *s);
	const char *rule;
} rules[TASK_TEXT_N] = {
#define PATH_RULE "of at most 255 letters, digits and . _ - @ + ~"
	[TASK_TEXT_DESTINATION] = {"/._-@+~", 2, 255, is_destination,
				   "an absolute path outside of /proc, /sys and /dev " PATH_RULE},
	[TASK_TEXT_SOURCE] = {"/._-@+~", 2, 255, is_plain_path, "an absolute path below / " PATH_RULE},
	[TASK_TEXT_WORK_DIR] = {"/._-@+~", 0, 255, is_outside_of_kernel,
				"an absolute path outside of /proc, /sys and /dev " PATH_RULE},
	[TASK_TEXT_HOSTNAME] = {".-", 0, 64, is_free, "at most 64 letters, digits, . and -"},
	[TASK_TEXT_IMAGE] = {"._-/:@", 1, 255, is_image, "the name of an image, as in host/name:tag"},
	[TASK_TEXT_USER] = {"._-:", 0, 63, is_user, "a user or USER:GROUP, by name or number"},
	[TASK_TEXT_ENV_NAME] = {"_.-", 1, 255, is_env_name,
				"the name of a variable: letters, digits and _ . -, no digit first"},
	[TASK_TEXT_ENV_VALUE] = {NULL, 0, VALUE_MAX, is_free, "at most 32768 bytes"},
	[TASK_TEXT_CAPABILITY] = {"_", 5, 31, is_capability, "a capability, as in CAP_NET_BIND_SERVICE"},
	[TASK_TEXT_SIGNAL] = {"", 0, 15, is_free, "a signal, as in SIGTERM"},
	[TASK_TEXT_SOCKET] = {"._-", 0, 63, is_socket_name, "the name of a socket, as in csi.sock"},
	[TASK_TEXT_ARGUMENT] = {NULL, 0, VALUE_MAX, is_free, "at most 32768 bytes"},
};

bool task_text_is_right(enum task_text kind, const char *text)
{
	size_t n = strlen(text);

	if (n == 0 && rules[kind].min == 0)
		return true;
	return n >= rules[kind].min && n <= rules[kind].max &&
	       (!rules[kind].more || str_is_made_of(text, rules[kind].more)) && rules[kind].is_right(text);
}

const char *task_text_rule(enum task_text kind)
{
	return rules[kind].rule;
}

/* False: @text is right. */
static bool is_fault(enum task_text kind, const char *field, const char *text, struct task_text_fault *ret)
{
	if (task_text_is_right(kind, text))
		return false;
	if (kind == TASK_TEXT_ENV_VALUE || kind == TASK_TEXT_ARGUMENT)
		text = "..."; /* it may be a secret, and refusals are on record */
	*ret = (struct task_text_fault){.field = field, .text = text, .kind = kind};
	return true;
}

/* The settings of driver container, by key. Those of a map are its keys and its values. */
static const struct {
	const char *key;
	enum task_text text;
	enum task_text list;
	enum task_text map_key;
	enum task_text map_value;
} settings[] = {
#define ARGUMENTS TASK_TEXT_ARGUMENT, TASK_TEXT_ARGUMENT, TASK_TEXT_ARGUMENT
	{"image", TASK_TEXT_IMAGE, ARGUMENTS},
	{"work_dir", TASK_TEXT_WORK_DIR, ARGUMENTS},
	{"hostname", TASK_TEXT_HOSTNAME, ARGUMENTS},
	{"cap_add", TASK_TEXT_ARGUMENT, TASK_TEXT_CAPABILITY, TASK_TEXT_ARGUMENT, TASK_TEXT_ARGUMENT},
	{"host_paths", TASK_TEXT_ARGUMENT, TASK_TEXT_ARGUMENT, TASK_TEXT_SOURCE, TASK_TEXT_DESTINATION},
	{"command", TASK_TEXT_ARGUMENT, ARGUMENTS},
	{"args", TASK_TEXT_ARGUMENT, ARGUMENTS},
};

static bool value_has_fault(const value_t *value, struct task_text_fault *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		if (!str_eq(value->key, settings[i].key))
			continue;
		if (is_fault(settings[i].text, settings[i].key, value->text, ret))
			return true;
		for (size_t k = 0; k < value->n_list; k++)
			if (is_fault(settings[i].list, settings[i].key, value->list[k], ret))
				return true;
		for (size_t k = 0; k < value->n_map; k++)
			if (is_fault(settings[i].map_key, settings[i].key, value->map[k]->key, ret) ||
			    is_fault(settings[i].map_value, settings[i].key, value->map[k]->value, ret))
				return true;
	}
	return false;
}

static bool mount_has_fault(const task_t *task, struct task_text_fault *ret)
{
	const Holdfast__Driver__V1__CsiPluginMount *plugin = task->csi_plugin;

	for (size_t i = 0; i < task->n_volumes; i++)
		if (is_fault(TASK_TEXT_DESTINATION, "destination", task->volumes[i]->destination, ret))
			return true;
	if (!plugin)
		return false;
	return (plugin->destination[0] != '\0' &&
		is_fault(TASK_TEXT_DESTINATION, "mount_dir", plugin->destination, ret)) ||
	       is_fault(TASK_TEXT_SOCKET, "socket", plugin->socket, ret);
}

bool task_text_find_fault(const task_t *task, struct task_text_fault *ret)
{
	if (is_fault(TASK_TEXT_USER, "user", task->user, ret) ||
	    is_fault(TASK_TEXT_SIGNAL, "stop_signal", task->stop_signal, ret) || mount_has_fault(task, ret))
		return true;
	for (size_t i = 0; i < task->n_env; i++)
		if (is_fault(TASK_TEXT_ENV_NAME, "env", task->env[i]->key, ret) ||
		    is_fault(TASK_TEXT_ENV_VALUE, "env", task->env[i]->value, ret))
			return true;
	for (size_t i = 0; task->health && i < task->health->n_argv; i++)
		if (is_fault(TASK_TEXT_ARGUMENT, "health", task->health->argv[i], ret))
			return true;
	for (size_t i = 0; str_eq(task->driver, TASK_DRIVER_CONTAINER) && i < task->n_config; i++)
		if (value_has_fault(task->config[i], ret))
			return true;
	return false;
}
