job "kafka" {
  datacenters = ["dc1"]
  namespace   = "shop"

  update {
    max_parallel     = 1
    min_healthy_time = "30s"
    stagger          = "1m"
  }

  group "broker" {
    count = 3

    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }

    volume "data" {
      type            = "csi"
      source          = "kafka"
      per_alloc       = true
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "broker" {
      driver = "docker"

      config {
        image    = "apache/kafka:3.8.0"
        hostname = "kafka-${NOMAD_ALLOC_INDEX}"
        ulimit {
          nofile = "65536:65536"
        }
      }

      env {
        KAFKA_NODE_ID = "${NOMAD_ALLOC_INDEX}"
        KAFKA_RACK    = "${meta.rack}"
        HOST          = "${node.unique.name}"
      }

      volume_mount {
        volume      = "data"
        destination = "/var/lib/kafka"
      }

      resources {
        cpu    = 2000
        memory = 2048
      }
    }
  }
}
