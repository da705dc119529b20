# /etc/holdfast/volumes.d/web.hcl: what holdfast-volume@web.service holds.
name = "web"

volume "data" {
  source      = "web"
  access_mode = "single-node-writer"
  propagation = "host-to-task"
}
