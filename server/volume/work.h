/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Work in flight for volumes at their providers: creating, expanding, deleting.
 *
 * VolumeDetail has the phase, which is stored before the provider is asked; the work here only carries it on.
 * Each step reads its task from the store. So work that begins after a crash, or by a repeated call,
 * continues where it is behind:
 *
 *   creating:  provider's create -> ready
 *   expanding: provider's expand while capacity < capacity_min -> each node that is behind -> ready
 *   deleting:  provider's delete -> forgotten
 *
 * If a provider reports that it did nothing, the phase ends. After any other failure it may have acted, so
 * the phase stays and is tried again, capped and jittered, until it is done. One work per volume; it
 * answers all callers that asked for the same. */

#include "base/error.h"
#include "base/tree.h"
#include "state/state.h"

struct change_object;
struct rpc_call;
struct server;
struct volume_work;

/** Answers @call: the phase is over (@err NULL), or this try failed; @err shows whether it is tried again. */
typedef void volume_answer_fn(struct server *server, struct rpc_call *call, const char *namespace,
			      const char *id, const struct error *err);

/** Carries the volume's stored phase on to its end; @call (NULL: no call) is answered by @answer when this
 * try has ended. Must be called when the phase is durable. */
void volume_work_start(struct server *server, const char *namespace, const char *id, struct rpc_call *call,
		       volume_answer_fn *answer);

/** STATUS_FAILED_PRECONDITION while the volume's provider or a node is being asked. */
enum status volume_work_check_idle(struct server *server, const struct volume *volume, struct error *err);

/** STATUS_FAILED_PRECONDITION while a volume is being made as a copy of the id that @volume names, for a
 * namespace that would see the data of another one. Costs the number of volumes with work in flight. */
enum status volume_work_check_copied(struct server *server, const struct volume *volume, struct error *err);

/** A claim's mount receipt is durable: expand the file system there if that is due since it was expanded
 * without being mounted anywhere. Its release is durable: an expansion need not wait for that node. For
 * change_commit(); costs a look-up for each claim that is taken or released. */
void volume_work_note_durable(struct server *server, struct change_object *objects, size_t n,
			      uint64_t revision);

/** After a start: carry on what the last run left. */
void volume_work_resume_all(struct server *server);

/** At the end: answers the waiting calls and drops the works; they are stored. */
void volume_work_release_all(struct server *server);

enum { VOLUME_PROVIDER_NAME_SIZE = 160 };

/** The name of the volume towards its provider: the same at every try, another one in every cluster and
 * namespace, and of another source: a provider takes the name for the whole request. */
char *volume_provider_name(const struct server *server, const struct volume *volume,
			   const Holdfast__V1__VolumeDetail *detail,
			   char ret[static VOLUME_PROVIDER_NAME_SIZE]);
