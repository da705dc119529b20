/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/transport.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "rpc/byteq.h"
#include "rpc/tls_session.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
	CHUNK = 4 * 1024,    /* bytes that are handled before the next look at the clock */
	AHEAD = 64 * 1024,   /* read of a socket without TLS at once */
	READS_PER_TURN = 64, /* then others have their turn */
	ROUNDS_PER_TURN = 4,
	OUT_FULL = 47 * 1024, /* bytes that wait for the socket before the protocol is asked for more */
	OUT_MAX = 64 * 1024,  /* these and one frame more */
	DATALESS_MAX = 32,    /* new keys and tickets: each costs us more than the peer */
	ERROR_TEXT_SIZE = 256,
	LINGER_MAX = 256 * 1024, /* bytes of a client that was refused and has not noticed */
	RETRANSMIT_MAX_MS = 1000,
	UNACKNOWLEDGED_MAX_MS = 60000, /* then the connection ends */
};

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* of Linux 6.15 */
#endif

enum transport_state {
	TRANSPORT_STARTING,
	TRANSPORT_HANDSHAKE,
	TRANSPORT_UP,
	TRANSPORT_LINGER,   /* a client was refused by an alert, which a reset would take away from it */
	TRANSPORT_DOWN,	    /* on_down is due */
	TRANSPORT_REPORTED, /* on_down has run */
};

/* A turn neither reads nor begins a handler afterwards: many small requests take more than their bytes. */
static const uint64_t TURN_US = 1 * USEC_PER_MSEC;

struct transport {
	struct poll_item item; /* first: it is the transport */
	int fd;
	SSL *ssl;
	const struct transport_ops *ops;
	void *userdata;
	enum transport_state state;
	bool blocked;	 /* the socket takes nothing for now */
	bool tls_broken; /* no close_notify is possible */
	bool has_more;	 /* OpenSSL or ahead has bytes that are not read yet */
	bool unheard; /* the peer reads nothing from now on; its received bytes must be read before the end */
	bool running; /* a callback of ours is on the stack */
	bool doomed;  /* freed by its owner while running */
	bool dirty;   /* woken while running: on_edge and on_fill have to run once more */
	bool is_behind;	 /* on_edge has left something for the next turn; nothing more is read before */
	uint64_t end_us; /* of the turn */
	unsigned int n_dataless; /* TLS messages in a row without data; of some each step counts */
	size_t lingered;	 /* bytes */
	uint64_t last_rx_us;
	struct byteq ahead; /* read of the socket, without TLS, and not handled yet */
	struct byteq out;
	struct error why;
};

static void destroy(struct transport *tr)
{
	if (tr->ssl && tr->state != TRANSPORT_STARTING && !tr->tls_broken) {
		ERR_clear_error();
		(void)SSL_shutdown(tr->ssl); /* best effort: reports to the peer that nothing was cut off */
	}
	poller_remove(&tr->item);
	SSL_free(tr->ssl);
	byteq_release(&tr->ahead);
	byteq_release(&tr->out);
	close_fdp(&tr->fd);
	free(tr);
}

void transport_fail(struct transport *tr, const struct error *why)
{
	if (tr->state >= TRANSPORT_DOWN)
		return;
	if (tr->state != TRANSPORT_LINGER)
		tr->why = *why;
	tr->state = TRANSPORT_DOWN;
	poller_pause(&tr->item);
	transport_wake(tr);
}

static void fail_errno(struct transport *tr, int r, const char *doing)
{
	struct error err;

	(void)error_set(&err, STATUS_UNAVAILABLE, r, "%s", doing);
	transport_fail(tr, &err);
}

static void fail_text(struct transport *tr, const char *text)
{
	struct error err;

	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "%s", text);
	transport_fail(tr, &err);
}

void transport_wake(struct transport *tr)
{
	tr->dirty = true;
	if (!tr->running)
		poller_wake(&tr->item);
}

static void wait_for(struct transport *tr, uint32_t events)
{
	if (tr->state < TRANSPORT_DOWN)
		poller_wait_for(&tr->item, events);
}

/* A client that already sends, as ours do, would get a reset for its unread bytes, and not see the alert:
 * send nothing after it, and discard input until the client closes or its time is over. */
static void linger(struct transport *tr, const struct error *why)
{
	tr->why = *why;
	tr->state = TRANSPORT_LINGER;
	(void)shutdown(tr->fd, SHUT_WR);
	wait_for(tr, EPOLLIN);
}

/* The other side's alert names the fault of our certificate in a general way, if at all. */
static bool has_expired(const SSL *ssl)
{
	const X509 *own = SSL_get_certificate(ssl);

	return own && tls_cert_expires_ms(own) < clock_realtime_ms();
}

/* Reports why TLS gave up; the certificate's fault is the most frequent one and OpenSSL hides it. */
static void fail_tls(struct transport *tr, const char *doing)
{
	long verify = SSL_get_verify_result(tr->ssl);
	char text[ERROR_TEXT_SIZE];
	struct error err;

	tr->tls_broken = true;
	(void)tls_error_text(text, sizeof(text));
	if (tr->state == TRANSPORT_HANDSHAKE && verify != X509_V_OK)
		(void)error_set(&err, STATUS_UNAUTHENTICATED, 0,
				"%s: the other side's certificate is refused: %s", doing,
				verify == X509_V_ERR_APPLICATION_VERIFICATION
					? "it does not show the CA with the expected digest: it is another "
					  "cluster, or a machine between"
					: X509_verify_cert_error_string(verify));
	else
		(void)error_set(&err, STATUS_FAILED_PRECONDITION, 0, "%s: %s%s", doing, text,
				has_expired(tr->ssl) ? "; our own certificate has expired" : "");
	err.sys_errno = EKEYREJECTED; /* for callers that do not get the status; the text is complete */
	if (tr->state == TRANSPORT_HANDSHAKE && SSL_is_server(tr->ssl))
		linger(tr, &err);
	else
		transport_fail(tr, &err);
}

/* The meaning of a call of OpenSSL that did not succeed: 0 wait, otherwise the connection has failed. */
static int tls_verdict(struct transport *tr, int r, const char *doing)
{
	int saved = errno;

	switch (SSL_get_error(tr->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		return 0;
	case SSL_ERROR_WANT_WRITE:
		tr->blocked = true;
		return 0;
	case SSL_ERROR_ZERO_RETURN:
		fail_text(tr, "closed by the other side");
		return -ECONNRESET;
	case SSL_ERROR_SYSCALL:
		tr->tls_broken = true;
		if (saved != 0)
			fail_errno(tr, saved, doing);
		else
			fail_text(tr, "closed by the other side");
		return -ECONNRESET;
	default:
		fail_tls(tr, doing);
		return -EPROTO;
	}
}

/* As recv(), of a socket without TLS. */
static ssize_t read_plain(struct transport *tr, uint8_t *bytes, size_t n)
{
	size_t n_ahead = byteq_len(&tr->ahead);
	uint8_t more[AHEAD];
	ssize_t r;

	if (n_ahead > 0) {
		n = n_ahead < n ? n_ahead : n;
		memcpy(bytes, byteq_data(&tr->ahead), n);
		byteq_take(&tr->ahead, n);
		return (ssize_t)n;
	}
	r = recv(tr->fd, more, sizeof(more), MSG_DONTWAIT);
	if (r <= 0)
		return r;
	n = (size_t)r < n ? (size_t)r : n;
	memcpy(bytes, more, n);
	n_ahead = (size_t)r - n;
	if (n_ahead > 0 && !byteq_put(&tr->ahead, more + n, n_ahead)) {
		errno = ENOMEM;
		r = -1;
	}
	explicit_bzero(more, n + n_ahead);
	return r < 0 ? r : (ssize_t)n;
}

/* Did OpenSSL stop before it had read all that is there? */
static bool has_unread(const struct transport *tr)
{
	return tr->ssl && SSL_want_read(tr->ssl) && tls_session_has_unread(tr->ssl);
}

/* Bytes moved, 0 when it has to wait, negative when the connection has failed. */
static ssize_t read_some(struct transport *tr, uint8_t *bytes, size_t n)
{
	ssize_t r;

	if (tr->ssl) {
		tls_session_begin(tr->ssl);
		r = SSL_read(tr->ssl, bytes, (int)n);
		tr->n_dataless = r > 0 ? 0 : tr->n_dataless + has_unread(tr);
		return r > 0 ? r : tls_verdict(tr, (int)r, "receive");
	}
	r = read_plain(tr, bytes, n);
	if (r > 0)
		return r;
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (r == 0)
		fail_text(tr, "closed by the other side");
	else
		fail_errno(tr, errno, "receive");
	return -ECONNRESET;
}

static ssize_t write_some(struct transport *tr, const uint8_t *bytes, size_t n)
{
	ssize_t r;

	if (tr->ssl) {
		tls_session_begin(tr->ssl);
		r = SSL_write(tr->ssl, bytes, (int)n);
		return r > 0 ? r : tls_verdict(tr, (int)r, "send");
	}
	r = send(tr->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (r >= 0)
		return r;
	if (errno == EAGAIN || errno == EINTR || errno == EPIPE) {
		tr->blocked = true;
		tr->unheard = errno == EPIPE;
		return 0;
	}
	fail_errno(tr, errno, "send");
	return -ECONNRESET;
}

static void handshake(struct transport *tr)
{
	int r;

	tls_session_begin(tr->ssl);
	tr->blocked = false;
	r = SSL_do_handshake(tr->ssl);
	if (r != 1) {
		if (tls_verdict(tr, r, "TLS handshake") == 0)
			wait_for(tr, tr->blocked ? EPOLLOUT : EPOLLIN);
		return;
	}
	tr->state = TRANSPORT_UP;
}

static void transport_start(struct transport *tr)
{
	struct error err;

	if (tr->state == TRANSPORT_STARTING)
		tr->state = tr->ssl ? TRANSPORT_HANDSHAKE : TRANSPORT_UP;
	if (tr->state == TRANSPORT_HANDSHAKE)
		handshake(tr);
	if (tr->state == TRANSPORT_UP && tr->ops->on_up(tr->userdata, &err) != STATUS_OK)
		transport_fail(tr, &err);
}

static void run_edge(struct transport *tr)
{
	tr->is_behind = tr->ops->on_edge(tr->userdata, tr->end_us);
}

/* Returns false if the connection has failed. */
static bool deliver(struct transport *tr, uint8_t *bytes, size_t n)
{
	struct error err;
	enum status status;

	tr->last_rx_us = clock_monotonic_us();
	status = tr->ops->on_bytes(tr->userdata, bytes, n, &err);
	explicit_bzero(bytes, n);
	if (status == STATUS_OK)
		run_edge(tr);
	else
		transport_fail(tr, &err);
	return status == STATUS_OK;
}

static void receive(struct transport *tr)
{
	uint8_t chunk[CHUNK];

	if (tr->is_behind)
		run_edge(tr);
	for (int i = 0; i < READS_PER_TURN && tr->state == TRANSPORT_UP && !tr->doomed && !tr->is_behind;
	     i++) {
		ssize_t n = read_some(tr, chunk, sizeof(chunk));

		if (n > 0 ? !deliver(tr, chunk, (size_t)n) : n < 0 || !has_unread(tr))
			return;
		if (tr->n_dataless > DATALESS_MAX)
			fail_text(tr, "the other side sends TLS messages without data");
		if (!tr->ssl && (size_t)n < sizeof(chunk))
			return;
		if (clock_monotonic_us() >= tr->end_us)
			break;
	}
	/* epoll does not know of what OpenSSL has taken from the socket */
	tr->has_more = !tr->doomed && (tr->ssl ? SSL_has_pending(tr->ssl) : byteq_len(&tr->ahead) > 0);
}

/* Discard the input of a refused client. */
static void discard(struct transport *tr)
{
	uint8_t chunk[CHUNK];
	ssize_t n = recv(tr->fd, chunk, sizeof(chunk), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	tr->lingered += n > 0 ? (size_t)n : LINGER_MAX;
	if (tr->lingered >= LINGER_MAX)
		fail_text(tr, "refused"); /* the reason of the refusal stays */
}

static bool drain(struct transport *tr)
{
	while (byteq_len(&tr->out) > 0 && !tr->blocked) {
		ssize_t n = write_some(tr, byteq_data(&tr->out), byteq_len(&tr->out));

		if (n < 0)
			return false;
		byteq_take(&tr->out, (size_t)n);
	}
	return true;
}

static void flush(struct transport *tr)
{
	struct error err;

	while (tr->state == TRANSPORT_UP) {
		if (!transport_is_full(tr) && tr->ops->on_fill(tr->userdata, &err) != STATUS_OK) {
			transport_fail(tr, &err);
			return;
		}
		if (byteq_len(&tr->out) == 0 || !drain(tr) || tr->blocked)
			break;
	}
	wait_for(tr, tr->blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* Run what the bytes have caused and send what that has caused, for a while. */
static void settle(struct transport *tr)
{
	for (int i = 0; i < ROUNDS_PER_TURN && tr->dirty && !tr->doomed; i++) {
		tr->dirty = false;
		run_edge(tr);
		if (!tr->doomed && tr->state == TRANSPORT_UP)
			flush(tr);
	}
	if (!tr->doomed && tr->state == TRANSPORT_DOWN) {
		tr->state = TRANSPORT_REPORTED;
		tr->ops->on_down(tr->userdata, &tr->why);
	}
}

/* The last bytes of a peer that has closed, and its end, explain more than the failure to send to it. */
static void hear_out(struct transport *tr)
{
	receive(tr);
	receive(tr);
	if (tr->is_behind)
		return; /* in a later turn */
	if (tr->state == TRANSPORT_UP && !tr->doomed)
		fail_errno(tr, EPIPE, "send");
	settle(tr);
}

/* One turn: everything that is possible now, then the edge. Frees the transport if its owner has asked for
 * it. */
static void turn(struct transport *tr, bool readable)
{
	readable = readable || tr->has_more;
	tr->end_us = clock_monotonic_us() + TURN_US;
	tr->has_more = false;
	tr->running = true;
	tr->dirty = true;
	if (tr->state < TRANSPORT_UP) {
		transport_start(tr);
		/* in the next turn: our first bytes leave before the peer's are read, which may be its last
		 */
		tr->has_more =
			tr->state == TRANSPORT_UP && (readable || (tr->ssl && SSL_has_pending(tr->ssl)));
	} else if (tr->state == TRANSPORT_UP && readable) {
		receive(tr);
	} else if (tr->state == TRANSPORT_LINGER && readable) {
		discard(tr);
	}
	settle(tr);
	if (tr->unheard && !tr->is_behind && !tr->doomed && tr->state == TRANSPORT_UP)
		hear_out(tr);
	tr->running = false;
	if (tr->doomed)
		destroy(tr);
	else if (tr->state < TRANSPORT_REPORTED && (tr->dirty || tr->has_more || tr->is_behind))
		transport_wake(tr);
}

static void on_poll(struct poll_item *item, uint32_t events)
{
	struct transport *tr = (struct transport *)item;

	if (events & EPOLLOUT)
		tr->blocked = false;
	turn(tr, (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0);
}

/* TCP doubles the time between two tries: a network that lost packets for ten seconds would stay silent for
 * as long again. Does nothing for a unix socket and an older kernel. */
static void limit_retransmission(int fd)
{
	const unsigned int unacknowledged_ms = UNACKNOWLEDGED_MAX_MS;
	const int retransmit_ms = RETRANSMIT_MAX_MS;

	/* else so few tries of a second each would end the connection */
	if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof(unacknowledged_ms)) == 0)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &retransmit_ms, sizeof(retransmit_ms));
}

enum status transport_new(struct poller *poller, int fd, SSL *ssl, const struct transport_ops *ops,
			  void *userdata, struct transport **ret, struct error *err)
{
	assert(fd >= 0);

	struct transport *tr = malloc(sizeof(*tr));
	int r;

	limit_retransmission(fd);
	if (!tr) {
		SSL_free(ssl);
		close_fdp(&fd);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "start a connection");
	}
	*tr = (struct transport){
		.fd = fd,
		.ssl = ssl,
		.ops = ops,
		.userdata = userdata,
		.state = TRANSPORT_STARTING,
		.last_rx_us = clock_monotonic_us(),
		.ahead = BYTEQ_INIT,
		.out = BYTEQ_INIT,
	};
	r = poller_add(poller, &tr->item, fd, EPOLLIN, on_poll);
	if (r < 0) {
		destroy(tr);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "start a connection");
	}
	transport_wake(tr); /* to start */
	*ret = tr;
	return STATUS_OK;
}

void transport_free(struct transport *tr)
{
	struct error ignored;

	if (!tr || tr->doomed)
		return;
	if (tr->state == TRANSPORT_UP) {
		(void)tr->ops->on_fill(tr->userdata, &ignored);
		(void)drain(tr);
	}
	if (tr->running) {
		tr->doomed = true;
		poller_pause(&tr->item);
		return;
	}
	destroy(tr);
}

bool transport_put(struct transport *tr, const void *bytes, size_t n)
{
	if (n > CHUNK && byteq_len(&tr->out) == 0)
		byteq_reserve(&tr->out, OUT_MAX - 1); /* more such frames follow */
	return byteq_put(&tr->out, bytes, n);
}

bool transport_is_full(const struct transport *tr)
{
	return byteq_len(&tr->out) >= OUT_FULL;
}

size_t transport_queued(const struct transport *tr)
{
	return byteq_len(&tr->out);
}

bool transport_has_heard(const struct transport *tr)
{
	char byte;

	return (tr->ssl && BIO_number_read(SSL_get_rbio(tr->ssl)) > 0) || byteq_len(&tr->ahead) > 0 ||
	       recv(tr->fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) > 0;
}

void transport_move(struct transport *tr, struct poller *to)
{
	poller_move(&tr->item, to);
}

uint64_t transport_last_rx_us(const struct transport *tr)
{
	return tr->last_rx_us;
}

const SSL *transport_ssl(const struct transport *tr)
{
	return tr->ssl;
}
