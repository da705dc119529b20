/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One etcd of its own, to compare with: started by the benchmark with its defaults, ended with it, and spoken
 * to by our own gRPC client: as the claim server is, over TCP on loopback and TLS with certificates of both,
 * or in the clear over a unix socket. */

#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct etcd;

/** Start etcd on an empty data folder in @folder, with the certificate that @tls_dir has for a server, spoken
 * to with that of @client_cert; @tls_dir NULL: without TLS, over a socket in @folder. NULL when there is no
 * etcd on this machine. */
struct etcd *etcd_start(sd_event *event, const char *folder, const char *tls_dir, const char *client_cert);

/** One that somebody else has started, in the clear at the socket @path. */
struct etcd *etcd_connect(sd_event *event, const char *path);

/** End it, if it was started here; what it stored stays in the folder. NULL is allowed. */
void etcd_stop(struct etcd *etcd);

/** @n transactions, @width at a time, each as a claim writes: on the condition that its first key does not
 * exist, two values of @value_size. Returns how many a second. */
double etcd_transactions(struct etcd *etcd, int n, int width, int value_size);

/** Its process. */
pid_t etcd_pid(const struct etcd *etcd);
