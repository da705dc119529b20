/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Output of a container without a terminal: frames of stream (1 byte), three zeroes, length (4 bytes, big
 * endian) and bytes. Docker Engine API, "Attach to a container", stream format. Nothing is buffered. */

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { FRAMES_STDOUT = 1, FRAMES_STDERR = 2, FRAMES_HEAD = 8 };

struct frames {
	uint8_t head[FRAMES_HEAD];
	size_t n_head;
	uint32_t left; /* of the frame's bytes */
};

/** Takes the next piece out of the @n bytes at @bytes.
 * @ret_used  how many of them were looked at; all, or up to the end of the piece
 * @ret_stream, @ret_bytes, @ret_n the piece; *@ret_n 0: there is no piece in them
 * STATUS_INTERNAL for bytes that are no frames. */
enum status frames_next(struct frames *frames, const uint8_t *bytes, size_t n, size_t *ret_used,
			unsigned int *ret_stream, const uint8_t **ret_bytes, size_t *ret_n,
			struct error *err);

/* Bytes of one stream. */
struct frames_run {
	unsigned int stream;
	uint8_t *bytes;
	size_t n;
};

/** Moves the pieces in the @n bytes at @bytes together, up to one of another stream: podman has 8 KiB in
 * each.
 * @ret_used how many bytes were looked at, up to the end of the run
 * @run      empty before; afterwards its n is 0 if there is no piece
 * STATUS_INTERNAL for bytes that are no frames, when no piece is before them. */
enum status frames_join(struct frames *frames, uint8_t *bytes, size_t n, size_t *ret_used,
			struct frames_run *run, struct error *err);
