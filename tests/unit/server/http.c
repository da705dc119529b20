/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include "unit.h"

#include "base/fd.h"
#include "base/parse.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

static int connect_to(struct fixture *f)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	cleanup_free char *text = NULL;
	char path[PATH_MAX];
	uint32_t port = 0;
	char *colon;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)str_format(path, sizeof(path), "%s/address", f->dir);
	assert_int_equal(file_read(path, 100, &text, NULL), 0);
	text[strcspn(text, "\n")] = '\0';
	colon = strrchr(text, ':');
	*colon = '\0';
	assert_int_equal(parse_u32(colon + 1, 1, 65535, &port), 0);
	assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
	address.sin_port = htons((uint16_t)port);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

static SSL *new_session(struct fixture *f, const char *cert, int fd)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	char path[PATH_MAX];
	SSL *ssl;

	if (cert) {
		(void)str_format(path, sizeof(path), "%s/tls/%s.pem", f->dir, cert);
		assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, path), 1);
		(void)str_format(path, sizeof(path), "%s/tls/%s.key", f->dir, cert);
		assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM), 1);
	}
	ssl = SSL_new(ctx);
	SSL_CTX_free(ctx);
	assert_int_equal(SSL_set_fd(ssl, fd), 1);
	SSL_set_connect_state(ssl);
	return ssl;
}

/* Have @r, what a call of OpenSSL returned, tried again after a turn of the loop? */
static bool again(struct fixture *f, SSL *ssl, int r)
{
	int error = SSL_get_error(ssl, r);

	if (r > 0 || (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE))
		return false;
	assert_true(sd_event_run(f->event, 1000) >= 0);
	return true;
}

const char *http_send(struct fixture *f, const struct http_request *request)
{
	static char answer[HTTP_ANSWER_SIZE];
	const char *body = request->body ? request->body : "";
	int fd = connect_to(f);
	SSL *ssl = new_session(f, request->cert, fd);
	uint64_t limit = clock_monotonic_us() + TIMEOUT_US;
	char text[4096];
	size_t n = 0;
	int r;

	assert_true(str_format(text, sizeof(text),
			       "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: "
			       "%zu\r\n%s%s%s%s%s\r\n%s",
			       request->method, request->target, strlen(body),
			       request->body ? "Content-Type: application/json\r\n" : "",
			       request->token ? "Authorization: Bearer " : "",
			       request->token ? request->token : "", request->token ? "\r\n" : "",
			       request->header ? request->header : "", body) > 0);
	do
		r = SSL_write(ssl, text, (int)strlen(text));
	while (again(f, ssl, r) && clock_monotonic_us() < limit);
	while (n < sizeof(answer) - 1 && clock_monotonic_us() < limit) {
		r = SSL_read(ssl, answer + n, (int)(sizeof(answer) - 1 - n));
		if (r > 0)
			n += (size_t)r;
		else if (!again(f, ssl, r))
			break;
	}
	answer[n] = '\0';
	SSL_free(ssl);
	(void)close(fd);
	return answer;
}
