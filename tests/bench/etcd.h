#pragma once
/* One etcd of its own, to compare with: started by the benchmark, spoken to over a unix socket by our own
 * gRPC client, ended with it. */

#include <stdbool.h>
#include <systemd/sd-event.h>

struct etcd;

/** Start etcd on an empty data folder in @folder. NULL when there is no etcd on this machine. */
struct etcd *etcd_start(sd_event *event, const char *folder);

/** End it; what it stored stays in the folder. NULL is allowed. */
void etcd_stop(struct etcd *etcd);

/** @n transactions, @width at a time, each as a claim writes: on the condition that its first key does not
 * exist, two values of @value_size. Returns how many a second. */
double etcd_transactions(struct etcd *etcd, int n, int width, int value_size);
