#pragma once
/* Turning a copy of a store into one that a server can start from: checked to the last record, and in a new
 * epoch.
 *
 * What was granted after the copy was made is not in it. So that no ticket of then is as good as one of
 * later, each epoch has generations of its own: (epoch << 32) + what the volume's record had.
 * 2^32 grants of one volume in one epoch would take a century at a grant a second, so nothing granted since
 * the copy reaches the new ones, whatever it was. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct new_epoch {
	const char *path;     /* of the copy, which nobody else uses */
	const char *cluster;  /* that it is to be of */
	bool other_cluster;   /* it may have been another's */
	uint64_t known_epoch; /* highest that is known here; EPOCH_UNKNOWN: the last store cannot be read */
	uint64_t known_index; /* likewise; indexes go on above it */
	int64_t now_ms;
	const char *restored_from; /* for people */
};

#define EPOCH_UNKNOWN UINT64_MAX

struct new_epoch_result {
	uint64_t epoch;
	uint64_t index; /* of the copy */
	uint32_t nodes;
};

/** Blocks; for a thread of its own. On failure the copy is worth nothing any more.
 * STATUS_DATA_LOSS when it is damaged, STATUS_FAILED_PRECONDITION when it is of a newer version or of another
 * cluster. */
enum status new_epoch_begin(const struct new_epoch *wanted, struct new_epoch_result *ret, struct error *err);

/** The epoch and index of the store at @path, which nobody uses. */
enum status new_epoch_look(const char *path, uint64_t *ret_epoch, uint64_t *ret_index, struct error *err);
