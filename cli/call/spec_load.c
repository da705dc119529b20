/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "call/connect.h"
#include "call/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Returns the path up to its last slash: other files are named relative to it. */
static enum status folder_of(struct invocation *inv, const char *path, char ret[static PATH_MAX],
			     struct error *err)
{
	const char *slash = strrchr(path, '/');

	if (str_format(ret, PATH_MAX, "%.*s", slash ? (int)(slash - path + 1) : 0, path) < 0)
		return usage_error(inv, err, "the name of the file is too long");
	return STATUS_OK;
}

enum status spec_bound(const struct invocation *inv, const char *folder, char ret[static PATH_MAX],
		       struct error *err)
{
	cleanup_free char *real = realpath(folder[0] != '\0' ? folder : ".", NULL);

	ret[0] = '\0';
	if (inv->options[OPT_OUTSIDE])
		return STATUS_OK;
	if (!real || str_copy(ret, PATH_MAX, real) < 0)
		return error_set(err, status_from_errno(errno), errno, "read the folder %s", folder);
	return STATUS_OK;
}

enum status spec_volume_load(struct invocation *inv, Holdfast__V1__Volume **ret, uint32_t *ret_members,
			     struct error *err)
{
	cleanup_message Holdfast__V1__Volume *volume = NULL;
	struct conf *conf = NULL;
	char folder[PATH_MAX], within[PATH_MAX];
	enum status status = folder_of(inv, inv->args[0], folder, err);

	if (status == STATUS_OK)
		status = conf_load_whole(inv->args[0], CONF_NO_TEMPLATES, &conf, err);
	if (status == STATUS_OK)
		status = spec_bound(inv, folder, within, err);
	if (status == STATUS_OK)
		status = spec_members(conf, ret_members, err);
	if (status == STATUS_OK)
		status = spec_volume(conf, folder, within, &volume, err);
	conf_free(conf);
	if (status == STATUS_OK)
		status = option_apply(inv, OPT_NAMESPACE, &volume->namespace_, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(volume);
	return status;
}

enum status spec_blame(const struct invocation *inv, spec_blame_fn *blame, enum status status,
		       struct error *err)
{
	const Holdfast__V1__ErrorDetails *details =
		(const Holdfast__V1__ErrorDetails *)(const void *)inv->details;
	struct conf *conf = NULL;
	struct error unread;

	if (status != STATUS_INVALID_ARGUMENT || inv->is_usage_error)
		return status;
	if (details && details->n_fields > 0 && !str_eq(inv->args[0], "-") &&
	    conf_load_whole(inv->args[0], CONF_REFERENCES, &conf, &unread) == STATUS_OK)
		(void)blame(conf, details, err);
	else
		(void)error_prefix(err, "%s", inv->args[0]);
	conf_free(conf);
	return status;
}
