/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* GET /metrics in HTTP/1.1, as Prometheus asks without TLS: one text for all who can connect; a
 * request changes nothing. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct scrape;
struct strbuf;

/** Write the text. */
typedef void scrape_fn(struct strbuf *to, void *userdata);

/** @address "HOST:PORT", "[V6ADDRESS]:PORT" or the absolute path of a unix socket, which gets the mode 0660
 * @event   borrowed
 * @ret     owned by the caller, scrape_free() */
enum status scrape_listen(sd_event *event, const char *address, scrape_fn *print, void *userdata,
			  struct scrape **ret, struct error *err);

/** NULL is allowed. */
void scrape_free(struct scrape *scrape);

/** May @address be given to scrape_listen()? Pure. */
bool scrape_address_is_valid(const char *address);

/** A comment with type and help, and lines with one value. @name with the prefix of the program */
void scrape_head(struct strbuf *to, const char *name, const char *type, const char *help);
void scrape_one(struct strbuf *to, const char *name, const char *type, const char *help, uint64_t value);
void scrape_labelled(struct strbuf *to, const char *name, const char *label, const char *value, uint64_t n);
