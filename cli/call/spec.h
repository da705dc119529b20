/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Converts specification files to messages: a table per kind of block lists its keys and the fields that they
 * fill. */

#include "command/command.h"
#include "conf/conf.h"

#include <holdfast/v1/explain.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <limits.h>

/** Mistakes are STATUS_INVALID_ARGUMENT with file and line, all of a file at once and a line each: unknown
 * keys, values of the wrong kind, unknown keywords. No message holds a value of a map: it may be a secret.
 * @ret owned by the caller, protobuf_c_message_free_unpacked() */
enum status spec_alloc(const struct conf *conf, Holdfast__V1__Allocation **ret, struct error *err);
enum status spec_job(const struct conf *conf, Holdfast__V1__Job **ret, struct error *err);

/** The same; the file that the key secrets_file names is relative to @folder ("" or with a slash at its end).
 * @within the folder as realpath() has it, in which that file must be; NULL or "": it may be anywhere */
enum status spec_volume(const struct conf *conf, const char *folder, const char *within,
			Holdfast__V1__Volume **ret, struct error *err);

/** Writes into @ret what files of @folder ("": the working folder) must be within: "" if --outside is given.
 */
enum status spec_bound(const struct invocation *inv, const char *folder, char ret[static PATH_MAX],
		       struct error *err);

/** Opens a file for reading, and refuses one that is not within @within (NULL or "": anywhere), also through
 * a symbolic link: a folder of another person must not send files of the caller to a server. The caller reads
 * from @ret_fd, because the name may lead to another file a moment later. */
enum status spec_open_within(const char *path, const char *within, int *ret_fd, struct error *err);

enum { SPEC_MEMBERS_MAX = 1000 };

/** Take the key members out of a volume's file, before spec_volume(): the file describes that many volumes,
 * ID[0] to ID[N-1], one for each member of a job's group; 0: it describes one. */
enum status spec_members(const struct conf *conf, uint32_t *ret, struct error *err);

/** Make @volume that of member @i; @id is the one of the file. */
enum status spec_member(Holdfast__V1__Volume *volume, const char *id, uint32_t i, struct error *err);

/** The volume of the file that the first argument names, with --namespace, and how many members it is for. */
enum status spec_volume_load(struct invocation *inv, Holdfast__V1__Volume **ret, uint32_t *ret_members,
			     struct error *err);

/** Put file and line before each field that the refusal @details, n_fields > 0, names; @err is replaced.
 * Returns STATUS_INVALID_ARGUMENT. */
enum status spec_blame_volume(const struct conf *conf, const Holdfast__V1__ErrorDetails *details,
			      struct error *err);
enum status spec_blame_alloc(const struct conf *conf, const Holdfast__V1__ErrorDetails *details,
			     struct error *err);
enum status spec_blame_job(const struct conf *conf, const Holdfast__V1__ErrorDetails *details,
			   struct error *err);

typedef enum status spec_blame_fn(const struct conf *conf, const Holdfast__V1__ErrorDetails *details,
				  struct error *err);

/** Prepends to a refusal the file that the first argument names, and its lines by @blame. Returns @status. */
enum status spec_blame(const struct invocation *inv, spec_blame_fn *blame, enum status status,
		       struct error *err);
