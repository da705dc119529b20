variable "replicas" {
  type    = number
  default = 2
}

variable "settings" {
  type = map(string)
  default = {
    level = "info"
    url   = "https://example.org"
  }
}

locals {
  version = "4.1"
  name    = "consumer-${local.version}"
}

job "consumer" {
  datacenters = ["dc1"]

  group "consumer" {
    count = var.replicas

    task "consumer" {
      driver = "docker"

      config {
        image = "example/consumer:${local.version}"
        args  = concat(["--verbose"], ["--name", local.name])
      }

      env {
        LEVEL = var.settings.level
        URL   = var.settings["url"]
        DEBUG = var.replicas > 1 ? "no" : "yes"
        TEXT  = "price $${amount}"
      }
    }
  }
}
