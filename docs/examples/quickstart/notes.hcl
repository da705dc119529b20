# /etc/holdfast/volumes.d/notes.hcl: what holdfast-volume@notes.service holds.
name = "notes"
node = "quickstart"

volume "data" {
  source      = "notes"
  access_mode = "single-node-writer"
}
