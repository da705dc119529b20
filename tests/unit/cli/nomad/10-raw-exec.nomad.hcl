job "node-tools" {
  datacenters = ["dc1"]
  type        = "sysbatch"

  group "tools" {
    task "prune" {
      driver = "raw_exec"

      config {
        command = "/usr/bin/docker"
        args    = ["system", "prune", "-f"]
      }

      artifact {
        source = "https://example.org/tools.tar.gz"
      }
    }
  }
}
