variable "image" {
  type    = string
  default = "postgres:16"
}

variable "memory" {
  type        = number
  description = "MiB"
  default     = 1024
}

job "postgres" {
  region      = "global"
  datacenters = ["dc1", "dc2"]
  priority    = 80

  group "db" {
    volume "data" {
      type            = "csi"
      source          = "pgdata"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
      read_only       = false

      mount_options {
        fs_type     = "ext4"
        mount_flags = ["noatime"]
      }
    }

    network {
      mode = "host"
      port "pg" {
        static = 5432
      }
    }

    task "server" {
      driver = "docker"
      user   = "999:999"

      config {
        image = var.image
        args  = ["-c", "port=${NOMAD_PORT_pg}", "-c", "cluster_name=${NOMAD_JOB_NAME}"]
      }

      env {
        POSTGRES_DB = "app"
        PGDATA      = "/var/lib/postgresql/data/pg"
        PORT        = 5432
      }

      volume_mount {
        volume      = "data"
        destination = "/var/lib/postgresql/data"
      }

      resources {
        cpu        = 1000
        memory     = 512
        memory_max = var.memory
      }

      kill_timeout = "1m30s"
      kill_signal  = "SIGINT"
    }
  }
}
