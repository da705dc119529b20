/* SPDX-License-Identifier: Apache-2.0 */
#include "command/contexts.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "command/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 20, NAMES_MAX = 4096, KEY_SIZE = 32 };

const option_set context_options = OPTION_BIT(OPT_ADDRESS) | OPTION_BIT(OPT_CA) | OPTION_BIT(OPT_CERT) |
				   OPTION_BIT(OPT_KEY) | OPTION_BIT(OPT_SERVER_URI) |
				   OPTION_BIT(OPT_DEV_DIR) | OPTION_BIT(OPT_SOCKET) |
				   OPTION_BIT(OPT_NAMESPACE) | OPTION_BIT(OPT_TOKEN_FILE);

const char *context_key(enum option_id id, char ret[static KEY_SIZE])
{
	(void)str_copy(ret, KEY_SIZE, command_options[id].name);
	for (char *at = ret; *at != '\0'; at++)
		if (*at == '-')
			*at = '_';
	return ret;
}

/* @up how many of its last parts are left out. */
static enum status path_of(char ret[static PATH_MAX], int up, struct error *err)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int r;

	if (config && config[0] == '/')
		r = str_format(ret, PATH_MAX, "%s/holdfast/contexts.json", config);
	else if (home && home[0] == '/')
		r = str_format(ret, PATH_MAX, "%s/.config/holdfast/contexts.json", home);
	else
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"contexts are in your config folder, and neither HOME nor XDG_CONFIG_HOME is set");
	if (r < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, ENAMETOOLONG, "the path of the contexts");
	for (; up > 0; up--)
		*strrchr(ret, '/') = '\0';
	return STATUS_OK;
}

/* The text of the file, NULL if it does not exist. Its names of CA and server decide who gets the token. */
static enum status read_file(const char *path, char **ret, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	int r;

	if (fd < 0 && errno == ENOENT)
		return STATUS_OK;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, status_from_errno(errno), errno, "cannot read the contexts in %s",
				 path);
	if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) ||
	    (st.st_mode & (S_IWGRP | S_IWOTH)))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "cannot use the contexts in %s: another user owns or may change them. Next: "
				 "chown and "
				 "chmod go-w, or remove the file",
				 path);
	r = fd_read_all(fd, FILE_MAX, ret, NULL);
	return r < 0 ? error_set(err, status_from_errno(r), r, "cannot read the contexts in %s", path)
		     : STATUS_OK;
}

/* Each context has known keys and texts. */
static bool is_valid(const json_t *root)
{
	const char *name, *key;
	json_t *context, *value, *contexts = json_object_get(root, "contexts");
	char known[KEY_SIZE];

	if (!json_is_object(contexts) || !json_is_string(json_object_get(root, "current")))
		return false;
	json_object_foreach (contexts, name, context) {
		if (!json_is_object(context))
			return false;
		json_object_foreach (context, key, value) {
			bool is_known = false;

			for (int id = 0; id < OPTION_N; id++)
				is_known = is_known || ((context_options & OPTION_BIT(id)) &&
							str_eq(key, context_key((enum option_id)id, known)));
			if (!is_known || !json_is_string(value))
				return false;
		}
	}
	return true;
}

enum status contexts_load(json_t **ret, struct error *err)
{
	cleanup_free char *text = NULL;
	char path[PATH_MAX];
	json_t *root;

	TRY(path_of(path, 0, err));
	TRY(read_file(path, &text, err));
	root = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL)
		    : json_pack("{sss{}}", "current", "", "contexts");
	if (!root || !is_valid(root)) {
		json_decref(root);
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"%s holds no contexts. Next: remove it, and holdfast context set NAME --address ...",
			path);
	}
	*ret = root;
	return STATUS_OK;
}

enum status contexts_save(const json_t *contexts, struct error *err)
{
	cleanup_free char *text = json_dumps(contexts, JSON_INDENT(2));
	char path[PATH_MAX];
	int r;

	if (!text)
		return error_no_memory(err, "contexts");
	for (int up = 2; up > 0; up--) {
		TRY(path_of(path, up, err));
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return error_set(err, status_from_errno(errno), errno, "cannot make %s", path);
	}
	TRY(path_of(path, 0, err));
	r = file_write_atomic(path, 0600, text, strlen(text));
	return r < 0 ? error_set(err, status_from_errno(r), r, "cannot write %s", path) : STATUS_OK;
}

enum status context_find(json_t *contexts, const char *name, json_t **ret, struct error *err)
{
	cleanup_strbuf struct strbuf names = STRBUF_INIT(NAMES_MAX);
	json_t *all = json_object_get(contexts, "contexts"), *value;
	const char *key;

	*ret = json_object_get(all, name);
	if (*ret)
		return STATUS_OK;
	json_object_foreach (all, key, value)
		strbuf_printf(&names, "%s%s", names.len ? ", " : "", key);
	if (names.len == 0)
		return error_set(
			err, STATUS_NOT_FOUND, 0,
			"there is no context '%s'. Next: holdfast context set %s --address HOST:PORT", name,
			name);
	return error_set(err, STATUS_NOT_FOUND, 0, "there is no context '%s', only %s", name, names.data);
}

enum status context_apply(struct invocation *inv, struct error *err)
{
	cleanup(json_decrefp) json_t *contexts = NULL;
	const option_set whole = context_options & ~(OPTION_BIT(OPT_NAMESPACE) | OPTION_BIT(OPT_SOCKET));
	const char *named = setting_value(inv, OPT_CONTEXT);
	const char *name;
	json_t *context;

	if (inv->context || (!named && (setting_value(inv, OPT_ADDRESS) || setting_value(inv, OPT_DEV_DIR))))
		return STATUS_OK;
	if (!named && !getenv("HOME") && !getenv("XDG_CONFIG_HOME"))
		return STATUS_OK;
	TRY(contexts_load(&contexts, err));
	name = named ? named : json_string_value(json_object_get(contexts, "current"));
	if (name[0] == '\0')
		return STATUS_OK;
	TRY(context_find(contexts, name, &context, err));
	inv->context = json_incref(context);
	for (int id = 0; id < OPTION_N; id++) {
		char key[KEY_SIZE];
		json_t *value = (context_options & OPTION_BIT(id))
					? json_object_get(context, context_key((enum option_id)id, key))
					: NULL;

		if (value && (named ? !inv->options[id] : !setting_value(inv, (enum option_id)id)))
			inv->options[id] = json_string_value(value);
		if (named && (whole & OPTION_BIT(id)) && !inv->options[id])
			inv->options[id] = ""; /* the variable is about another server */
	}
	return STATUS_OK;
}
