/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Requests for the volume "vol-1" of any profile and source, and what its mounts must look like. */

#include "agent.h"

#include <stdbool.h>

enum { TASK_UID = 64104 };

#define STAGED STAGE_BASE "/vol-1"
#define PLUGIN_FOLDER STAGE_BASE "/" MH_CSI_FOLDER "/plugin" /* of the profile plugin */
#define PLUGIN_STAGED PLUGIN_FOLDER "/vol-1"

/** With a ticket for exactly that. */
struct mh_stage stage_of(const char *profile, struct mh_source source, bool read_only);
struct mh_publish publish_of(const char *profile, struct mh_source source, bool read_only);

/** UNPUBLISH and UNSTAGE, which must leave nothing. */
void take_away(struct agent *agent);
void take_away_plugins(struct agent *agent);

/** What is mounted at @point; fails the test if nothing is. Strings are valid until the next look. */
struct mount_entry shown(const char *point);

/** Fails the test unless @options has all the comma-separated words of @present and none of @absent. */
void assert_words(const char *options, const char *present, const char *absent);

/** Is the staged mount inert and private, and has the words of @more besides? */
void assert_inert(const char *more);

/** Mounts @source at @target, with the owners that @map makes of its own. False on a kernel before 6.3, which
 * has no such mount of a tmpfs. */
bool mount_idmapped(const char *source, const char *target, const char *map);

/** Create the file @path as TASK_UID. Returns errno, or 0. */
int task_writes(const char *path);
