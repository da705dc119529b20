/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the key of an enrolment, makes its one call and checks the answer. */

#include "enroll/enroll_call.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "rpc/client.h"
#include "rpc/pki.h"
#include "rpc/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CALL_US (30 * USEC_PER_SEC)
#define REQUEST_BEGIN "-----BEGIN CERTIFICATE REQUEST-----"

DEFINE_CLEANUP(struct rpc_tls, rpc_tls_free)
DEFINE_CLEANUP(struct rpc_client, rpc_client_free)

static void free_key(char **key)
{
	pki_key_free(*key);
}

/* Others who may write into the folder must not choose the key. @ret stays NULL if there is no file. */
static enum status read_begun(const char *path, char **ret, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st = {.st_mode = 0};
	int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;

	if (r == -ENOENT)
		return STATUS_OK;
	if (r == 0 && (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1 ||
		       (st.st_mode & (S_IRWXG | S_IRWXO)) != 0))
		r = -EPERM;
	if (r == 0)
		r = fd_read_all(fd, PKI_PEM_MAX, ret, NULL);
	return r < 0 ? error_set(err, status_from_errno(r), r,
				 "%s is not a key that this account has begun to enrol with; look at it, "
				 "remove it and repeat the command",
				 path)
		     : STATUS_OK;
}

/* A new key and its request, kept together in @path (0600), or those that @path has. */
static enum status begin(const char *path, char **ret_key, char **ret_csr, struct error *err)
{
	cleanup(free_key) char *kept = NULL;
	char *csr;
	int r;

	TRY(read_begun(path, &kept, err));
	if (kept && (csr = strstr(kept, REQUEST_BEGIN))) {
		*ret_csr = strdup(csr);
		*ret_key = strndup(kept, (size_t)(csr - kept));
		return *ret_csr && *ret_key ? STATUS_OK : error_no_memory(err, "the enrolment");
	}
	TRY(pki_make_request(ret_key, ret_csr, err));
	pki_key_free(TAKE_PTR(kept));
	if (asprintf(&kept, "%s%s", *ret_key, *ret_csr) < 0) {
		kept = NULL;
		return error_no_memory(err, "the enrolment");
	}
	r = file_write_atomic(path, 0600, kept, strlen(kept));
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", path) : STATUS_OK;
}

/* Checks the answer before the caller replaces any file by it. */
static enum status check(const struct enroll_line *line, const char *key,
			 const Holdfast__V1__EnrollResponse *answer, struct error *err)
{
	char identity[ENROLL_IDENTITY_SIZE];
	char uri[RPC_URI_SIZE];

	(void)str_format(uri, sizeof(uri), "holdfast://%s/%s", line->cluster,
			 enroll_line_identity(line, identity));
	return pki_check_pair(answer->certificate, key, uri, answer->ca, err);
}

enum status enroll_call(sd_event *event, const struct enroll_line *line, const char *path, char **ret_key,
			Holdfast__V1__EnrollResponse **ret, struct error *err)
{
	const struct rpc_tls_files files = {.ca_sha256 = line->ca_sha256};
	Holdfast__V1__EnrollRequest request = HOLDFAST__V1__ENROLL_REQUEST__INIT;
	cleanup(rpc_tls_freep) struct rpc_tls *tls = NULL;
	cleanup(rpc_client_freep) struct rpc_client *client = NULL;
	struct rpc_endpoint endpoint = {.servers = line->servers, .n_servers = line->n_servers};
	cleanup_free char *csr = NULL;
	ProtobufCMessage *answer = NULL;
	char identity[ENROLL_IDENTITY_SIZE];
	char uri[RPC_URI_SIZE];

	TRY(begin(path, ret_key, &csr, err));
	(void)str_format(uri, sizeof(uri), "holdfast://%s/server/", line->cluster);
	TRY(rpc_tls_new(&files, &tls, err));
	endpoint.tls = tls;
	endpoint.server_uri = uri;
	TRY(rpc_client_new(event, &endpoint, &client, err));
	if (str_eq(line->role, ENROLL_ROLE_NODE))
		request.node = (char *)(uintptr_t)line->name;
	else
		request.identity = enroll_line_identity(line, identity);
	request.token = (char *)(uintptr_t)line->token;
	request.csr = csr;
	TRY(rpc_client_call_sync(client, &holdfast__v1__nodes__descriptor, "Enroll", &request.base, CALL_US,
				 &answer, err));
	*ret = (Holdfast__V1__EnrollResponse *)answer;
	return check(line, *ret_key, *ret, err);
}
