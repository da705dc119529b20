variable "tag" {
  type = string
}

variable "datacenters" {
  type    = list(string)
  default = ["dc1"]
}

locals {
  image  = "registry.example.org/shop/web:${var.tag}"
  labels = { team = "shop" }
}

job "web" {
  datacenters = var.datacenters

  group "web" {
    count = 3

    update {
      max_parallel      = 1
      health_check      = "checks"
      min_healthy_time  = "30s"
      healthy_deadline  = "9m"
      progress_deadline = "10m"
      auto_revert       = true
      canary            = 1
    }

    task "web" {
      driver = "docker"

      config {
        image = local.image
      }

      env {
        VERSION = "${var.tag}"
        TEAM    = local.labels.team
        MEMBER  = "web-${NOMAD_ALLOC_INDEX}"
      }

      resources {
        memory = 128
      }
    }
  }
}
