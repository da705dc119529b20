/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/listener.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/timer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum {
	BACKLOG = 256,
	ACCEPTS_PER_TURN = 32,
	/* Dead peers of TCP: probes after half a minute of silence, gone after another half. */
	KEEPALIVE_IDLE_S = 30,
	KEEPALIVE_INTERVAL_S = 10,
	KEEPALIVE_PROBES = 3,
};

/* When the process has no descriptors left: wait instead of spinning. */
static const uint64_t PAUSE_US = 100 * USEC_PER_MSEC;

struct listener {
	sd_event *event;
	sd_event_source *io;
	sd_event_source *pause;
	int fd;
	listener_accept_fn *on_accept;
	void *userdata;
	char *path; /* of a unix socket that we made */
	dev_t dev;
	ino_t ino;
};

static void set_tcp_options(int fd)
{
	const int on = 1;
	const int idle = KEEPALIVE_IDLE_S;
	const int interval = KEEPALIVE_INTERVAL_S;
	const int probes = KEEPALIVE_PROBES;

	/* each improves something, and all are optional */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static int describe_unix(const struct listener *listener, int fd, struct rpc_peer *peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	*peer = (struct rpc_peer){.kind = RPC_PEER_UNIX, .uid = cred.uid, .gid = cred.gid, .pid = cred.pid};
	(void)str_format(peer->address, sizeof(peer->address), "%s", listener->path);
	return 0;
}

static void describe_tcp(const struct sockaddr *address, socklen_t len, struct rpc_peer *peer)
{
	char host[INET6_ADDRSTRLEN + 32]; /* a scope may follow */
	char port[8];

	*peer = (struct rpc_peer){.kind = RPC_PEER_TLS, .uid = (uid_t)-1, .gid = (gid_t)-1};
	if (getnameinfo(address, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return;
	(void)str_format(peer->address, sizeof(peer->address),
			 address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static int on_pause_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct listener *listener = userdata;

	(void)sd_event_source_set_enabled(listener->io, SD_EVENT_ON);
	return 0;
}

/* Takes one connection; false if no connection waits. */
static bool accept_one(struct listener *listener)
{
	struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
	socklen_t len = sizeof(address);
	cleanup_close int fd = -EBADF;
	struct rpc_peer peer;

	fd = accept4(listener->fd, (struct sockaddr *)&address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
		(void)sd_event_source_set_enabled(listener->io, SD_EVENT_OFF);
		(void)timer_arm(listener->event, &listener->pause, PAUSE_US, on_pause_over, listener);
		return false;
	}
	if (fd < 0)
		return errno != EAGAIN;
	if (listener->path) {
		if (describe_unix(listener, fd, &peer) < 0)
			return true;
	} else {
		set_tcp_options(fd);
		describe_tcp((const struct sockaddr *)&address, len, &peer);
	}
	listener->on_accept(TAKE_FD(fd), &peer, listener->userdata);
	return true;
}

static int on_connection(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct listener *listener = userdata;

	for (int i = 0; i < ACCEPTS_PER_TURN; i++)
		if (!accept_one(listener))
			break;
	return 0;
}

/* Listen on a bound socket, which is taken over. */
static enum status listener_new(sd_event *event, int bound_fd, listener_accept_fn *on_accept, void *userdata,
				struct listener **ret, struct error *err)
{
	struct listener *listener = malloc(sizeof(*listener));
	int r;

	if (!listener) {
		close_fdp(&bound_fd);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "listen");
	}
	*listener = (struct listener){
		.event = event,
		.fd = bound_fd,
		.on_accept = on_accept,
		.userdata = userdata,
	};
	r = listen(bound_fd, BACKLOG) < 0 ? -errno : 0;
	/* now: there may be no descriptor left for it when it is needed */
	if (r == 0)
		r = timer_arm(event, &listener->pause, PAUSE_US, on_pause_over, listener);
	timer_disarm(listener->pause);
	if (r >= 0)
		r = sd_event_add_io(event, &listener->io, bound_fd, EPOLLIN, on_connection, listener);
	if (r < 0) {
		listener_free(listener);
		return error_set(err, status_from_errno(r), r, "listen");
	}
	*ret = listener;
	return STATUS_OK;
}

void listener_free(struct listener *listener)
{
	struct stat st;

	if (!listener)
		return;
	(void)sd_event_source_disable_unref(listener->io);
	(void)sd_event_source_disable_unref(listener->pause);
	close_fdp(&listener->fd);
	if (listener->path && lstat(listener->path, &st) == 0 && st.st_dev == listener->dev &&
	    st.st_ino == listener->ino)
		(void)unlink(listener->path);
	free(listener->path);
	free(listener);
}

/* Is there a socket at @address without a listener? Removes it then. */
static enum status clear_stale(const struct sockaddr_un *address, struct error *err)
{
	cleanup_close int fd = -EBADF;
	struct stat st;

	if (lstat(address->sun_path, &st) < 0)
		return errno == ENOENT ? STATUS_OK
				       : error_set(err, status_from_errno(errno), errno, "listen on %s",
						   address->sun_path);
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "listen on %s: something that is no socket is there; move it away",
				 address->sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_set(err, status_from_errno(errno), errno, "listen on %s", address->sun_path);
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"listen on %s: a running process listens there already; find it with: ss -xlp src %s",
			address->sun_path, address->sun_path);
	if (errno != ECONNREFUSED)
		return error_set(err, status_from_errno(errno), errno, "listen on %s: ask who is there",
				 address->sun_path);
	if (unlink(address->sun_path) < 0)
		return error_set(err, status_from_errno(errno), errno, "remove the stale socket %s",
				 address->sun_path);
	return STATUS_OK;
}

/* No client may connect before the mode is right: the kernel takes it from the descriptor, less the umask. */
static int bind_with_mode(int fd, const struct sockaddr_un *address, mode_t mode, struct stat *st)
{
	if (fchmod(fd, mode) < 0 || bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ||
	    chmod(address->sun_path, mode) < 0 || lstat(address->sun_path, st) < 0)
		return -errno;
	return 0;
}

enum status listener_new_unix(sd_event *event, const char *path, mode_t mode, listener_accept_fn *on_accept,
			      void *userdata, struct listener **ret, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_close int fd = -EBADF;
	cleanup_free char *copy = strdup(path);
	struct stat stat = {0};
	enum status status;
	int r;

	if (path[0] == '\0' || str_copy(address.sun_path, sizeof(address.sun_path), path) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the socket path %s is not between 1 and %zu bytes long", path,
				 sizeof(address.sun_path) - 1);
	TRY(clear_stale(&address, err));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	r = fd < 0 || !copy ? -errno : bind_with_mode(fd, &address, mode, &stat);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "listen on %s", path);
	status = listener_new(event, TAKE_FD(fd), on_accept, userdata, ret, err);
	if (status != STATUS_OK)
		return error_prefix(err, "unix socket %s", path);
	(*ret)->path = TAKE_PTR(copy);
	(*ret)->dev = stat.st_dev;
	(*ret)->ino = stat.st_ino;
	return STATUS_OK;
}

static int bind_tcp(const struct addrinfo *info, int *ret_fd)
{
	cleanup_close int fd = -EBADF;
	const int on = 1;

	fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, info->ai_addr, info->ai_addrlen) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static enum status bound_port(int fd, uint16_t *ret_port, struct error *err)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} address = {.in6 = {.sin6_family = AF_UNSPEC}};
	socklen_t len = sizeof(address);

	if (getsockname(fd, &address.any, &len) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "ask for the port in use");
	*ret_port = ntohs(address.any.sa_family == AF_INET6 ? address.in6.sin6_port : address.in.sin_port);
	return STATUS_OK;
}

static enum status bind_error(int r, const char *host, uint16_t port, struct error *err)
{
	switch (-r) {
	case EADDRINUSE:
		return error_set(err, STATUS_FAILED_PRECONDITION, r,
				 "listen on %s port %u: another process has it; find it with: ss -tlnp sport "
				 "= :%u, or configure another port",
				 host, port, port);
	case EADDRNOTAVAIL:
		return error_set(err, STATUS_FAILED_PRECONDITION, r,
				 "listen on %s port %u: this machine has no such address; see: ip address",
				 host, port);
	case EACCES:
		return error_set(err, STATUS_PERMISSION_DENIED, r,
				 "listen on %s port %u: ports below 1024 need CAP_NET_BIND_SERVICE; "
				 "configure another port",
				 host, port);
	default:
		return error_set(err, status_from_errno(r), r, "listen on %s port %u", host, port);
	}
}

static void freeaddrinfop(struct addrinfo **info)
{
	if (*info)
		freeaddrinfo(*info);
}

enum status listener_new_tcp(sd_event *event, const char *host, uint16_t port, listener_accept_fn *on_accept,
			     void *userdata, struct listener **ret, uint16_t *ret_port, struct error *err)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_socktype = SOCK_STREAM,
	};
	cleanup(freeaddrinfop) struct addrinfo *info = NULL;
	cleanup_close int fd = -EBADF;
	uint16_t bound = 0;
	char service[8];
	enum status status;
	int r;

	(void)str_format(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &info) != 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "listen on %s port %u: \"%s\" is no IPv4 or IPv6 address", host, port, host);
	r = bind_tcp(info, &fd);
	if (r < 0)
		return bind_error(r, host, port, err);
	status = bound_port(fd, &bound, err);
	if (status == STATUS_OK)
		status = listener_new(event, TAKE_FD(fd), on_accept, userdata, ret, err);
	if (status != STATUS_OK)
		return error_prefix(err, "%s port %u", host, port);
	*ret_port = bound;
	return STATUS_OK;
}
