job "plugin-ebs-controller" {
  datacenters = ["dc1"]

  group "controller" {
    count = 2

    task "plugin" {
      driver = "docker"

      template {
        data        = <<EOH
AWS_ACCESS_KEY_ID={{ with nomadVar "ebs" }}{{ .key }}{{ end }}
EOH
        destination = "secrets/aws.env"
        env         = true
      }

      config {
        image = "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.30.0"
        args  = ["controller", "--endpoint=unix://csi/csi.sock", "--logtostderr", "--v=5"]
      }

      csi_plugin {
        id        = "aws-ebs0"
        type      = "controller"
        mount_dir = "/csi"
      }

      resources {
        cpu    = 500
        memory = 256
      }
    }
  }
}
