#pragma once
/* Shed what the caller left in this process, before anything is read or parsed. Source: execve(2)
 * on what a program inherits. */

#include "startup.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	ENTRY_SOCKET_FD = 3,
	ENTRY_MESSAGE_FD = 4, /* copy of the caller's standard error, until the lock-down */
};

/* What the kernel says of how this process was started. */
struct entry_facts {
	int argc;
	bool has_argv0;
	bool at_secure;
	bool no_new_privs;
	uint32_t ruid;
	uint32_t euid;
};

/** Is this the setuid door? Pure. @ret_code is set on failure. */
enum status entry_check(const struct entry_facts *facts, enum exit_code *ret_code, struct error *err);

/** Read the facts of this process; also empties the environment. */
void entry_read_facts(int argc, char **argv, struct entry_facts *ret);

/** 0, 1, 2 become /dev/null; 3 stays and must be a SEQPACKET socket; 4 is the old 2; the rest is closed.
 * @message_fd where failures can be told: updated as the descriptors move, negative for nowhere */
enum status entry_descriptors(int *message_fd, struct error *err);

/** Working directory, umask, session, signals, timers, scheduling. */
enum status entry_process_state(struct error *err);

/** Fixed resource limits; fails when a hard limit is too small and cannot be raised. */
enum status entry_limits(struct error *err);

/** Stop sharing a uid with the caller: from here on it can neither signal nor trace this process. */
enum status entry_become_root(struct error *err);
