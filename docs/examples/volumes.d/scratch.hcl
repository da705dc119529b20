# /etc/holdfast/volumes.d/scratch.hcl: what holdfast-volume@scratch.service holds.
name = "scratch"

volume "data" {
  source      = "scratch"
  access_mode = "single-node-writer"
}
