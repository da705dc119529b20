#pragma once
/* Beginning a new epoch: in a copy of a store, which is checked to the last record and is then one that a
 * server can start from; or in the server's own store, at its start, when that has lost history.
 *
 * What was granted after the copy was made is not in it. So that no ticket of then is as good as one of
 * later, each epoch has generations of its own: (epoch << 32) + what the volume's record had.
 * 2^32 grants of one volume in one epoch would take a century at a grant a second, so nothing granted since
 * the copy reaches the new ones, whatever it was. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct kv;

struct new_epoch {
	const char *path;     /* of the copy, which nobody else uses */
	const char *cluster;  /* that it is to be of */
	bool other_cluster;   /* it may have been another's */
	uint64_t known_epoch; /* highest that is known anywhere; EPOCH_UNKNOWN: the last store cannot be read
			       */
	uint64_t known_index; /* likewise; indexes go on above it */
	int64_t now_ms;
	const char *restored_from; /* for people; or why the server's own store begins one */
	/* of the server's own store, see history.h; all 0 and NULL: nothing of that */
	const char *former_store_id; /* by which nodes know the cluster */
	uint64_t missing_nodes;	     /* more than those that are missing already */
	bool by_unproven_mark;
	bool proves_nothing; /* tickets, so far */
};

#define EPOCH_UNKNOWN UINT64_MAX
#define EPOCH_MAX (UINT64_C(1) << 31) /* shifted it is still a generation */

/** Above every epoch that was counted in steps of one, and above itself later. */
uint64_t new_epoch_of_time(int64_t realtime_ms);

struct new_epoch_result {
	uint64_t epoch;
	uint64_t index; /* of the copy */
	uint32_t nodes;
};

/** Blocks; for a thread of its own. On failure the copy is worth nothing any more.
 * STATUS_DATA_LOSS when it is damaged, STATUS_FAILED_PRECONDITION when it is of a newer version or of another
 * cluster. */
enum status new_epoch_begin(const struct new_epoch *wanted, struct new_epoch_result *ret, struct error *err);

/** Begin one in the server's own store, at start, before its state is loaded: it is not what was acknowledged
 * (@wanted->restored_from says how that shows; path and other_cluster are not looked at). Nothing is granted
 * then before every node has reported. Blocks, and logs it as an error. @ret may be NULL. */
enum status new_epoch_begin_here(struct kv *kv, const struct new_epoch *wanted, struct new_epoch_result *ret,
				 struct error *err);

/** Decide durably that the next start begins one; from then on nothing may be granted or acknowledged.
 * Blocks for one write of a small file. */
enum status new_epoch_decide(const char *data_dir, const struct new_epoch *wanted, struct error *err);

/** At start, as new_epoch_begin_here(): begin the one that was decided, if one was. */
enum status new_epoch_begin_decided(struct kv *kv, const char *data_dir, const char *cluster,
				    struct error *err);

/** The epoch and index of the store at @path, which nobody uses. */
enum status new_epoch_look(const char *path, uint64_t *ret_epoch, uint64_t *ret_index, struct error *err);
