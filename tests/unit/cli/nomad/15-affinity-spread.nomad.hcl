job "api" {
  datacenters = ["eu-1", "eu-2"]
  node_pool   = "apps"
  all_at_once = false

  meta {
    owner = "platform"
  }

  affinity {
    attribute = "${node.class}"
    value     = "fast"
    weight    = 50
  }

  spread {
    attribute = "${node.datacenter}"
  }

  group "api" {
    count = 4

    scaling {
      enabled = true
      min     = 2
      max     = 10
    }

    migrate {
      max_parallel = 1
    }

    max_client_disconnect = "1h"
    shutdown_delay        = "5s"

    task "api" {
      driver = "docker"

      config {
        image      = "example/api:12"
        force_pull = true
        auth {
          username = "u"
          password = "p"
        }
      }

      identity {
        env = true
      }

      meta {
        kind = "api"
      }

      resources {
        cpu    = 200
        memory = 256
        device "nvidia/gpu" {
          count = 1
        }
      }
    }
  }
}
