# /etc/holdfast/volumes.d/pgdata.hcl: what holdfast-volume@pgdata.service holds.
name = "pgdata"

volume "data" {
  source      = "pgdata"
  access_mode = "single-node-writer"
}
