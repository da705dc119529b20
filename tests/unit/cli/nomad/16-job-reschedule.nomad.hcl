# a job whose policies are those of all groups
job "workers" {
  datacenters = ["dc1"]
  type = "service"

  reschedule {
    delay     = "45s"
    unlimited = true
  }

  update {
    max_parallel = 0
  }

  group "mail" {
    task "mail" {
      driver = "docker"
      config { image = "example/worker:1", args = ["mail"] }
    }
  }

  group "pdf" {
    count = 2
    reschedule {
      delay = "10s"
    }
    task "pdf" {
      driver = "docker"
      config { image = "example/worker:1", args = ["pdf"] }
      resources { cpu = 100, memory = 100 }
    }
  }
}
