#include "startup.h"

#include "base/str.h"

#include <string.h>
#include <unistd.h>

_Noreturn void startup_fail(int message_fd, enum exit_code code, const struct error *err)
{
	char line[ERROR_MSG_MAX + 64];

	/* one write; whether it arrives is the caller's business, who has the exit code as well */
	if (message_fd >= 0 &&
	    str_format(line, sizeof(line), "holdfast-mounthelper: exit %d: %s\n", (int)code, err->msg) > 0)
		(void)!write(message_fd, line, strlen(line));
	_exit((int)code);
}
