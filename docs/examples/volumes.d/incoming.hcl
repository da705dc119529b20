# /etc/holdfast/volumes.d/incoming.hcl: what holdfast-volume@incoming.service holds.
name = "incoming"

volume "data" {
  source      = "incoming"
  access_mode = "single-node-writer"
  propagation = "host-to-task"
}
