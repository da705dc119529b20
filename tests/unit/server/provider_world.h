/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A server whose plugin "nfs" is the model provider; requests and answers as JSON. */

#include "cluster.h"
#include "model_provider.h"

#include "volume/volumes.h"

#define CAPABILITIES                                                                                   \
	"\"requestedCapabilities\":[{\"accessMode\":\"SINGLE_NODE_WRITER\",\"attachmentMode\":\"FILE_" \
	"SYSTEM\"}]"
#define DB_HEAD "\"id\":\"db\",\"type\":\"CSI\",\"pluginId\":\"nfs\"," CAPABILITIES
#define DB "{\"volume\":{" DB_HEAD "}}"
#define ID "{\"id\":\"db\"}"

#define CALL_VALIDATE HOLDFAST__V1__PLUGIN_CALL__REQUEST_VALIDATE
#define CALL_CREATE HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE
#define CALL_DELETE HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE
#define CALL_EXPAND HOLDFAST__V1__PLUGIN_CALL__REQUEST_EXPAND
#define CALL_NODE_EXPAND HOLDFAST__V1__PLUGIN_CALL__REQUEST_NODE_EXPAND
#define CALL_LIST_VOLUMES HOLDFAST__V1__PLUGIN_CALL__REQUEST_LIST_VOLUMES
#define CALL_CREATE_SNAPSHOT HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE_SNAPSHOT
#define CALL_DELETE_SNAPSHOT HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE_SNAPSHOT
#define CALL_LIST_SNAPSHOTS HOLDFAST__V1__PLUGIN_CALL__REQUEST_LIST_SNAPSHOTS

int provider_setup(void **state);
int provider_setup_acl(void **state); /* callers need a certificate or a token */
int provider_teardown(void **state);
#define PROVIDER_TEST(name) TEST_ON(name, struct fixture, f, provider_setup, provider_teardown)

/** The nodes of the plugin as they were before, after restart() too. */
void provider_report(struct fixture *f);

/** kill -9 and a new server on what the store has. */
void provider_crash(struct fixture *f);

/* The last answer as JSON, "" after an error; and the error. */
struct answer {
	char json[64 * 1024];
	struct error err;
};

/** Volumes.@method as the operator. */
enum status ask(struct fixture *f, const char *method, const char *json, struct answer *ret);

/** The answer to @method must be OK, and contain @part unless that is NULL. */
void must(struct fixture *f, const char *method, const char *json, const char *part);

/** It must be refused with the code, and the message contain @part. */
void refuses(struct fixture *f, const char *method, const char *json, enum status status, const char *part);

/* A call that is not waited for. */
struct pending {
	bool ended;
	enum status status;
	char message[ERROR_MSG_MAX];
};
void start_asking(struct fixture *f, const char *method, const char *json, struct pending *ret);

/** What is stored of default/db. */
const Holdfast__V1__VolumeDetail *detail_of(struct fixture *f, const char *id);

/** A live claim of volume @id on @node, put into memory; n makes it one of its own. */
void claim_volume(struct fixture *f, const char *id, const char *node, int n);
void free_claims(struct fixture *f, const char *id);
