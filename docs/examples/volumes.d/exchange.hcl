# /etc/holdfast/volumes.d/exchange.hcl: what holdfast-volume@exchange.service holds.
name = "exchange"

volume "data" {
  source      = "exchange"
  access_mode = "single-node-writer"
  propagation = "bidirectional"
}
