/* SPDX-License-Identifier: Apache-2.0 */
#include "examples.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "command/commands.h"
#include "show/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static enum status write_new(const char *path, const char *text, struct error *err)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	int r;

	if (fd < 0 && errno == EEXIST)
		return error_set(err, STATUS_ALREADY_EXISTS, 0,
				 "%s exists and is not overwritten. Next: holdfast volume init OTHER-FILE",
				 path);
	if (fd < 0)
		return error_set(err, status_from_errno(errno), errno, "make %s", path);
	r = fd_write_all(fd, text, strlen(text));
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "write %s", path);
	return STATUS_OK;
}

enum status cmd_volume_init(struct invocation *inv, struct error *err)
{
	const char *type = inv->options[OPT_TYPE] ? inv->options[OPT_TYPE] : "csi";
	const char *path = inv->n_args > 0 ? inv->args[0] : "volume.hcl";
	bool is_csi = str_eq(type, "csi");
	enum status status;

	if (!is_csi && !str_eq(type, "native"))
		return usage_error(inv, err, "--type is csi or native, not '%s'", type);
	status = write_new(path, is_csi ? example_csi : example_native, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_json(json_pack("{ss}", "file", path), err);
	print_line("%s is an example: change it, then holdfast volume %s %s", path,
		   is_csi ? "create" : "register", path);
	return STATUS_OK;
}
