# A volume as operators of Nomad register it.
id        = "orders-db"
name      = "database of the order service"
namespace = "shop"
type      = "csi"
plugin_id = "block-fast"

external_id  = "pool1/orders-db"
capacity_min = "10GiB"
capacity_max = "20GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

capability {
  access_mode     = "single-node-reader-only" // a second block of the name
  attachment_mode = "block-device"
}

mount_options {
  fs_type     = "ext4"
  mount_flags = ["noatime",
                 "nodev",   # lists may
                 "nosuid",  /* span lines */
                ]
}

topology_request {
  required {
    topology { segments { "topology.block.csi.example/zone" = "zone-a" } }
    topology { segments { "topology.block.csi.example/zone" = "zone-b" } }
  }
}

parameters = { tier = "fast", "io size": 4096 }
secrets { "user key" = "quote \" backslash \\ tab \t euro \u20ac template $${x} %%{y}" }

context {
  unseal = <<-EOT
    first line
      indented, with $${dollar}

    last line
    EOT
  raw = <<END
  kept as it is
END
}
group "a" { size = 1 }
group "b" { size = -2.5e3 }
nothing = null
on = true
