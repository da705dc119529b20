/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a plugin on the connection of a CSI client, in pieces as the input says.
 *
 * The first byte chooses the call and whether the settings of HTTP/2 and the headers of an answer are sent
 * before; the rest is pieces of one length byte and that many bytes. Whatever comes, the call ends once. */

#include "base/cleanup.h"
#include "base/str.h"
#include "csi/csi_client.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-event.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t settings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
/* :status 200 and content-type application/grpc, by HPACK's static table */
static const uint8_t headers[] = {0,	0,    20,  1,	4,   0,	  0,   0,   1,	 0x88,
				  0x0f, 0x10, 16,  'a', 'p', 'p', 'l', 'i', 'c', 'a',
				  't',	'i',  'o', 'n', '/', 'g', 'r', 'p', 'c'};

static void on_done(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	if (!response == !err)
		abort();
	if (err && !str_is_text(err->msg))
		abort();
	++*(size_t *)userdata;
}

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static char dir[] = "/tmp/fuzz-csi-XXXXXX";

static void clean_up(void)
{
	(void)unlink(address.sun_path);
	(void)rmdir(dir);
}

/* One for all inputs. */
static int listener(void)
{
	static int fd = -1;

	if (fd >= 0)
		return fd;
	if (!mkdtemp(dir) || atexit(clean_up) != 0 ||
	    str_format(address.sun_path, sizeof(address.sun_path), "%s/s", dir) < 0)
		abort();
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 4) < 0)
		abort();
	return fd;
}

static void run(sd_event *event, int fd)
{
	char bytes[4096];

	while (sd_event_run(event, 0) > 0)
		continue;
	while (fd >= 0 && recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		continue;
}

static void feed(sd_event *event, int fd, const uint8_t *data, size_t size)
{
	if (data[0] & 0x40)
		(void)send(fd, settings, sizeof(settings), MSG_NOSIGNAL | MSG_DONTWAIT);
	if (data[0] & 0x80)
		(void)send(fd, headers, sizeof(headers), MSG_NOSIGNAL | MSG_DONTWAIT);
	for (size_t at = 1; at < size;) {
		size_t n = data[at++];

		if (n > size - at)
			n = size - at;
		(void)send(fd, data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		at += n;
		run(event, fd);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int listening = listener();
	const struct service_client_options options = {
		.name = "fuzz", .socket = address.sun_path, .message_bytes = 1000};
	struct service_client *client = NULL;
	sd_event *event = NULL;
	size_t n_done = 0;
	struct error err;
	enum csi_method method;
	union {
		ProtobufCMessage base;
		char space[512];
	} request;
	int fd;

	if (size < 2)
		return 0;
	method = (enum csi_method)((data[0] & 0x3f) % CSI_METHOD_N);
	protobuf_c_message_init(csi_methods[method].request, &request);
	if (sd_event_new(&event) < 0 ||
	    service_client_new(event, &csi_kind, &options, &client, &err) != STATUS_OK ||
	    service_call_start(
		    client,
		    &(struct service_request){
			    .method = method, .message = &request.base, .done = on_done, .userdata = &n_done},
		    NULL, &err) != STATUS_OK)
		abort();
	run(event, -1);
	fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		abort();
	feed(event, fd, data, size);
	(void)close(fd);
	run(event, -1);
	if (n_done != 1)
		abort();
	service_client_free(client);
	(void)sd_event_unref(event);
	return 0;
}
