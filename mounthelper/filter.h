#pragma once
/* The system calls of the serving phase, with the arguments that they may have. Everything else, foreign
 * architectures included, kills the process. docs/man/holdfast-mounthelper.8.scd shows the same table. */

#include "base/error.h"

#include <stdbool.h>

struct filter_fds {
	int socket;
	int log;
	int log_read;
	int mountinfo;
	int state;
	int audit;   /* or negative */
	int journal; /* or negative */
};

/** Build the filter; @ret is for filter_load() only. */
enum status filter_build(const struct filter_fds *fds, bool allow_detach, void **ret, struct error *err);

/** Load it. What libseccomp allocated is never freed: freeing would need system calls that are gone.
 * Returns 0 or a negative errno. */
int filter_load(void *filter);
