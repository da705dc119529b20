/* SPDX-License-Identifier: Apache-2.0 */
#include "base/selinux_label.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { ENFORCE_MAX = 16 };

/* Not file_read(): a size of 0 is what files of the kernel have. */
static int read_line(const char *path, size_t max, char **ret)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	int r = fd < 0 ? -errno : fd_read_all(fd, max, ret, &n);

	if (r < 0 || !*ret)
		return r < 0 ? r : -ENOMEM;
	(*ret)[strcspn(*ret, "\n")] = '\0';
	return 0;
}

/* USER:ROLE:TYPE, and :LEVEL where the policy has levels. */
static bool has_type(const char *context, const char *type)
{
	size_t n = strlen(type);

	for (int i = 0; i < 2; i++) {
		context = strchr(context, ':');
		if (!context)
			return false;
		context++;
	}
	return strncmp(context, type, n) == 0 && (context[n] == ':' || context[n] == '\0');
}

int selinux_label_is_wrong(const char *enforce_path, const char *current_path, const char *type,
			   char ret[static SELINUX_LABEL_MAX + 1])
{
	cleanup_free char *enforce = NULL;
	cleanup_free char *current = NULL;
	int r = read_line(enforce_path, ENFORCE_MAX, &enforce);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (!str_eq(enforce, "1"))
		return 0;
	r = read_line(current_path, SELINUX_LABEL_MAX, &current);
	if (r < 0)
		return r;
	if (has_type(current, type))
		return 0;
	r = str_copy(ret, SELINUX_LABEL_MAX + 1, current);
	return r < 0 ? r : 1;
}

int selinux_label_is_wrong_here(const char *type, char ret[static SELINUX_LABEL_MAX + 1])
{
	return selinux_label_is_wrong("/sys/fs/selinux/enforce", "/proc/self/attr/current", type, ret);
}

enum status selinux_label_check(const char *type, struct error *err)
{
	char context[SELINUX_LABEL_MAX + 1];
	char program[PATH_MAX];
	ssize_t n;

	/* an error of the kernel counts as a good label */
	if (selinux_label_is_wrong_here(type, context) <= 0)
		return STATUS_OK;
	n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	program[n < 0 ? 0 : n] = '\0';
	return selinux_label_error(program, type, context, err);
}

enum status selinux_label_error(const char *program, const char *type, const char *context, struct error *err)
{
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"SELinux label missing: this runs as %s, not in the domain %s, so the policy does not "
		"confine it; with the package holdfast-selinux installed, run: restorecon -v %s, and "
		"restart its unit",
		context, type, program);
}
