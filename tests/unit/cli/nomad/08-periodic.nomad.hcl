job "backup" {
  datacenters = ["dc1"]
  type        = "batch"

  periodic {
    cron             = "0 3 * * *"
    prohibit_overlap = true
    time_zone        = "Europe/Berlin"
  }

  group "backup" {
    task "backup" {
      driver = "docker"

      config {
        image   = "restic/restic:0.17.0"
        command = "backup"
        args    = ["/data"]
        mount {
          type     = "bind"
          source   = "/srv/data"
          target   = "/data"
          readonly = true
        }
      }

      vault {
        policies = ["backup"]
      }

      resources {
        cores  = 2
        memory = 512
      }
    }
  }
}
