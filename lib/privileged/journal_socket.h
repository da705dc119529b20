/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The journal, spoken to without libsystemd: for a program that has no file left to open. */

#include <stddef.h>

/** Connect a datagram socket to journald. Returns the descriptor or a negative errno. */
int journal_socket_open(void);

/* One field of an entry is the value of one word of its text. */
struct journal_field {
	const char *key;    /* " vol=" */
	const char *name;   /* "HOLDFAST_VOLUME" */
	size_t hash_digits; /* a value that ends in "-" and so many hex digits is given without these */
};

/** Send @text, words of key=value without new lines, as one entry of @priority (as in syslog.h) with the
 * fields that its words give. @event whole lines of further fields, NULL: none. Never waits; whether it
 * arrives is not told. @fd may be negative. Source: systemd's "native journal protocol". */
void journal_socket_send(int fd, int priority, const char *identifier, const char *event, const char *text,
			 const struct journal_field *fields, size_t n_fields);
