#pragma once
/* The serving phase: HELLO, ACK, then one request after another until the agent closes or breaks the
 * protocol. */

#include "helper.h"
#include "startup.h"

/** Send HELLO, serve, put the end on record. Returns the exit code. */
enum exit_code serve(struct helper *h);
