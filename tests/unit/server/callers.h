/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Callers of all sorts: any identity, any token, with the server's own CA. */

#include "cluster.h"

#include <jansson.h>

struct caller_client {
	sd_event *event; /* borrowed */
	struct rpc_tls *tls;
	struct rpc_client *client;
};

/** A client that shows @uri (NULL: no certificate) and @token (NULL: none). */
/** Certificates that are made from here on count as issued after this, in ms; 0: now. */
extern int64_t callers_after_ms;

void caller_init(struct caller_client *caller, struct fixture *f, const char *uri, const char *token);

/* Certificates that every method must refuse. */
enum certificate_fault {
	CERTIFICATE_EXPIRED,
	CERTIFICATE_FOR_SERVERS, /* only for them: extendedKeyUsage serverAuth */
	CERTIFICATE_OF_OTHER_CA,
	CERTIFICATE_FAULT_N,
	CERTIFICATE_WITHOUT_ISSUER, /* accepted, but without authorityKeyIdentifier */
};

/** A client that shows a certificate of @uri with this fault. */
void caller_init_faulty(struct caller_client *caller, struct fixture *f, const char *uri,
			enum certificate_fault fault);
void caller_release(struct caller_client *caller);

/** Call "Service.Method" with the request in JSON; waits. @ret_json may be NULL, else the answer, owned by
 * the caller. */
enum status caller_call(struct caller_client *caller, const char *method, const char *request,
			json_t **ret_json, struct error *err);

/** Open the stream "Service.Method" and send one message: how it ended at once, or STATUS_OK when it stays
 * open. */
enum status caller_stream(struct caller_client *caller, const char *method, const char *request);

/** The server issues certificates by the CA of its folder; the second is a fixture with rights. */
void open_authority(struct fixture *f);
int setup_authority(void **state);

/** A call by the cluster's operator, which must succeed. */
void operator_does(struct fixture *f, const char *method, const char *request);

/** Make a token as operator. @fields is the JSON of Token. Secret owned by the caller. */
char *make_token(struct fixture *f, const char *fields);
