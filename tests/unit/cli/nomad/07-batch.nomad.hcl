job "report" {
  datacenters = ["dc1"]
  type        = "batch"

  group "report" {
    count = 1

    reschedule {
      attempts       = 3
      interval       = "72h"
      delay          = "1m"
      delay_function = "exponential"
      max_delay      = "10m"
      unlimited      = false
    }

    volume "out" {
      type      = "host"
      source    = "reports"
      read_only = false
    }

    task "report" {
      driver = "docker"

      config {
        image      = "example/report:3"
        entrypoint = ["/bin/sh", "-c"]
        command    = "report --out /out"
        work_dir   = "/srv"
      }

      restart {
        mode             = "delay"
        delay            = "0s"
        render_templates = true
      }

      volume_mount {
        volume           = "out"
        destination      = "/out"
        propagation_mode = "private"
      }
    }
  }
}
