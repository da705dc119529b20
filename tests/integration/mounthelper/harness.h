/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A machine for the mount helper: the setuid program, policy, log, trees and one block device below
 * TEST_PREFIX, all of it on file systems that only this mount namespace sees. */

#include "unit.h"

#include "base/mountinfo.h"

#include <mounthelper_wire.h>
#include <sys/types.h>

/* Ids that exist nowhere. */
enum { AGENT_UID = 64101, HELPER_UID = 64102, OTHER_UID = 64103 };

#define POLICY_PATH TEST_PREFIX "/etc/mounthelper.policy.applied"
#define LOG_PATH TEST_PREFIX "/log/trail"
#define STATE_PATH TEST_PREFIX "/lock/state"
#define STAGE_BASE TEST_PREFIX "/trees/stage"
#define PUBLISH_BASE TEST_PREFIX "/trees/publish"
#define BY_ID "holdfast-test-disk"
#define ALLOC "aaaaaaaa-1111-2222-3333-444444444444"
#define PUBLISHED PUBLISH_BASE "/" ALLOC "/0"

/** cmocka group fixtures: make the machine, remove it. */
int world_up(void **state);
int world_down(void **state);

/** Write the default policy, with @extra in the agent's block; @ticket "required" or "optional". */
void world_policy(const char *ticket, const char *extra);

/** Write @text as the policy. */
void world_policy_text(const char *text);

/** Device number of the block device. */
unsigned int world_major(void);
unsigned int world_minor(void);

/** The log so far, NUL-terminated, to be freed. */
char *world_log(void);

/** Does the log's last record contain @text? Fails the test if not. */
void assert_last_record(const char *text);

/** Copy the line @key of /proc/PID/status, without blanks at its end. */
void status_value(pid_t pid, const char *key, char ret[static 256]);

/** Is the line @key of /proc/PID/status @value, but for blanks at its end? Fails the test if not. */
void assert_status(pid_t pid, const char *key, const char *value);

/** Run a program as root and wait; its exit status. */
int run_program(const char *const argv[]);

/** Look @point up in this process's mount table. False when nothing is mounted there. Strings of @ret are
 * valid until the next call. */
bool find_mount(const char *point, struct mount_entry *ret);

/** Number of mounts below the trees. */
int count_mounts(void);
