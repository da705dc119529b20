/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Command lines against the model of the server: what they print, ask and how they end. */

#include "fake_server.h"

#include "command/command.h"

#include <stddef.h>

enum { OUTPUT_MAX = 1 << 18 };

/* How a command ended. */
struct ending {
	enum status status;
	bool is_usage_error;
	int exit_code; /* of a failure; 0: 1 */
	struct error err;
	ProtobufCMessage *details;
	char output[OUTPUT_MAX];
};

extern struct ending ending;

/** Path of the file that write_spec() fills; with_spec() puts it in the place of each '@'. */
extern char spec_path[];
void write_spec(const char *text);
const char *with_spec(const char *fmt);

/** The answer of @method that the model of the server gives as number @i, in JSON, or its refusal. */
void will_answer(size_t i, const char *method, const char *json);
void will_refuse(size_t i, const char *method, enum status status);

/** Run a command line, split at its blanks, with the server's address unless it has one; what it prints is in
 * ending. */
void run(const char *line);

void expect_ok(const char *line);
void expect_failure(const char *line, enum status status, const char *text);

/** A mistake that is found before anything is asked of the server. */
void expect_usage_error(const char *line, const char *text);

void expect_output(const char *text);
void expect_request(const char *text);

int run_setup(void **state);

/** Around all tests of a program. */
int run_begin(void **state);
int run_end(void **state);
