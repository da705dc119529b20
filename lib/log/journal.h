/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Lines as entries of journald. */

#include "log/log.h"

#include <stdbool.h>
#include <sys/stat.h>

/** Does @journal_stream, the value of JOURNAL_STREAM or NULL, name the file with @dev and @ino? Only then
 * does what is written there arrive in the journal. Source: systemd.exec(5), "$JOURNAL_STREAM". */
bool journal_is_stream(const char *journal_stream, dev_t dev, ino_t ino);

/** Send one entry. Returns 0 or a negative errno. */
int journal_send(const char *ident, int priority, const struct log_ctx *ctx, const char *message);
